//! The limit: threads that forward every frame by the same sockets and in the same batches as FRER,
//! without parsing it.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libbpf_rs::Link;
use onbeat_frer_user::QUEUE_FRAMES;
use onbeat_link::raw::{
    BATCH, PacketReceiver, PacketSender, Pool, Umem, XskReceiver, XskSender, XskSocket,
};
use onbeat_netdev::Handle;
use onbeat_node::config::Backend;

use super::super::chain::{Chain, ChainDrops, Interface, Stations};
use super::super::frer_chain::{FrerNodeCounters, Protection};
use super::super::programs::Programs;
use super::{ChainNodes, NodePlacement};
use crate::bench::account::FrameAccount;
use crate::worker::Worker;
use crate::{Error, Result};

/// Capacity of a ring for copies of frames, as in FRER's ports.
const FRAMES: usize = 8192;

/// Maximum delay until a thread notices that it shall stop.
const LOOK: Duration = Duration::from_millis(100);

/// Egress ports of the frames of each ingress port.
type Routes = Vec<Vec<usize>>;

/// A chain of two bare forwarders.
#[derive(Debug)]
pub(in crate::bench) struct BareForwarders {
    chain: Chain,
    paths: usize,
    zero_copy: bool,
    // Dropped before the programs, which hold the entries of the sockets.
    _threads: [Worker<()>; 2],
    _attached: Vec<(Programs, Vec<Link>)>,
}

impl BareForwarders {
    pub(in crate::bench) fn start(
        stations: &Stations,
        chain: Chain,
        paths: usize,
        backend: Backend,
        placement: NodePlacement,
    ) -> Result<Self> {
        let a = [[&chain.a].as_slice(), &chain.a_paths.each_ref()[..paths]].concat();
        let b = [[&chain.b].as_slice(), &chain.b_paths.each_ref()[..paths]].concat();
        let mut routes: Routes = vec![Vec::new(); 1 + paths];
        routes[0] = (1..=paths).collect();
        // Frames of path 2 are the copies that FRER would eliminate.
        routes[1] = vec![0];
        let mut attached = Vec::new();
        let mut zero_copy = backend == Backend::Xsk;
        let mut forward = |handle: &Handle, interfaces: &[&Interface], routes: Routes| {
            if backend == Backend::Xsk {
                let mut programs = Programs::load()?;
                let (forwarder, links) =
                    XskForwarder::open(handle, interfaces, routes, &mut programs)?;
                zero_copy &= forwarder.zero_copy;
                attached.push((programs, links));
                start(forwarder, placement)
            } else {
                start(PacketForwarder::open(handle, interfaces, routes)?, placement)
            }
        };
        let threads =
            [forward(&stations.a, &a, routes.clone())?, forward(&stations.b, &b, routes)?];
        Ok(Self { chain, paths, zero_copy, _threads: threads, _attached: attached })
    }
}

impl ChainNodes for BareForwarders {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }

    fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    fn account(&self, dropped: ChainDrops) -> Result<FrameAccount> {
        let Chain { sent, received, .. } = self.chain;
        let (paths, counted) = (self.paths, FrerNodeCounters::default());
        Ok(FrameAccount {
            paths,
            protection: Protection::Streams(0),
            sent,
            received,
            dropped,
            counted,
        })
    }
}

/// A forwarding loop.
trait Forwarder: Send + 'static {
    /// Forwards up to a batch per port; returns the number of frames.
    fn round(&mut self) -> usize;

    /// The descriptors to wait for.
    fn fds(&self) -> Vec<libc::pollfd>;
}

fn start(mut forward: impl Forwarder, placement: NodePlacement) -> Result<Worker<()>> {
    let run = move |stop: &AtomicBool| {
        let Ok(_pinned) = placement.apply() else { return };
        let mut fds = forward.fds();
        while !stop.load(Ordering::Relaxed) {
            while forward.round() > 0 {}
            // SAFETY: the length is that of `fds`, which lives through the call. A spurious wake-up is
            // harmless.
            unsafe {
                libc::poll(fds.as_mut_ptr(), fds.len() as _, LOOK.as_millis() as libc::c_int)
            };
        }
    };
    Worker::start("bare", run)
}

fn entry(fd: &impl AsFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

struct PacketForwarder {
    receivers: Vec<PacketReceiver>,
    senders: Vec<PacketSender>,
    routes: Routes,
}

impl PacketForwarder {
    fn open(handle: &Handle, interfaces: &[&Interface], routes: Routes) -> Result<Self> {
        let namespace = handle.namespace();
        let (mut receivers, mut senders) = (Vec::new(), Vec::new());
        for Interface { name, .. } in interfaces {
            receivers.push(PacketReceiver::open(namespace, name, FRAMES)?);
            senders.push(PacketSender::open(namespace, name)?);
        }
        Ok(Self { receivers, senders, routes })
    }
}

impl Forwarder for PacketForwarder {
    fn round(&mut self) -> usize {
        let mut frames = 0;
        for (receiver, routes) in self.receivers.iter_mut().zip(&self.routes) {
            let came = receiver.look();
            for octets in receiver.iter().flatten() {
                routes.iter().for_each(|to| self.senders[*to].push(&[], octets));
            }
            receiver.release(came);
            frames += came;
        }
        if frames > 0 {
            self.senders.iter_mut().for_each(PacketSender::flush);
        }
        frames
    }

    fn fds(&self) -> Vec<libc::pollfd> {
        self.receivers.iter().map(entry).collect()
    }
}

struct XskForwarder {
    receivers: Vec<XskReceiver>,
    senders: Vec<XskSender>,
    umem: Umem,
    pool: Pool,
    routes: Routes,
    zero_copy: bool,
}

impl XskForwarder {
    fn open(
        handle: &Handle,
        interfaces: &[&Interface],
        routes: Routes,
        programs: &mut Programs,
    ) -> Result<(Self, Vec<Link>)> {
        let (umem, pool) = Umem::new((FRAMES * interfaces.len()) as u32)
            .map_err(|error| Error::io("allocate memory for frames", error))?;
        let (mut receivers, mut senders, mut links) = (Vec::new(), Vec::new(), Vec::new());
        let mut zero_copy = true;
        for interface in interfaces {
            links.push(programs.attach("to_socket", handle, interface)?);
            let (namespace, name) = (handle.namespace(), &interface.name);
            let socket = XskSocket::open(namespace, name, 0, &umem, QUEUE_FRAMES, false)?;
            programs.redirect_to_socket(interface, socket.as_fd())?;
            zero_copy &= socket.zero_copy();
            let (receiver, sender) = socket.split();
            receivers.push(receiver);
            senders.push(sender);
        }
        let mut xsk = Self { receivers, senders, umem, pool, routes, zero_copy };
        for receiver in &mut xsk.receivers {
            receiver.refill(&mut xsk.pool, QUEUE_FRAMES);
        }
        Ok((xsk, links))
    }
}

impl Forwarder for XskForwarder {
    fn round(&mut self) -> usize {
        let Self { receivers, senders, umem, pool, routes, .. } = self;
        let mut frames = 0;
        for (receiver, routes) in receivers.iter_mut().zip(routes) {
            let before = frames;
            while frames < before + BATCH {
                let Some(frame) = receiver.frame(pool) else { break };
                frames += 1;
                let Some((last, others)) = routes.split_last() else {
                    pool.give(frame);
                    continue;
                };
                for to in others {
                    senders[*to].push_copy(&[], umem.octets(&frame), pool);
                }
                senders[*last].push(frame, pool);
            }
            if frames > before {
                receiver.refill(pool, QUEUE_FRAMES);
            }
        }
        if frames > 0 {
            senders.iter_mut().for_each(|sender| sender.flush(pool));
        }
        frames
    }

    fn fds(&self) -> Vec<libc::pollfd> {
        self.receivers.iter().map(entry).collect()
    }
}

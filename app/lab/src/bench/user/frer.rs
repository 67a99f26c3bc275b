//! Nodes A and B with FRER in user space.

use std::io;
use std::os::fd::BorrowedFd;

use onbeat_frer::plane::Plane;
use onbeat_frer::spec::{PortId, Stream};
use onbeat_frer_user::{CopyMode, Forwarder, PollMode, Port, Traffic};
use onbeat_frer_xdp::Steering;
use onbeat_link::raw::Umem;
use onbeat_netdev::Handle;
use onbeat_node::config::Backend;

use super::super::Functions;
use super::super::chain::{Chain, ChainDrops, Interface, Stations};
use super::super::frer_chain::{
    FrerNodeCounters, HISTORY_LENGTH, LONG_HISTORY_LENGTH, Protection, configuration,
};
use super::{ChainNodes, NodePlacement};
use crate::bench::account::FrameAccount;
use crate::{Error, Result};

/// Frames of the queue of a port by packet sockets, as in a node.
const FRAMES: usize = 8192;

/// A chain with FRER in two threads.
#[derive(Debug)]
pub(super) struct UserSpaceChain {
    chain: Chain,
    /// Paths in use, 1 or 2.
    pub(super) paths: usize,
    /// Number of streams configured.
    pub(super) streams: u32,
    nodes: [UserSpaceNode; 2],
}

#[derive(Debug)]
struct UserSpaceNode {
    forwarder: Option<Forwarder>,
    zero_copy: bool,
    ports: usize,
    _steering: Option<Steering>,
}

impl UserSpaceChain {
    pub(super) fn start(
        stations: &Stations,
        chain: Chain,
        paths: usize,
        streams: u32,
        backend: Backend,
        placement: NodePlacement,
    ) -> Result<Self> {
        let history = if placement.real_time { HISTORY_LENGTH } else { LONG_HISTORY_LENGTH };
        let [generate, recover] = configuration(paths, streams, history, Functions::default());
        let [a, b] = chain.ports(paths);
        let a = UserSpaceNode::start(&stations.a, &a, &generate, backend, placement)?;
        let b = UserSpaceNode::start(&stations.b, &b, &recover, backend, placement)?;
        Ok(Self { chain, paths, streams, nodes: [a, b] })
    }
}

impl ChainNodes for UserSpaceChain {
    fn chain(&mut self) -> &mut Chain {
        &mut self.chain
    }

    fn zero_copy(&self) -> bool {
        self.nodes.iter().all(|node| node.zero_copy)
    }

    fn account(&self, mut dropped: ChainDrops) -> Result<FrameAccount> {
        let counted = FrerNodeCounters::sum(self.streams, |node, stream| {
            let stream = stream.to_owned();
            self.nodes[node].run(move |inside| inside.plane.read(&stream, inside.now_ns))
        })?;
        dropped.to_a += self.nodes[0].traffic(0)?.no_room;
        for (path, dropped) in dropped.on_path[..self.paths].iter_mut().enumerate() {
            *dropped += self.nodes[1].traffic(1 + path)?.no_room;
        }
        let Chain { sent, received, .. } = self.chain;
        let (paths, protection) = (self.paths, Protection::Streams(self.streams));
        Ok(FrameAccount { paths, protection, sent, received, dropped, counted })
    }
}

impl UserSpaceNode {
    fn start(
        handle: &Handle,
        interfaces: &[&Interface],
        streams: &[Stream],
        backend: Backend,
        placement: NodePlacement,
    ) -> Result<Self> {
        let mut plane = Plane::new(interfaces.len());
        plane.change(&[], streams).map_err(|refusal| Error::Invalid(refusal.to_string()))?;
        let prepare = move || placement.apply().map_err(io::Error::other);
        let forwarder = Forwarder::start(plane, PollMode::Sleep, prepare).map_err(failed)?;
        let mut node = Self {
            forwarder: Some(forwarder),
            zero_copy: false,
            ports: interfaces.len(),
            _steering: None,
        };
        match backend {
            Backend::Xsk => node.open_xsk(handle, interfaces, streams)?,
            _ => node.open_packet(handle, interfaces)?,
        }
        Ok(node)
    }

    fn open_packet(&self, handle: &Handle, interfaces: &[&Interface]) -> Result<()> {
        for (number, interface) in interfaces.iter().enumerate() {
            let port = Port::packet(handle.namespace(), &interface.name, FRAMES);
            self.set_port(number, port.map_err(failed)?)?;
        }
        Ok(())
    }

    fn open_xsk(
        &mut self,
        handle: &Handle,
        interfaces: &[&Interface],
        streams: &[Stream],
    ) -> Result<()> {
        let namespace = handle.namespace();
        let of_steering = |error| Error::io("steer frames to AF_XDP", io::Error::other(error));
        let (umem, pool) = Umem::new((FRAMES * interfaces.len()) as u32)
            .map_err(|error| Error::io("allocate memory for frames", error))?;
        self.run(move |inside| inside.set_pool(pool))?;
        let mut steering = Steering::open(streams.len() as u32).map_err(of_steering)?;
        self.zero_copy = true;
        for (number, interface) in interfaces.iter().enumerate() {
            // Interfaces are identified by their index in the thread's namespace.
            namespace.run(|| steering.attach(&interface.port(), false))?.map_err(of_steering)?;
            let port = Port::xsk(
                namespace,
                &interface.name,
                &umem,
                false,
                |queue, socket: BorrowedFd<'_>| {
                    let delivered = steering.deliver(&interface.name, queue, socket);
                    delivered.map_err(|error| onbeat_frer_user::Error::System {
                        what: "assign a queue to its socket",
                        source: io::Error::other(error),
                    })
                },
            );
            let port = port.map_err(failed)?;
            self.zero_copy &= port.copies() == Some(CopyMode::None);
            self.set_port(number, port)?;
        }
        let names: Vec<String> =
            interfaces.iter().map(|interface| interface.name.clone()).collect();
        steering.apply(&names, streams).map_err(of_steering)?;
        self._steering = Some(steering);
        Ok(())
    }

    fn set_port(&self, number: usize, port: Port) -> Result<()> {
        let control = self.forwarder.as_ref().expect("the forwarder runs").control();
        control.set_port(PortId(number as u8), Some(port)).map_err(failed)
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut onbeat_frer_user::ThreadState) -> T + Send + 'static,
    ) -> Result<T> {
        self.forwarder.as_ref().expect("the forwarder runs").control().run(work).map_err(failed)
    }

    fn traffic(&self, port: usize) -> Result<Traffic> {
        debug_assert!(port < self.ports);
        let traffic = self.run(move |inside| inside.traffic(PortId(port as u8)))?;
        traffic.unwrap_or_else(|| Ok(Traffic::default())).map_err(failed)
    }
}

impl Drop for UserSpaceNode {
    fn drop(&mut self) {
        self.forwarder.take().into_iter().for_each(Forwarder::stop);
    }
}

fn failed(error: onbeat_frer_user::Error) -> Error {
    Error::io("run FRER in user space", io::Error::other(error))
}

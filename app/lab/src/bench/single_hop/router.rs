//! A router whose neighbors cost no time: packets to it bypass their stacks, and packets from it are
//! dropped by the driver.
//!
//! ```text
//! packet socket or XDP: eth0 ---- in [ router ] out ---- eth0: XDP
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use onbeat_hooks::{Detail, Device, Filter, Hop};
use onbeat_netdev::{Ethtool, Handle, Namespace, PacketSocket, VethEnd};
use onbeat_realtime::interrupt;
use onbeat_wire::{EtherType, Ports, ethernet, ipv4, udp};

use super::super::chain::Interface;
use super::super::programs::{Programs, REPLAYED};
use crate::traffic::{BATCH, socket};
use crate::{Error, Result};

/// Octets of a frame, without FCS: 192 as in the paper.
const FRAME: usize = 192;
const HEADERS: usize = 14 + ipv4::HEADER_LEN + udp::HEADER_LEN;
const _: () = assert!(HEADERS == REPLAYED);

const ARRIVES: &str = "in";
const LEAVES: &str = "out";

/// Time within which a veth pair that was set up has carrier.
const BOUND: Duration = Duration::from_secs(10);

/// Arrival mode of packets at the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrivalMode {
    /// One by one, from a packet socket: the driver puts each into the CPU's queue, and each has a
    /// softirq of its own.
    Queued,
    /// In batches, made in the kernel: the driver receives them in its poll, as a NIC's driver.
    Polled,
}

impl ArrivalMode {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued one by one",
            Self::Polled => "polled",
        }
    }
}

/// Frames of a poll: the budget of a driver's poll.
const POLLED: u32 = 64;
/// Frames between two checks of the clock.
const REPLAYED_AT_ONCE: u32 = 64 * POLLED;

enum Source {
    Socket { socket: PacketSocket, headers: Vec<[u8; HEADERS]>, payload: Vec<u8> },
    Kernel { frame: Vec<u8> },
}

pub(super) struct Router {
    sender: Handle,
    router: Handle,
    /// Drops the packets: removed with its handle.
    _receiver: Handle,
    source: Source,
    programs: Programs,
    _sink: Link,
}

impl Router {
    pub(super) fn new(arrivals: ArrivalMode) -> Result<Self> {
        let host = || Handle::in_namespace(&Namespace::with_loopback()?);
        let (sender, router, receiver) = (host()?, host()?, host()?);
        let ends = [(&sender, ARRIVES, net(1, 1)), (&receiver, LEAVES, net(2, 1))];
        for (host, near, address) in ends {
            let far = VethEnd::new(near).namespace(router.namespace());
            host.create_veth(&VethEnd::new("eth0"), &far)?;
            // A veth polls if it may merge packets. The other end needs this when it is set up, before
            // it accepts frames of XDP.
            let ethtool = Ethtool::in_namespace(router.namespace())?;
            ethtool.set_features(near, &[("gro", arrivals == ArrivalMode::Polled)])?;
            for (handle, name) in [(host, "eth0"), (&router, near)] {
                handle.set_ipv6(name, false)?;
                // No host behind it answers, and none has to: frames go to the interface's own address.
                handle.set_arp(name, false)?;
                handle.set_up(name)?;
            }
            router.add_address(near, IpAddr::V4(address), 24)?;
            router.wait_carrier(near, BOUND)?;
        }
        router.set_forwarding(true)?;
        let programs = Programs::load()?;
        let interface = |handle: &Handle| {
            let link = handle.link("eth0")?;
            Ok::<_, Error>(Interface { name: link.name, index: link.index, queues: link.rx_queues })
        };
        let sink = programs.attach("nic", &receiver, &interface(&receiver)?)?;
        let header = header(&router, &sender)?;
        let payload = vec![0; FRAME - HEADERS];
        let source = match arrivals {
            ArrivalMode::Queued => Source::Socket {
                socket: socket::sender(sender.namespace(), "eth0")?,
                headers: vec![header; BATCH],
                payload,
            },
            ArrivalMode::Polled => {
                programs.configure_replay(&interface(&sender)?, &header)?;
                Source::Kernel { frame: [&header[..], &payload].concat() }
            }
        };
        Ok(Self { sender, router, source, _receiver: receiver, programs, _sink: sink })
    }

    /// The hop that the hooks follow.
    pub(super) fn hop(&self, detail: Detail) -> Result<Hop> {
        let find = |name| Ok::<_, Error>(self.router.namespace().run(|| Device::find(name))??);
        Ok(Hop {
            arrivals: find(ARRIVES)?,
            departures: Some(find(LEAVES)?),
            filter: Filter::default(),
            detail,
            device_stamps: false,
        })
    }

    /// Sends packets for this time; returns the number forwarded, and nanoseconds per packet.
    pub(super) fn pass(&mut self, slice: Duration) -> Result<(u64, f64)> {
        let before = self.programs.received()?;
        let begun = Instant::now();
        // The kernel's own clock excludes the start-up time of its source.
        let (mut sent, mut sending_ns) = (0, 0.0);
        while begun.elapsed() < slice {
            interrupt::check()?;
            match &mut self.source {
                Source::Socket { socket, headers, payload } => {
                    let sends = |error| Error::io("send packets to a router", error);
                    let frames = headers.iter().map(|header| [&header[..], &payload[..]]);
                    socket.send_parts(frames, 0).map_err(sends)?;
                }
                Source::Kernel { frame } => {
                    let programs = &mut self.programs;
                    let send = || programs.send("replay", frame, REPLAYED_AT_ONCE, POLLED);
                    sending_ns += self.sender.namespace().run(send)??;
                    sent += 1;
                }
            }
        }
        let elapsed_ns = begun.elapsed().as_nanos() as f64;
        let passed = self.programs.received()? - before;
        if passed == 0 {
            let lost = "no packet passed through the router of the bench: a firewall rule of the host drops them";
            return Err(Error::Invalid(lost.into()));
        }
        Ok(match self.source {
            Source::Socket { .. } => (passed, elapsed_ns / passed.max(1) as f64),
            Source::Kernel { .. } => (passed, sending_ns / f64::from(sent.max(1))),
        })
    }
}

fn net(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, net, host)
}

/// The headers of a packet from a host behind one interface of the router to a host behind the other.
fn header(router: &Handle, sender: &Handle) -> Result<[u8; HEADERS]> {
    let mac = |handle: &Handle, name| -> Result<_> {
        let mac = handle.link(name)?.mac;
        mac.ok_or_else(|| Error::Invalid(format!("{name} has no MAC address")))
    };
    let mut octets = [0; HEADERS];
    let payload_len = (FRAME - HEADERS) as u16;
    let link = ethernet::Repr {
        destination: mac(router, ARRIVES)?,
        source: mac(sender, "eth0")?,
        ethertype: EtherType::IPV4,
    };
    let internet = ipv4::Repr::new(net(1, 2), net(2, 2), payload_len + udp::HEADER_LEN as u16);
    let datagram = udp::Repr { ports: Ports { source: 5000, destination: 5001 }, payload_len };
    let written = link
        .emit(&mut octets)
        .and_then(|_| internet.emit(&mut octets[14..]))
        .and_then(|_| datagram.emit(&mut octets[14 + ipv4::HEADER_LEN..]));
    written.expect("the buffer is large enough for the headers");
    Ok(octets)
}

//! A router whose neighbours cost nothing: what is sent to it comes around their stacks, and what it
//! sends is dropped by the driver.
//!
//! ```text
//! packet socket: eth0 ---- in [ router ] out ---- eth0: XDP
//! ```

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use libbpf_rs::Link;
use onbeat_hooks::{Device, Filter, Hop};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_wire::{EtherType, Ports, ethernet, ipv4, udp};

use super::super::chain::Interface;
use super::super::programs::Programs;
use crate::traffic::{BATCH, PacketSocket};
use crate::{Error, Result, interrupt};

/// Octets of a frame, FCS not included: the paper's 192.
const FRAME: usize = 192;
const HEADERS: usize = 14 + ipv4::HEADER_LEN + udp::HEADER_LEN;

const ARRIVES: &str = "in";
const LEAVES: &str = "out";

/// Within this time a veth pair that was turned on has carrier.
const BOUND: Duration = Duration::from_secs(10);

pub(super) struct Router {
    router: Handle,
    /// Where packets end: gone with its handle.
    _receiver: Handle,
    socket: PacketSocket,
    headers: Vec<[u8; HEADERS]>,
    payload: Vec<u8>,
    programs: Programs,
    _sink: Link,
}

impl Router {
    pub(super) fn new() -> Result<Self> {
        let host = || Handle::in_namespace(&Namespace::with_loopback()?);
        let (sender, router, receiver) = (host()?, host()?, host()?);
        let ends = [(&sender, ARRIVES, net(1, 1)), (&receiver, LEAVES, net(2, 1))];
        for (host, near, address) in ends {
            let far = VethEnd::new(near).namespace(router.namespace());
            host.create_veth(&VethEnd::new("eth0"), &far)?;
            for (handle, name) in [(host, "eth0"), (&router, near)] {
                handle.set_ipv6(name, false)?;
                // Nobody behind it answers, and nobody has to: frames go to the interface's own address.
                handle.set_arp(name, false)?;
                handle.set_up(name)?;
            }
            router.add_address(near, IpAddr::V4(address), 24)?;
            router.wait_carrier(near, BOUND)?;
        }
        router.set_forwarding(true)?;
        let mut programs = Programs::load()?;
        let link = receiver.link("eth0")?;
        let interface = Interface { name: link.name, index: link.index };
        let sink = programs.attach("sink", &receiver, &interface)?;
        let header = header(&router, &sender)?;
        Ok(Self {
            socket: PacketSocket::sender(sender.namespace(), "eth0")?,
            headers: vec![header; BATCH],
            payload: vec![0; FRAME - HEADERS],
            router,
            _receiver: receiver,
            programs,
            _sink: sink,
        })
    }

    /// What the hooks follow through it.
    pub(super) fn hop(&self) -> Result<Hop> {
        let find = |name| Ok::<_, Error>(self.router.namespace().run(|| Device::find(name))??);
        Ok(Hop {
            arrivals: find(ARRIVES)?,
            departures: Some(find(LEAVES)?),
            filter: Filter::default(),
        })
    }

    /// Sends packets for so long; how many came out, and what one took, in nanoseconds.
    pub(super) fn pass(&mut self, slice: Duration) -> Result<(u64, f64)> {
        let before = self.programs.received()?;
        let begun = Instant::now();
        while begun.elapsed() < slice {
            interrupt::check()?;
            self.socket
                .send_headers(&self.headers, &self.payload)
                .map_err(|error| Error::io("send packets to a router", error))?;
        }
        let elapsed_ns = begun.elapsed().as_nanos() as f64;
        let passed = self.programs.received()? - before;
        Ok((passed, elapsed_ns / passed.max(1) as f64))
    }
}

fn net(net: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, net, host)
}

/// The headers of a packet from behind one interface of the router to behind the other.
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
    written.expect("there is room for the headers");
    Ok(octets)
}

//! The node as a host of an IP network: a TAP interface whose frames use the asynchronous phase.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use onbeat_netdev::{Handle, Namespace, TapInterface};
use onbeat_powerlink::ethernet;
use onbeat_powerlink::nmt::State;
use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::{EtherType, MacAddress};

use crate::Station;
use crate::datagrams::Datagrams;
use crate::error::StartError;

/// EtherTypes that its port receives besides POWERLINK: IP and address resolution.
pub(crate) const ETHER_TYPES: [EtherType; 2] = [EtherType::IPV4, EtherType::ARP];

/// Counters of a virtual Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EthernetCounts {
    /// Frames of the host that the node accepted.
    pub from_host: u64,
    /// Frames of the bus that the host accepted.
    pub to_host: u64,
    /// Frames that the node could not send, or the host had no room for.
    pub dropped: u64,
}

/// A TAP interface of the host, and its counters.
#[derive(Debug)]
pub(crate) struct VirtualEthernet {
    tap: TapInterface,
    name: String,
    /// Another process removed the interface.
    removed: bool,
    address: Ipv4Addr,
    /// For a frame of maximum length.
    buffer: Vec<u8>,
    passed: EthernetCounts,
    datagrams: Datagrams,
    /// Readable if the interface or a socket of the datagrams is.
    readable: Epoll,
    _quiet: Option<StackIsolation>,
}

impl VirtualEthernet {
    /// Creates the interface `name` of a station with the address `mac`, assigns its IP address, and sets it
    /// up.
    pub(crate) fn create(
        namespace: &Namespace,
        name: &str,
        station: &impl Station,
        mac: MacAddress,
        quiet: Option<StackIsolation>,
    ) -> Result<Self, StartError> {
        let tap = TapInterface::create(namespace, name)?;
        let handle = Handle::in_namespace(namespace)?;
        let (address, mtu) = (ethernet::address(station.node()), station.mtu());
        handle.set_mac(name, mac)?;
        handle.set_mtu(name, mtu as u32)?;
        // Autonomous IPv6 traffic would use asynchronous phases of others.
        handle.set_ipv6(name, false)?;
        handle.add_address(name, address.into(), ethernet::MASK.to_bits().leading_ones() as u8)?;
        handle.set_up(name)?;
        let datagrams = Datagrams::open(namespace, name, address)?;
        Ok(VirtualEthernet {
            readable: readable(&tap, &datagrams).map_err(StartError::Poll)?,
            tap,
            name: name.to_owned(),
            removed: false,
            address,
            datagrams,
            buffer: vec![0; HEADER_LEN + mtu],
            passed: EthernetCounts::default(),
            _quiet: quiet,
        })
    }

    /// Serves SDO over UDP, and passes frames of the host to the station while it has room; returns whether it
    /// accepted any.
    pub(crate) fn serve(&mut self, now_ns: u64, station: &mut impl Station) -> bool {
        let before = self.passed.from_host;
        let served = self.datagrams.serve(now_ns, station);
        while station.has_room() && !self.removed {
            let len = match self.tap.receive(&mut self.buffer) {
                Ok(Some(len)) => len,
                Err(error) if TapInterface::is_removal(&error) => {
                    self.removed = true;
                    tracing::warn!("{}", removal(&self.name));
                    break;
                }
                // An interface that is down sends nothing.
                Ok(None) | Err(_) => break,
            };
            match station.send_other(&self.buffer[..len]) {
                Ok(()) => self.passed.from_host += 1,
                Err(_) => self.passed.dropped += 1,
            }
        }
        served || self.passed.from_host != before
    }

    /// The descriptor for which the node's thread waits besides its port: in BASIC_ETHERNET no frames of a cycle wake it.
    pub(crate) fn awaited(&self, station: &impl Station) -> Option<BorrowedFd<'_>> {
        // Frames that it does not accept would wake it again and again.
        let accepts = station.state() == State::BasicEthernet && station.has_room();
        (accepts && !self.removed).then(|| self.readable.0.as_fd())
    }

    /// Passes a frame of the bus to the host, unless it is POWERLINK's.
    pub(crate) fn heard(&mut self, frame: &[u8]) {
        let is_powerlink = EtherType::POWERLINK.0.to_be_bytes();
        if frame.get(12..HEADER_LEN).is_none_or(|ether_type| ether_type == is_powerlink) {
            return;
        }
        match self.tap.send(frame) {
            Ok(true) => self.passed.to_host += 1,
            Ok(false) | Err(_) => self.passed.dropped += 1,
        }
    }

    /// The removal of the interface by another process, as text.
    pub(crate) fn removal(&self) -> Option<String> {
        self.removed.then(|| removal(&self.name))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(crate) fn passed(&self) -> EthernetCounts {
        self.passed
    }
}

fn readable(tap: &TapInterface, datagrams: &Datagrams) -> io::Result<Epoll> {
    let readable = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for fd in datagrams.sockets().into_iter().chain([tap.as_fd()]) {
        readable.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    }
    Ok(readable)
}

fn removal(name: &str) -> String {
    format!(
        "virtual Ethernet {name} was removed: the node runs without it; restart the node to create it again"
    )
}

/// Keeps the network stack from receiving on the bus's own interface the packets of the virtual one: a packet
/// socket gets copies, so the stack would answer there as well, at any time. Dropping it restores the settings.
#[derive(Debug)]
pub(crate) struct StackIsolation {
    handle: Handle,
    interface: String,
    arp: bool,
    reverse_path: Option<String>,
}

/// Values of reverse path filtering: frames whose source is reached by another interface are dropped, or not.
const STRICT: &str = "1";
const LOOSE: &str = "2";

impl StackIsolation {
    pub(crate) fn begin(namespace: &Namespace, interface: &str) -> Result<Self, StartError> {
        let handle = Handle::in_namespace(namespace)?;
        // The kernel uses the higher of the two.
        let all = reverse_path(&handle, "all", None)?;
        if all.as_deref() == Some(LOOSE) {
            return Err(StartError::ReversePath { interface: interface.to_owned() });
        }
        let arp = handle.link(interface)?.arp;
        handle.set_arp(interface, false)?;
        let mut quiet =
            StackIsolation { handle, interface: interface.to_owned(), arp, reverse_path: None };
        quiet.reverse_path = reverse_path(&quiet.handle, interface, Some(STRICT))?;
        Ok(quiet)
    }
}

impl Drop for StackIsolation {
    fn drop(&mut self) {
        // The interface may be gone, with all of its settings.
        if let Some(before) = &self.reverse_path {
            let _ = reverse_path(&self.handle, &self.interface, Some(before));
        }
        if self.arp {
            let _ = self.handle.set_arp(&self.interface, true);
        }
    }
}

/// Returns the setting, and then sets it to `to`; `None` if the kernel has no IPv4.
fn reverse_path(handle: &Handle, of: &str, to: Option<&str>) -> Result<Option<String>, StartError> {
    let path = format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    // /proc/sys/net shows the namespace of the thread that opens it.
    let done = handle.namespace().run(|| {
        let before = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read?.trim().to_owned(),
        };
        to.map(|to| fs::write(&path, to)).transpose()?;
        Ok(Some(before))
    })?;
    done.map_err(|source| StartError::Setting { path, source })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use nix::sys::epoll::EpollTimeout;
    use onbeat_powerlink::Node;
    use onbeat_powerlink::cn::{Config, ControlledNode};
    use onbeat_powerlink::od::profile::{self, Identity};
    use onbeat_powerlink::sdo::UDP_PORT;
    use onbeat_testing::{Feature, require_all};
    use onbeat_wire::powerlink::NodeId;

    use super::*;

    /// Longest wait for an event that always comes, in milliseconds.
    const BOUND_MS: u16 = 10_000;

    impl VirtualEthernet {
        fn is_readable(&self, timeout_ms: u16) -> bool {
            let mut events = [EpollEvent::empty()];
            self.readable.wait(&mut events, EpollTimeout::from(timeout_ms)).unwrap() > 0
        }
    }

    /// Frames and datagrams of the host end a wait in BASIC_ETHERNET, and only there.
    #[test]
    fn frames_and_datagrams_of_the_host_end_a_wait() {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let namespace = Namespace::with_loopback().unwrap();
        let objects = profile::controlled_node(&Identity::default(), 1).unwrap();
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let mut node = ControlledNode::new(Config { node: NodeId(1), mac, objects }).unwrap();
        node.serve_datagrams();
        node.start(0);
        let mut host = VirtualEthernet::create(&namespace, "plk0", &node, mac, None).unwrap();
        assert!(host.awaited(&node).is_none(), "in NOT_ACTIVE");
        node.handle_deadline(node.next_deadline_ns().unwrap());
        assert!(host.awaited(&node).is_some());

        let program = namespace.run(|| UdpSocket::bind((host.address, 0))).unwrap().unwrap();
        for to in [host.address, Ipv4Addr::new(192, 168, 100, 7)] {
            assert!(!host.is_readable(0), "before a datagram to {to}");
            program.send_to(b"datagram", (to, UDP_PORT)).unwrap();
            assert!(host.is_readable(BOUND_MS), "a datagram to {to}");
            while host.is_readable(0) {
                host.serve(0, &mut node);
                while node.poll_transmit().is_some() {}
            }
        }
        host.removed = true;
        assert!(host.awaited(&node).is_none(), "an interface that was removed is always readable");
    }
}

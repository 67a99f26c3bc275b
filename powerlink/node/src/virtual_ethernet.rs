//! The node as a host of an IP network: a TAP interface whose frames use the asynchronous phase.

use std::fs;
use std::net::Ipv4Addr;

use onbeat_netdev::{Handle, Namespace, TapInterface};
use onbeat_powerlink::ethernet;
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
        Ok(VirtualEthernet {
            tap,
            name: name.to_owned(),
            removed: false,
            address,
            datagrams: Datagrams::open(namespace, name, address)?,
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

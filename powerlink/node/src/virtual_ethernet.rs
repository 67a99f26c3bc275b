//! The node as a host of an IP network: a TAP interface whose frames travel in the asynchronous phase.

use std::fs;
use std::net::Ipv4Addr;

use onbeat_netdev::{Handle, Namespace, TapInterface};
use onbeat_powerlink::ethernet;
use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::{EtherType, MacAddress};

use crate::Station;
use crate::error::StartError;

/// What a port receives for it beside POWERLINK: IP, and what finds addresses.
pub(crate) const ETHER_TYPES: [EtherType; 2] = [EtherType::IPV4, EtherType::ARP];

/// What passed a virtual Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Passed {
    /// Frames that the host sent, and that the node took.
    pub from_host: u64,
    /// Frames from the bus that the host took.
    pub to_host: u64,
    /// Frames that the node could not send or the host had no room for.
    pub dropped: u64,
}

/// An interface of the host, and what passed it.
#[derive(Debug)]
pub(crate) struct VirtualEthernet {
    tap: TapInterface,
    name: String,
    address: Ipv4Addr,
    /// Of the longest frame.
    buffer: Vec<u8>,
    passed: Passed,
    _quiet: Option<Quiet>,
}

impl VirtualEthernet {
    /// Makes the interface `name` of a station that sends from `mac`: with its address, and on.
    pub(crate) fn create(
        namespace: &Namespace,
        name: &str,
        station: &impl Station,
        mac: MacAddress,
        quiet: Option<Quiet>,
    ) -> Result<Self, StartError> {
        let tap = TapInterface::create(namespace, name)?;
        let handle = Handle::in_namespace(namespace)?;
        let (address, mtu) = (ethernet::address(station.node()), station.mtu());
        handle.set_mac(name, mac)?;
        handle.set_mtu(name, mtu as u32)?;
        // What IPv6 sends by itself would take asynchronous phases from others.
        handle.set_ipv6(name, false)?;
        handle.add_address(name, address.into(), ethernet::MASK.to_bits().leading_ones() as u8)?;
        handle.set_up(name)?;
        Ok(VirtualEthernet {
            tap,
            name: name.to_owned(),
            address,
            buffer: vec![0; HEADER_LEN + mtu],
            passed: Passed::default(),
            _quiet: quiet,
        })
    }

    /// Gives the station what the host sends, as long as it has room; whether it took anything.
    pub(crate) fn serve(&mut self, station: &mut impl Station) -> bool {
        let before = self.passed.from_host;
        while station.has_room() {
            // An interface that somebody turned off sends nothing.
            let Ok(Some(len)) = self.tap.receive(&mut self.buffer) else { break };
            match station.send_other(&self.buffer[..len]) {
                Ok(()) => self.passed.from_host += 1,
                Err(_) => self.passed.dropped += 1,
            }
        }
        self.passed.from_host != before
    }

    /// A frame was on the bus: the host gets it where it is none of POWERLINK.
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

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }
}

/// Keeps the network stack from seeing on the bus's own interface what it gets by the virtual one: with
/// a packet socket, which gets copies, it would answer there, at any time and twice. Put back when
/// dropped.
#[derive(Debug)]
pub(crate) struct Quiet {
    handle: Handle,
    interface: String,
    arp: bool,
    reverse_path: Option<String>,
}

/// Of reverse path filtering: frames whose sender is reached by another interface are dropped.
const STRICT: &str = "1";
const LOOSE: &str = "2";

impl Quiet {
    pub(crate) fn begin(namespace: &Namespace, interface: &str) -> Result<Self, StartError> {
        let handle = Handle::in_namespace(namespace)?;
        // The higher of the two counts.
        let all = reverse_path(&handle, "all", None)?;
        if all.as_deref() == Some(LOOSE) {
            return Err(StartError::ReversePath { interface: interface.to_owned() });
        }
        let arp = handle.link(interface)?.arp;
        handle.set_arp(interface, false)?;
        let mut quiet = Quiet { handle, interface: interface.to_owned(), arp, reverse_path: None };
        quiet.reverse_path = reverse_path(&quiet.handle, interface, Some(STRICT))?;
        Ok(quiet)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // The interface may be gone, and all of this with it.
        if let Some(before) = &self.reverse_path {
            let _ = reverse_path(&self.handle, &self.interface, Some(before));
        }
        if self.arp {
            let _ = self.handle.set_arp(&self.interface, true);
        }
    }
}

/// What the setting is, before it is set to something; `None` where the kernel has no IPv4.
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

//! The XDP program of a port: loading it, and its hold on the interface.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenMapMut};
use onbeat_bpf::Link;
use onbeat_netdev::{Namespace, XdpMode};
use onbeat_wire::{EtherType, MacAddress};

use super::skeleton::types::rodata;
use crate::error::failed;
use crate::{Error, Result};

/// A loaded program with its maps; off its interface, and gone, with the value.
#[derive(Debug)]
pub(crate) struct Program {
    /// Nothing else holds the link: with the process it goes, however that ends.
    link: Option<Link>,
    mode: XdpMode,
    object: Object,
}

/// A number of which the lowest octet is the address's first.
fn number(address: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

impl Program {
    /// Loads an object for frames of `ether_types` (of any, where there are none) to `own`;
    /// `size` gives a map its size.
    pub(super) fn load(
        interface: &str,
        object: &[u8],
        ether_types: &[EtherType],
        own: MacAddress,
        mut size: impl FnMut(&mut OpenMapMut<'_>) -> libbpf_rs::Result<()>,
    ) -> Result<Self> {
        let mut load = || {
            let mut open = ObjectBuilder::default().open_memory(object)?;
            for mut map in open.maps_mut() {
                match map.initial_value_mut() {
                    Some(constants) => configure(constants, ether_types, own),
                    None => size(&mut map)?,
                }
            }
            open.load()
        };
        let operation = "load the XDP program (it needs CAP_BPF and CAP_NET_ADMIN, and Linux 6.1)";
        let object = load().map_err(|error| bpf_failed(interface, operation, &error))?;
        Ok(Self { link: None, mode: XdpMode::Native, object })
    }

    /// Puts the program on an interface that has none: in the driver, else, unless `only` says
    /// where, in the network stack.
    pub(super) fn attach(
        &mut self,
        namespace: &Namespace,
        interface: &str,
        index: u32,
        only: Option<XdpMode>,
    ) -> Result<()> {
        let program = self.object.progs().next().expect("the object holds a program");
        let program = program.as_fd();
        let attempt = |mode| -> Result<io::Result<Link>> {
            // The kernel looks the interface up in the namespace of the thread.
            Ok(namespace.run(|| create_link(program, index, mode))?)
        };
        let first = only.unwrap_or(XdpMode::Native);
        let (mode, result) = match attempt(first)? {
            // That another program runs there is no reason to try elsewhere.
            Err(error) if only.is_none() && error.raw_os_error() != Some(libc::EBUSY) => {
                tracing::debug!("{interface}: no XDP in native mode: {error}");
                (XdpMode::Generic, attempt(XdpMode::Generic)?)
            }
            result => (first, result),
        };
        let attach = match mode {
            XdpMode::Generic => "attach the XDP program in generic mode",
            _ => "attach the XDP program in native mode (the driver may not have it: try generic)",
        };
        self.link = Some(result.map_err(failed(interface, attach))?);
        self.mode = mode;
        Ok(())
    }

    /// Where the program runs.
    pub(crate) fn mode(&self) -> XdpMode {
        self.mode
    }

    /// The map of that name.
    pub(crate) fn map(&self, name: &str) -> io::Result<MapHandle> {
        let map = self.object.maps().find(|map| map.name() == name);
        let map = map.ok_or_else(|| io::Error::other(format!("the program has no map {name}")))?;
        MapHandle::try_from(&map).map_err(io::Error::other)
    }

    /// Has frames go to this socket.
    pub(super) fn deliver_to(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let fd = socket.as_raw_fd().to_ne_bytes();
        self.map("sockets")?.update(&[0; 4], &fd, MapFlags::ANY).map_err(io::Error::other)
    }

    /// Lets frames to a multicast address through, or no longer.
    pub(super) fn multicast(&self, address: MacAddress, on: bool) -> io::Result<()> {
        let (map, key) = (self.map("multicast")?, number(address).to_ne_bytes());
        let result = if on { map.update(&key, &[1], MapFlags::ANY) } else { map.delete(&key) };
        result.map_err(io::Error::other)
    }
}

fn configure(constants: &mut [u8], ether_types: &[EtherType], own: MacAddress) {
    let bit = |octets: &mut [u8], ether_type: u16| {
        let at = usize::from(ether_type / 64) * 8;
        let word = &mut octets[offset_of!(rodata, ether_types) + at..][..8];
        let bits = u64::from_ne_bytes(word.try_into().unwrap_or_default());
        word.copy_from_slice(&(bits | 1 << (ether_type % 64)).to_ne_bytes());
    };
    if ether_types.is_empty() {
        let of = offset_of!(rodata, ether_types)..;
        constants[of][..8 * 1024].fill(0xff);
    }
    ether_types.iter().for_each(|ether_type| bit(constants, ether_type.0));
    let address = &mut constants[offset_of!(rodata, own_address)..][..8];
    address.copy_from_slice(&number(own).to_ne_bytes());
}

/// Attaches a program to an interface of the calling thread's namespace that has none.
fn create_link(program: BorrowedFd<'_>, index: u32, mode: XdpMode) -> io::Result<Link> {
    let flags = match mode {
        XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
        _ => sys::XDP_FLAGS_DRV_MODE,
    };
    Link::xdp(program, index, flags)
}

/// With what libbpf says, not only the last of it.
fn bpf_failed(interface: &str, operation: &'static str, error: &libbpf_rs::Error) -> Error {
    failed(interface, operation)(io::Error::other(format!("{error:#}")))
}

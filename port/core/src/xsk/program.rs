//! The XDP program of a port: loading it, and its hold on the interface.

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use onbeat_bpf::{Link, Object, UnloadedObject};
use onbeat_netdev::{Namespace, XdpMode};
use onbeat_wire::{EtherType, MacAddress};

use super::skeleton::types::rodata;
use crate::Result;
use crate::error::failed;

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
    /// `size` gives tables their sizes.
    pub(super) fn load(
        interface: &str,
        object: &[u8],
        ether_types: &[EtherType],
        own: MacAddress,
        size: impl FnOnce(&mut UnloadedObject) -> libbpf_rs::Result<()>,
    ) -> Result<Self> {
        let mut bits = [if ether_types.is_empty() { u64::MAX } else { 0 }; 1024];
        ether_types.iter().for_each(|of| bits[usize::from(of.0 / 64)] |= 1 << (of.0 % 64));
        let object = Object::load(object, "the XDP program", |object| {
            object.set_constants(&[
                (offset_of!(rodata, ether_types), bits.map(u64::to_ne_bytes).as_flattened()),
                (offset_of!(rodata, own_address), &number(own).to_ne_bytes()),
            ]);
            size(object)
        });
        let object = object.map_err(|error| {
            let reason = match error {
                // With what libbpf says, not only the last of it.
                onbeat_bpf::Error::Kernel { source, .. } => format!("{source:#}"),
                other => other.to_string(),
            };
            let operation =
                "load the XDP program (it needs CAP_BPF and CAP_NET_ADMIN, and Linux 6.1)";
            failed(interface, operation)(io::Error::other(reason))
        })?;
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
        let program = self.object.programs().next().expect("the object holds a program");
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
        MapHandle::try_from(&self.object.map(name)).map_err(io::Error::other)
    }

    /// Delivers frames to this socket.
    pub(super) fn deliver_to(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (map, fd) = (self.object.map("sockets"), socket.as_raw_fd().to_ne_bytes());
        map.update(&[0; 4], &fd, MapFlags::ANY).map_err(io::Error::other)
    }

    /// Lets frames to a multicast address through, or no longer.
    pub(super) fn multicast(&self, address: MacAddress, on: bool) -> io::Result<()> {
        let (map, key) = (self.object.map("multicast"), number(address).to_ne_bytes());
        let result = if on { map.update(&key, &[1], MapFlags::ANY) } else { map.delete(&key) };
        result.map_err(io::Error::other)
    }
}

/// Attaches a program to an interface of the calling thread's namespace that has none.
fn create_link(program: BorrowedFd<'_>, index: u32, mode: XdpMode) -> io::Result<Link> {
    let flags = match mode {
        XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
        _ => sys::XDP_FLAGS_DRV_MODE,
    };
    Link::xdp(program, index, flags)
}

//! The XDP program of a port: loads it, and attaches it to the interface.

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

/// A loaded program with its maps; dropping it detaches and unloads it.
#[derive(Debug)]
pub(crate) struct Program {
    /// The only reference to the link: it is removed when the process exits, in whatever way.
    link: Option<Link>,
    mode: XdpMode,
    object: Object,
}

/// Returns an address as a number whose lowest octet is the address's first.
fn number(address: MacAddress) -> u64 {
    let [a, b, c, d, e, f] = address.0;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

impl Program {
    /// Loads an object for frames of `ether_types` (all if empty) to `own`; `size` sets the sizes of tables.
    pub(super) fn load(
        interface: &str,
        object: &[u8],
        ether_types: &[EtherType],
        own: MacAddress,
        size: impl FnOnce(&mut UnloadedObject) -> onbeat_bpf::Result<()>,
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
                // With all messages of libbpf, not only the last.
                onbeat_bpf::Error::Kernel { source, .. } => format!("{source:#}"),
                other => other.to_string(),
            };
            let operation =
                "load the XDP program (requires CAP_BPF and CAP_NET_ADMIN, and Linux 6.1)";
            failed(interface, operation)(io::Error::other(reason))
        })?;
        Ok(Self { link: None, mode: XdpMode::Native, object })
    }

    /// Attaches the program to an interface without one: in the driver, else in the network stack, or in the mode
    /// `only`.
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
            // The kernel looks up the interface in the namespace of the thread.
            Ok(namespace.run(|| create_link(program, index, mode))?)
        };
        let first = only.unwrap_or(XdpMode::Native);
        let (mode, result) = match attempt(first)? {
            // If another program runs there, the other mode would fail as well.
            Err(error) if only.is_none() && error.raw_os_error() != Some(libc::EBUSY) => {
                tracing::debug!("{interface}: no XDP in native mode: {error}");
                (XdpMode::Generic, attempt(XdpMode::Generic)?)
            }
            result => (first, result),
        };
        let attach = match mode {
            XdpMode::Generic => "attach the XDP program in generic mode",
            _ => "attach the XDP program in native mode (the driver may lack it: try generic)",
        };
        self.link = Some(result.map_err(failed(interface, attach))?);
        self.mode = mode;
        Ok(())
    }

    /// The mode of the program.
    pub(crate) fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Returns the map of that name.
    pub(crate) fn map(&self, name: &str) -> io::Result<MapHandle> {
        MapHandle::try_from(&self.object.map(name)).map_err(io::Error::other)
    }

    /// Delivers frames to this socket.
    pub(super) fn deliver_to(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let (map, fd) = (self.object.map("sockets"), socket.as_raw_fd().to_ne_bytes());
        map.update(&[0; 4], &fd, MapFlags::ANY).map_err(io::Error::other)
    }

    /// Passes frames to a multicast address, or stops passing them.
    pub(super) fn multicast(&self, address: MacAddress, on: bool) -> io::Result<()> {
        let (map, key) = (self.object.map("multicast"), number(address).to_ne_bytes());
        let result = if on { map.update(&key, &[1], MapFlags::ANY) } else { map.delete(&key) };
        result.map_err(io::Error::other)
    }
}

/// Attaches a program to an interface without one in the calling thread's namespace.
fn create_link(program: BorrowedFd<'_>, index: u32, mode: XdpMode) -> io::Result<Link> {
    let flags = match mode {
        XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
        _ => sys::XDP_FLAGS_DRV_MODE,
    };
    Link::xdp(program, index, flags)
}

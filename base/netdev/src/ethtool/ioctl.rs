//! `SIOCETHTOOL` and its structures (linux/ethtool.h).

use std::{
    ffi::c_char,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use nix::errno::Errno;

use super::Ethtool;
use crate::{Error, Result, check_name, netlink::Failure};

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINK: u32 = 0x0a;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;
/// Bit of `rx_filters`: every frame is stamped.
pub(super) const HWTSTAMP_FILTER_ALL: u32 = 1;

/// A structure that an ethtool command reads and writes.
///
/// # Safety
/// The structure is the one of its ioctl; for SIOCETHTOOL, its first field is the command, and it is at least
/// as long as that command writes.
pub(super) unsafe trait Request {
    /// Returns a pointer to the structure.
    fn start(&mut self) -> *mut libc::c_void;
}

macro_rules! request {
    ($name:ident) => {
        // SAFETY: the structure is the one of linux/ethtool.h for its command, which its constructor sets;
        // sizes are asserted below.
        unsafe impl Request for $name {
            fn start(&mut self) -> *mut libc::c_void {
                std::ptr::from_mut(self).cast()
            }
        }
    };
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
#[derive(Default)]
pub(super) struct DriverInfo {
    command: u32,
    pub(super) driver: [u8; 32],
    pub(super) version: [u8; 32],
    pub(super) firmware: [u8; 32],
    pub(super) bus: [u8; 32],
    expansion_rom: [u8; 32],
    reserved: [u8; 12],
    lengths: [u32; 5],
}
const _: () = assert!(size_of::<DriverInfo>() == 196);
request!(DriverInfo);

impl DriverInfo {
    pub(super) fn request() -> Self {
        Self { command: ETHTOOL_GDRVINFO, ..Self::default() }
    }
}

/// `struct ethtool_value`.
#[repr(C)]
pub(super) struct Value {
    command: u32,
    pub(super) data: u32,
}
const _: () = assert!(size_of::<Value>() == 8);
request!(Value);

impl Value {
    pub(super) fn get_link() -> Self {
        Self { command: ETHTOOL_GLINK, data: 0 }
    }
}

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Default)]
pub(super) struct TimestampInfo {
    command: u32,
    pub(super) so_timestamping: u32,
    pub(super) phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    pub(super) rx_filters: u32,
    rx_reserved: [u32; 3],
}
const _: () = assert!(size_of::<TimestampInfo>() == 44);
request!(TimestampInfo);

impl TimestampInfo {
    pub(super) fn request() -> Self {
        Self { command: ETHTOOL_GET_TS_INFO, phc_index: -1, ..Self::default() }
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
pub(super) struct ChannelCounts {
    command: u32,
    pub(super) max_rx: u32,
    pub(super) max_tx: u32,
    pub(super) max_other: u32,
    pub(super) max_combined: u32,
    pub(super) rx: u32,
    pub(super) tx: u32,
    pub(super) other: u32,
    pub(super) combined: u32,
}
const _: () = assert!(size_of::<ChannelCounts>() == 36);
request!(ChannelCounts);

impl ChannelCounts {
    pub(super) fn request() -> Self {
        Self { command: ETHTOOL_GCHANNELS, ..Self::default() }
    }
}

/// A structure whose length depends on the device: 32-bit words, the command first. Its creator provides
/// enough room for the command.
pub(super) struct CommandWords(pub(super) Vec<u32>);

// SAFETY: the first word is the command; features.rs creates each with the counts that limit what the kernel
// writes, and with room for them; coalescing.rs and eee.rs with the fixed number of words that their commands
// write.
unsafe impl Request for CommandWords {
    fn start(&mut self) -> *mut libc::c_void {
        self.0.as_mut_ptr().cast()
    }
}

/// `struct hwtstamp_config`, of SIOCGHWTSTAMP and SIOCSHWTSTAMP.
#[repr(C)]
#[derive(Default)]
pub(super) struct StampConfig {
    flags: i32,
    pub(super) tx_type: i32,
    pub(super) rx_filter: i32,
}
const _: () = assert!(size_of::<StampConfig>() == 12);
request!(StampConfig);

/// Returns the text up to the first NUL.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&octet| octet == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

impl Ethtool {
    /// Runs one request and returns the result of the ioctl.
    pub(super) fn call(
        &self,
        interface: &str,
        operation: &str,
        request: &mut impl Request,
    ) -> Result<i32> {
        self.call_by(libc::SIOCETHTOOL, interface, operation, request)
    }

    /// Runs a request like [`Ethtool::call`], by another ioctl of devices.
    pub(super) fn call_by(
        &self,
        code: libc::c_ulong,
        interface: &str,
        operation: &str,
        request: &mut impl Request,
    ) -> Result<i32> {
        check_name(interface)?;
        ioctl(self.socket.as_fd(), code, interface, request).map_err(|errno| match errno {
            // The handle's error lists the interfaces that exist.
            Errno::ENODEV => match self.handle.link(interface) {
                Err(error) => error,
                Ok(_) => Failure::Refused { errno, detail: None }.of(operation, interface),
            },
            Errno::EOPNOTSUPP => Error::Unsupported {
                what: format!("to {operation} of interface {interface:?}"),
                remedy: "its driver does not offer it".into(),
            },
            _ => Failure::Refused { errno, detail: None }.of(operation, interface),
        })
    }
}

fn ioctl(
    socket: BorrowedFd<'_>,
    code: libc::c_ulong,
    interface: &str,
    request: &mut impl Request,
) -> std::result::Result<i32, Errno> {
    let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    // check_name ensures room for the NUL.
    for (to, from) in name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as c_char;
    }
    let data = request.start().cast::<c_char>();
    let mut ifreq =
        libc::ifreq { ifr_name: name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: data } };
    // SAFETY: the socket is open, `ifreq` is the type of this ioctl, and `data` points to a structure that is
    // borrowed for the call and as long as its command requires (trait Request).
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), code as _, &raw mut ifreq) };
    Errno::result(result)
}

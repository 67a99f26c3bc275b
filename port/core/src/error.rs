//! Errors, with the object, the value and the remedy.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use onbeat_host::Holder;
use onbeat_wire::MacAddress;

use crate::{Backend, Feature, Slot};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a port or of a claim on an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the interface or its namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
    /// The back end does not support a feature here.
    #[error("interface {interface:?}: back end {backend} has no {feature}: {why}; {remedy}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// The back end.
        backend: Backend,
        /// The requested feature.
        feature: Feature,
        /// The reason.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// A frame shorter than the minimum of Ethernet, or longer than its slot.
    #[error("invalid frame length: {len} octets, not in {min} to {max} (without FCS)")]
    FrameLength {
        /// The length of the frame.
        len: usize,
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
    },
    /// A table of the port is full.
    #[error("all {capacity} {what} are in use; free one, or open the port with more")]
    Full {
        /// Transmit slots, responses or multicast addresses.
        what: &'static str,
        /// The capacity.
        capacity: usize,
    },
    /// The slot was freed, or belongs to another port.
    #[error("{0} is not allocated on this port: it was freed, or belongs to another port")]
    NoSuchSlot(Slot),
    /// The slot holds no frame.
    #[error("{0} holds no frame; update it first")]
    EmptySlot(Slot),
    /// A response uses the slot.
    #[error("{0} is used by a response; remove the response first")]
    SlotAnswers(Slot),
    /// The response was removed, or belongs to another port.
    #[error("no such response on this port: it was removed, or belongs to another port")]
    NoSuchResponse,
    /// A cycle of 0 ns.
    #[error("invalid period 0 ns; use the time from one frame to the next")]
    Period,
    /// An address that is not a multicast address.
    #[error(
        "{0} is not a multicast address; frames to the port's own address are received by default"
    )]
    NotMulticast(MacAddress),
    /// A multicast address without a filter.
    #[error("no multicast filter is set for {0}")]
    NoSuchMulticast(MacAddress),
    /// An invalid filter.
    #[error(
        "invalid filter of {len} octets; use 1 to {max} octets, with at least one bit of the mask set"
    )]
    Filter {
        /// Octets of the filter.
        len: usize,
        /// Maximum number of octets.
        max: usize,
    },
    /// An option out of range.
    #[error("{what} is {value}; it must be {}", bounds(allowed))]
    Option {
        /// The option.
        what: &'static str,
        /// The value.
        value: usize,
        /// The allowed range.
        allowed: RangeInclusive<usize>,
    },
    /// A living process has claimed the interface.
    #[error("interface {interface:?} is claimed by {by}; stop it, or claim another")]
    Claimed {
        /// The interface.
        interface: String,
        /// The process.
        by: Holder,
    },
    /// An error of a journal, its directory, or the lock on an interface.
    #[error(transparent)]
    Host(#[from] onbeat_host::Error),
    /// The claim would lose a setting that cannot be restored.
    #[error("interface {interface:?} cannot be claimed: {why}; {remedy}")]
    InUse {
        /// The interface.
        interface: String,
        /// The setting or state.
        why: String,
        /// The remedy.
        remedy: String,
    },
    /// An XDP program receives the frames first.
    #[error(
        "interface {interface:?} cannot be opened: XDP program {program} receives its frames first; \
         stop its owner (a node: onbeat down NODE), or: ip link set dev {interface} xdp off"
    )]
    Programmed {
        /// The interface.
        interface: String,
        /// The name and the id of the program.
        program: String,
    },
    /// An error of the file that holds a claim's namespace.
    #[error("{path}: cannot {operation}: {source}")]
    Claim {
        /// The file.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The kernel module refused a request.
    #[error("interface {interface:?}: onbeat.ko cannot {operation}: {detail} ({source})")]
    Module {
        /// The interface.
        interface: String,
        /// The operation that failed.
        operation: &'static str,
        /// The message of the module.
        detail: String,
        /// The error code.
        source: io::Error,
    },
    /// The kernel module is not loaded.
    #[error(
        "interface {interface:?}: back end module requires onbeat.ko, which is not loaded; \
         run \"modprobe onbeat\"; if it is not installed, install the package onbeat-dkms \
         (in a checkout: make -C kmod install)"
    )]
    NoModule {
        /// The interface.
        interface: String,
    },
    /// A system call on the port's socket failed.
    #[error("interface {interface:?}: cannot {operation}: {source}")]
    Io {
        /// The interface.
        interface: String,
        /// The operation that failed.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// Returns true if the transmit queue was full: the frame was not sent, a later one may be.
    #[must_use]
    pub fn is_congestion(&self) -> bool {
        let code = match self {
            Error::Io { source, .. } | Error::Module { source, .. } => source.raw_os_error(),
            _ => None,
        };
        // EBUSY: the driver's queue refused the frame of an AF_XDP socket.
        matches!(code, Some(libc::EAGAIN | libc::ENOBUFS | libc::EBUSY))
    }

    /// Returns true if the interface is down: the port works again once the interface is up.
    #[must_use]
    pub fn is_down(&self) -> bool {
        match self {
            Error::Io { source, .. } | Error::Module { source, .. } => {
                source.raw_os_error() == Some(libc::ENETDOWN)
            }
            _ => false,
        }
    }

    /// Returns true if the interface was removed: the port stays unusable.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        match self {
            Error::Io { source, .. } | Error::Module { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
            }
            _ => false,
        }
    }
}

fn bounds(allowed: &RangeInclusive<usize>) -> String {
    match allowed.start() {
        0 => format!("at most {}", allowed.end()),
        least => format!("from {least} to {}", allowed.end()),
    }
}

/// Returns a closure that allocates only if there is an error.
pub(crate) fn failed(interface: &str, operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { interface: interface.to_owned(), operation, source }
}

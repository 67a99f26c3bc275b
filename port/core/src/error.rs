//! What can go wrong, said with the thing, the value and the way out.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use onbeat_host::Holder;
use onbeat_wire::MacAddress;

use crate::{Backend, Feature, Slot};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a port, or a claim on an interface, refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interface or its namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
    /// The back end cannot do this here.
    #[error("interface {interface:?}: back end {backend} has no {feature}: {why}; {remedy}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// The back end.
        backend: Backend,
        /// What was asked for.
        feature: Feature,
        /// Why it is not there.
        why: String,
        /// What would provide it.
        remedy: String,
    },
    /// A frame that no medium carries, or longer than its slot.
    #[error("a frame of {len} octets does not fit: this takes {min} to {max} (without FCS)")]
    FrameLength {
        /// Its length.
        len: usize,
        /// Shortest.
        min: usize,
        /// Longest.
        max: usize,
    },
    /// The port has no room for one more.
    #[error("all {capacity} {what} are in use; free one, or open the port with more")]
    Full {
        /// Transmit slots, responses, multicast addresses.
        what: &'static str,
        /// How many there are.
        capacity: usize,
    },
    /// The slot was freed, or is of another port.
    #[error("{0} is not allocated on this port; it was freed, or belongs to another")]
    NoSuchSlot(Slot),
    /// The slot holds no frame yet.
    #[error("{0} holds no frame; update it first")]
    EmptySlot(Slot),
    /// A response refers to the slot.
    #[error("{0} is the answer to a filter; take the response away first")]
    SlotAnswers(Slot),
    /// The response was taken away, or is of another port.
    #[error("no such response on this port; it was taken away, or belongs to another")]
    NoSuchResponse,
    /// A cycle that no clock can keep.
    #[error("a period of 0 ns is no cycle; give the time from one frame to the next")]
    Period,
    /// A multicast filter for an address that is none.
    #[error("{0} is no multicast address; frames to the port's own address come anyway")]
    NotMulticast(MacAddress),
    /// A multicast address that no filter is set for.
    #[error("no multicast filter is set for {0}")]
    NoSuchMulticast(MacAddress),
    /// A filter as no back end takes it.
    #[error("a filter of {len} octets; it takes 1 to {max}, with at least one bit of the mask set")]
    Filter {
        /// Octets given.
        len: usize,
        /// Octets taken at most.
        max: usize,
    },
    /// Options out of range.
    #[error("{what} is {value}; it must be {}", bounds(allowed))]
    Option {
        /// Which.
        what: &'static str,
        /// The value given.
        value: usize,
        /// What is allowed.
        allowed: RangeInclusive<usize>,
    },
    /// A living process has the interface.
    #[error("interface {interface:?} is claimed by {by}; stop it, or claim another")]
    Claimed {
        /// The interface.
        interface: String,
        /// The process.
        by: Holder,
    },
    /// A journal, its directory, or the lock on an interface.
    #[error(transparent)]
    Host(#[from] onbeat_host::Error),
    /// Claiming would take something away that could not be given back.
    #[error("interface {interface:?} cannot be claimed: {why}; {remedy}")]
    InUse {
        /// The interface.
        interface: String,
        /// What would be lost.
        why: String,
        /// What to do.
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
        /// Its name and the kernel's id of it.
        program: String,
    },
    /// The file that holds a claim's namespace.
    #[error("{path}: cannot {operation}: {source}")]
    Claim {
        /// The file.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The kernel module refused.
    #[error("interface {interface:?}: onbeat.ko cannot {operation}: {detail} ({source})")]
    Module {
        /// The interface.
        interface: String,
        /// What was being done.
        operation: &'static str,
        /// The module's own sentence.
        detail: String,
        /// Its code.
        source: io::Error,
    },
    /// The kernel module is not there.
    #[error(
        "interface {interface:?}: back end module needs onbeat.ko, which is not loaded: \
         \"modprobe onbeat\" loads it; where it was never installed, \"make -C kmod install\" \
         in the sources does that, by DKMS"
    )]
    NoModule {
        /// The interface.
        interface: String,
    },
    /// A system call on the port's socket.
    #[error("interface {interface:?}: cannot {operation}: {source}")]
    Io {
        /// The interface.
        interface: String,
        /// What was being done.
        operation: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl Error {
    /// Whether the port had no room to send at this moment: the frame was not sent, the next may
    /// be.
    #[must_use]
    pub fn is_congestion(&self) -> bool {
        let code = match self {
            Error::Io { source, .. } | Error::Module { source, .. } => source.raw_os_error(),
            _ => None,
        };
        // EBUSY: what an AF_XDP socket says where the driver's queue refused the frame.
        matches!(code, Some(libc::EAGAIN | libc::ENOBUFS | libc::EBUSY))
    }

    /// Whether the interface is turned off: once it is on again, so is the port.
    #[must_use]
    pub fn is_down(&self) -> bool {
        match self {
            Error::Io { source, .. } | Error::Module { source, .. } => {
                source.raw_os_error() == Some(libc::ENETDOWN)
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

/// Allocates only once there is an error.
pub(crate) fn failed(interface: &str, operation: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io { interface: interface.to_owned(), operation, source }
}

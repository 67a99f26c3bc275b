//! Queueing disciplines for launch times and schedules: etf, taprio and mqprio.

mod message;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use nix::errno::Errno;

use self::message::{RTM_DELQDISC, RTM_GETQDISC, RTM_NEWQDISC};
use crate::{Error, Handle, Result};

/// A queueing discipline, or a class of one: `1:2` is class 2 of discipline `1:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QdiscHandle {
    /// The discipline.
    pub major: u16,
    /// The class, from 1; 0: the discipline itself.
    pub minor: u16,
}

impl QdiscHandle {
    /// The parent of the discipline that receives all frames of a device.
    pub const ROOT: Self = Self { major: 0xffff, minor: 0xffff };
    /// Chosen by the kernel.
    pub const NONE: Self = Self { major: 0, minor: 0 };
}

impl std::fmt::Display for QdiscHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::ROOT => f.write_str("root"),
            Self { major, minor: 0 } => write!(f, "{major:x}:"),
            Self { major, minor } => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

/// A queueing discipline on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Its handle; [`QdiscHandle::NONE`]: chosen by the kernel.
    pub handle: QdiscHandle,
    /// [`QdiscHandle::ROOT`], or the parent class.
    pub parent: QdiscHandle,
    /// Its kind and parameters.
    pub discipline: Discipline,
}

/// The kind of a queueing discipline, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// Sends each frame at its launch time. tc-etf(8).
    Etf(Etf),
    /// Transmit queues by priority. tc-mqprio(8).
    Mqprio(QueueMap),
    /// Transmit queues by priority, with a transmission schedule. tc-taprio(8).
    Taprio(Taprio),
    /// Another kind, by name.
    Other(String),
}

/// Earliest TxTime first: frames wait for their launch time (CLOCK_TAI).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Etf {
    /// Time before the launch time at which a frame is passed to the driver, in nanoseconds.
    pub delta_ns: i32,
    /// Whether the launch time is a deadline: frames are sent as early as possible.
    pub deadline: bool,
    /// Whether the NIC observes the launch time.
    pub offload: bool,
    /// Whether sockets without launch times may send.
    pub skip_socket_check: bool,
}

/// The traffic class of each priority, and the transmit queues of each class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMap {
    /// Traffic class of each priority (`SO_PRIORITY`).
    pub class_of: [u8; 16],
    /// First transmit queue and number of queues of each class; at most 16.
    pub queues: Vec<(u16, u16)>,
}

/// A schedule of gates (IEEE 802.1Q-2022, 8.6.8.4), by CLOCK_TAI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taprio {
    /// Classes and queues.
    pub queues: QueueMap,
    /// Start of the schedule, in nanoseconds.
    pub base_time_ns: i64,
    /// Open gates, one bit per class, and their duration, in nanoseconds.
    pub entries: Vec<(u32, u32)>,
}

impl Discipline {
    /// Returns the name in tc.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Discipline::Etf(_) => "etf",
            Discipline::Mqprio(_) => "mqprio",
            Discipline::Taprio(_) => "taprio",
            Discipline::Other(kind) => kind,
        }
    }
}

impl Handle {
    /// Returns the queueing disciplines of a device.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel refuses.
    pub fn qdiscs(&self, name: &str) -> Result<Vec<Qdisc>> {
        let index = self.index(name)?;
        let failed = |failure: crate::netlink::Failure| failure.of("list qdiscs", name);
        let replies = self.rtnl().dump(RTM_GETQDISC, &message::query(index)).map_err(failed)?;
        let mut found = Vec::new();
        for reply in replies.iter().filter(|reply| reply.header.message_type == RTM_NEWQDISC) {
            // The kernel dumps those of all devices.
            if let Some(qdisc) = message::parse(&reply.payload, index).map_err(failed)? {
                found.push(qdisc);
            }
        }
        Ok(found)
    }

    /// Replaces the queueing discipline of its parent.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unsupported`]: the kernel has none of that kind; the kernel refuses.
    pub fn replace_qdisc(&self, name: &str, qdisc: &Qdisc) -> Result<()> {
        let request = message::emit(self.index(name)?, qdisc);
        let kind = qdisc.discipline.kind();
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.rtnl().request(RTM_NEWQDISC, flags, &request).map_err(|failure| {
            match failure.errno() {
                Some(Errno::ENOENT) => Error::Unsupported {
                    what: format!("a queueing discipline of kind {kind:?}"),
                    remedy: format!("load the kernel module: modprobe sch_{kind}"),
                },
                _ => failure.of(format!("set qdisc {kind} at {}", qdisc.parent), name),
            }
        })
    }

    /// Removes the queueing disciplines of a device; the kernel installs its default.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel refuses, for example if there is only its default.
    pub fn delete_root_qdisc(&self, name: &str) -> Result<()> {
        let request = message::root(self.index(name)?);
        self.rtnl()
            .request(RTM_DELQDISC, 0, &request)
            .map_err(|failure| failure.of("delete the root qdisc", name))
    }
}

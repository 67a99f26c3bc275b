//! Queueing disciplines, as far as launch times and schedules need them: etf, taprio and mqprio.

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
    /// The parent of the discipline that all frames of a device come to.
    pub const ROOT: Self = Self { major: 0xffff, minor: 0xffff };
    /// The kernel chooses.
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
    /// Its own name; [`QdiscHandle::NONE`] has the kernel choose one.
    pub handle: QdiscHandle,
    /// [`QdiscHandle::ROOT`], or the class that it stands behind.
    pub parent: QdiscHandle,
    /// What it does.
    pub discipline: Discipline,
}

/// What a queueing discipline does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discipline {
    /// Launches each frame at the time it carries. tc-etf(8).
    Etf(Etf),
    /// Transmit queues by priority. tc-mqprio(8).
    Mqprio(QueueMap),
    /// Transmit queues by priority, that send by a schedule. tc-taprio(8).
    Taprio(Taprio),
    /// Another, by its kind.
    Other(String),
}

/// Earliest TxTime first: frames wait for their launch time (CLOCK_TAI).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Etf {
    /// A frame is handed to the driver so long before its launch time, in nanoseconds.
    pub delta_ns: i32,
    /// The launch time is the latest one: frames leave as soon as may be.
    pub deadline: bool,
    /// The NIC keeps the launch time.
    pub offload: bool,
    /// Sockets without launch times may send as well.
    pub skip_socket_check: bool,
}

/// Which priority is of which traffic class, and which transmit queues a class has.
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
    /// When the schedule begins, in nanoseconds.
    pub base_time_ns: i64,
    /// Open gates, one bit for each class, and for how long, in nanoseconds.
    pub entries: Vec<(u32, u32)>,
}

impl Discipline {
    /// The name that tc gives it.
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
    /// The queueing disciplines of a device.
    ///
    /// # Errors
    /// [`Error::NotFound`]; where the kernel refuses.
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

    /// Puts a queueing discipline in the place of what its parent had.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Unsupported`] where the kernel has none of that kind; the
    /// kernel's refusal.
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

    /// Takes the queueing disciplines of a device away; the kernel puts its own there.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the kernel's refusal, for example where there is none but its own.
    pub fn delete_root_qdisc(&self, name: &str) -> Result<()> {
        let request = message::root(self.index(name)?);
        self.rtnl()
            .request(RTM_DELQDISC, 0, &request)
            .map_err(|failure| failure.of("delete the root qdisc", name))
    }
}

//! Scheduling policies of threads.

use std::fmt;
use std::io;
use std::str::FromStr;

use nix::errno::Errno;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::{CpuSet, Error, Result};

/// A real-time policy with its priority, 1 (lowest) to 99 (sched(7)), or none. It is written `fifo 50`, `other`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scheduling {
    /// SCHED_FIFO: runs until it waits.
    Fifo(u8),
    /// SCHED_RR: like FIFO, but threads of the same priority share the CPU in time slices.
    RoundRobin(u8),
    /// SCHED_OTHER: no real-time policy.
    Other,
}

impl Scheduling {
    /// Returns whether it is a real-time policy.
    #[must_use]
    pub const fn is_real_time(self) -> bool {
        !matches!(self, Scheduling::Other)
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Fifo(priority) => write!(f, "fifo {priority}"),
            Scheduling::RoundRobin(priority) => write!(f, "rr {priority}"),
            Scheduling::Other => f.write_str("other"),
        }
    }
}

impl FromStr for Scheduling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "not a scheduling policy");
            let remedy = "examples: \"fifo 50\", \"rr 50\", \"other\"";
            Error::system(format!("read {text:?}"), source, remedy)
        };
        if text.trim() == "other" {
            return Ok(Scheduling::Other);
        }
        let (policy, priority) = text.split_once(' ').ok_or_else(unknown)?;
        let priority: u32 = priority.trim().parse().map_err(|_| unknown())?;
        let checked = u8::try_from(priority).ok().filter(|priority| (1..=99).contains(priority));
        let checked = checked.ok_or(Error::Priority(priority))?;
        match policy {
            "fifo" => Ok(Scheduling::Fifo(checked)),
            "rr" => Ok(Scheduling::RoundRobin(checked)),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Scheduling {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Scheduling> for String {
    fn from(scheduling: Scheduling) -> String {
        scheduling.to_string()
    }
}

/// Policy and priority in the kernel's form: those of any thread, for restoration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadPolicy {
    policy: i32,
    priority: i32,
    /// For policies without a real-time priority, -20 to 19.
    nice: i32,
}

/// Names of the policies that can be restored: SCHED_DEADLINE has further parameters.
const POLICIES: [(i32, &str); 5] = [
    (libc::SCHED_OTHER, "other"),
    (libc::SCHED_FIFO, "fifo"),
    (libc::SCHED_RR, "rr"),
    (libc::SCHED_BATCH, "batch"),
    (libc::SCHED_IDLE, "idle"),
];

impl ThreadPolicy {
    /// Returns the policy of a thread; 0: the calling thread.
    ///
    /// # Errors
    /// ESRCH: there is no such thread.
    pub fn of(thread: i32) -> std::result::Result<Self, Errno> {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: no pointer is passed.
        let policy = Errno::result(unsafe { libc::sched_getscheduler(thread) })?;
        // SAFETY: `parameters` is a sched_param that lives across the call.
        Errno::result(unsafe { libc::sched_getparam(thread, &raw mut parameters) })?;
        Ok(Self { policy, priority: parameters.sched_priority, nice: nice(thread)? })
    }

    /// Sets the policy of a thread; 0: the calling thread.
    ///
    /// # Errors
    /// ESRCH: there is no such thread; EPERM.
    pub fn set(self, thread: i32) -> std::result::Result<(), Errno> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: `parameters` is a sched_param that lives across the call.
        let result =
            unsafe { libc::sched_setscheduler(thread, self.policy, &raw const parameters) };
        Errno::result(result)?;
        if self.has_nice() && nice(thread)? != self.nice {
            // SAFETY: no pointer is passed.
            Errno::result(unsafe {
                libc::setpriority(libc::PRIO_PROCESS, thread.unsigned_abs(), self.nice)
            })?;
        }
        Ok(())
    }

    fn kind(self) -> i32 {
        self.policy & !libc::SCHED_RESET_ON_FORK
    }

    /// Returns whether it is SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].contains(&self.kind())
    }

    fn has_nice(self) -> bool {
        [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&self.kind())
    }

    /// Returns the text for journals: "other", "other nice -5", "fifo 50"; `None`: a policy that cannot be
    /// restored.
    #[must_use]
    pub fn text(self) -> Option<String> {
        let (_, name) = POLICIES.iter().find(|(number, _)| *number == self.kind())?;
        Some(match self {
            ThreadPolicy { priority: 0, nice, .. } if nice != 0 && self.has_nice() => {
                format!("{name} nice {nice}")
            }
            ThreadPolicy { priority: 0, .. } => (*name).into(),
            ThreadPolicy { priority, .. } => format!("{name} {priority}"),
        })
    }

    /// Parses the text of [`ThreadPolicy::text`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let name = words.next()?;
        let (policy, _) = POLICIES.iter().find(|(_, known)| *known == name)?;
        let (priority, nice) = match (words.next(), words.next(), words.next()) {
            (None, ..) => (0, 0),
            (Some("nice"), Some(nice), None) => (0, nice.parse().ok()?),
            (Some(priority), None, _) => (priority.parse().ok()?, 0),
            _ => return None,
        };
        Some(Self { policy: *policy, priority, nice })
    }
}

fn nice(thread: i32) -> std::result::Result<i32, Errno> {
    // -1 is a valid result.
    Errno::clear();
    // SAFETY: no pointer is passed.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, thread.unsigned_abs()) };
    if nice == -1 && Errno::last_raw() != 0 { Err(Errno::last()) } else { Ok(nice) }
}

impl From<Scheduling> for ThreadPolicy {
    fn from(scheduling: Scheduling) -> ThreadPolicy {
        match scheduling {
            Scheduling::Fifo(priority) => {
                ThreadPolicy { policy: libc::SCHED_FIFO, priority: priority.into(), nice: 0 }
            }
            Scheduling::RoundRobin(priority) => {
                ThreadPolicy { policy: libc::SCHED_RR, priority: priority.into(), nice: 0 }
            }
            Scheduling::Other => ThreadPolicy { policy: libc::SCHED_OTHER, priority: 0, nice: 0 },
        }
    }
}

/// Returns the CPUs of a thread; 0: the calling thread.
///
/// # Errors
/// ESRCH: there is no such thread.
pub fn affinity(thread: i32) -> nix::Result<CpuSet> {
    let mask = nix::sched::sched_getaffinity(Pid::from_raw(thread))?;
    let within = |cpu: &u16| mask.is_set(usize::from(*cpu)).unwrap_or(false);
    Ok((0..CpuSet::MAX).filter(within).collect())
}

/// Restricts a thread to these CPUs; 0: the calling thread.
///
/// # Errors
/// ESRCH: there is no such thread; EINVAL: none of the CPUs is online; EPERM.
pub fn set_affinity(thread: i32, cpus: &CpuSet) -> nix::Result<()> {
    let mut mask = nix::sched::CpuSet::new();
    for cpu in cpus.iter() {
        mask.set(cpu.into())?;
    }
    nix::sched::sched_setaffinity(Pid::from_raw(thread), &mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_policy_is_read_again() {
        for text in ["fifo 1", "fifo 99", "rr 50", "other"] {
            assert_eq!(text.parse::<Scheduling>().unwrap().to_string(), text);
            assert_eq!(ThreadPolicy::parse(text).unwrap().text().unwrap(), text);
            assert_eq!(ThreadPolicy::parse(text), Some(text.parse::<Scheduling>().unwrap().into()));
        }
        for text in ["other", "batch", "idle", "other nice -5", "batch nice 19"] {
            assert_eq!(ThreadPolicy::parse(text).unwrap().text().unwrap(), text);
        }
        for text in ["", "deadline", "other nice", "fifo 1 2", "other nice 1 2", "fifo x"] {
            assert_eq!(ThreadPolicy::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_invalid_priority_is_reported() {
        for priority in [0, 100, 300] {
            let error = format!("fifo {priority}").parse::<Scheduling>().unwrap_err().to_string();
            let expected = format!("invalid real-time priority {priority}; use 1 (lowest) to 99");
            assert!(error.contains(&expected), "{error}");
        }
        for text in ["", "fifo", "fifo x", "deadline 3", "other 3"] {
            let error = text.parse::<Scheduling>().unwrap_err().to_string();
            assert!(error.contains("fifo 50"), "{error}");
        }
    }
}

//! What belongs to a thread: its policy, its CPUs, how late its timers may be.

use std::marker::PhantomData;

use nix::errno::Errno;

use crate::scheduling::{ThreadPolicy, affinity, set_affinity};
use crate::{CpuSet, Error, Result, Scheduling};

/// A guard that must be dropped by the thread that made it.
type OfThisThread = PhantomData<*const ()>;

/// The calling thread runs by a real-time policy; dropped, by the one it had.
///
/// What it costs: a thread that does not wait keeps its CPU from everything below its priority, for
/// good where the kernel's throttling is off. Threads that it starts inherit the policy.
#[derive(Debug)]
pub struct Scheduled {
    before: ThreadPolicy,
    /// From Linux 6.13 on a thread that leaves the real-time policies gets the default slack.
    slack_before_ns: libc::c_ulong,
    of_this_thread: OfThisThread,
}

impl Scheduled {
    /// Takes the policy.
    ///
    /// # Errors
    /// [`Error::Priority`]; [`Error::System`] without the right to.
    pub fn take(scheduling: Scheduling) -> Result<Self> {
        let (Scheduling::Fifo(priority) | Scheduling::RoundRobin(priority)) = scheduling;
        if !(1..=99).contains(&priority) {
            return Err(Error::Priority(priority.into()));
        }
        let refused = |errno| {
            Error::system(
                format!("schedule the thread as {scheduling}"),
                errno,
                "it takes CAP_SYS_NICE (root), or a limit as high: ulimit -r; in a control group of \
                 version 1 also a cpu.rt_runtime_us above 0",
            )
        };
        let before = ThreadPolicy::of(0).map_err(refused)?;
        let slack_before_ns = slack().map_err(refused)?;
        ThreadPolicy::from(scheduling).set(0).map_err(refused)?;
        Ok(Self { before, slack_before_ns, of_this_thread: PhantomData })
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        if let Err(errno) = self.before.set(0) {
            tracing::warn!("the thread keeps its real-time policy: {errno}");
        }
        give_back_slack(self.slack_before_ns);
    }
}

/// The calling thread runs on these CPUs only; dropped, on those it had.
///
/// What it costs: it waits for these CPUs even while others are idle.
#[derive(Debug)]
pub struct Affinity {
    before: CpuSet,
    of_this_thread: OfThisThread,
}

impl Affinity {
    /// Moves the thread to the CPUs.
    ///
    /// # Errors
    /// [`Error::System`] where none of them is there, or the thread's cpuset has none of them.
    pub fn take(cpus: &CpuSet) -> Result<Self> {
        let refused = |errno| {
            Error::system(
                format!("run the thread on CPUs {cpus}"),
                errno,
                "name CPUs that are online and in its cpuset: see Cpus_allowed_list in /proc/self/status",
            )
        };
        let before = affinity(0).map_err(refused)?;
        set_affinity(0, cpus).map_err(refused)?;
        Ok(Self { before, of_this_thread: PhantomData })
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        if let Err(errno) = set_affinity(0, &self.before) {
            tracing::warn!("the thread does not run on CPUs {} again: {errno}", self.before);
        }
    }
}

/// How much later than asked for the calling thread's timers may fire (PR_SET_TIMERSLACK); dropped,
/// as before.
///
/// The kernel gathers timers within the slack, 50 us by default, to wake up less often. It matters
/// for threads of the normal policy: timers of a real-time thread have none. What it costs: wake-ups.
#[derive(Debug)]
pub struct TimerSlack {
    before_ns: libc::c_ulong,
    of_this_thread: OfThisThread,
}

impl TimerSlack {
    /// Sets the slack, in nanoseconds; 0 counts as 1, because the kernel takes it for the default.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn take(slack_ns: u32) -> Result<Self> {
        let refused = |errno| {
            Error::system(format!("set a timer slack of {slack_ns} ns"), errno, "leave it out")
        };
        let before_ns = slack().map_err(refused)?;
        set_slack(slack_ns.max(1).into()).map_err(refused)?;
        Ok(Self { before_ns, of_this_thread: PhantomData })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        give_back_slack(self.before_ns);
    }
}

/// Of the calling thread, in nanoseconds; 0 while it has a real-time policy (from Linux 6.13 on).
fn slack() -> std::result::Result<libc::c_ulong, Errno> {
    // SAFETY: this operation takes no pointer.
    let slack = Errno::result(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) })?;
    Ok(slack.unsigned_abs().into())
}

/// A thread that had none had a real-time policy, and has it again: there is nothing to set.
fn give_back_slack(before_ns: libc::c_ulong) {
    if before_ns == 0 {
        return;
    }
    if let Err(errno) = set_slack(before_ns) {
        tracing::warn!("the thread's timer slack is not {before_ns} ns again: {errno}");
    }
}

fn set_slack(slack_ns: libc::c_ulong) -> std::result::Result<(), Errno> {
    // SAFETY: this operation takes no pointer.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).map(drop)
}

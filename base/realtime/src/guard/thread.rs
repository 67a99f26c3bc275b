//! Settings of a thread: its policy, its CPUs, its timer slack.

use std::marker::PhantomData;

use nix::errno::Errno;

use crate::scheduling::{ThreadPolicy, affinity, set_affinity};
use crate::{CpuSet, Error, Result, Scheduling};

/// Marks a guard that must be dropped by the thread that created it.
type ThreadBound = PhantomData<*const ()>;

/// Runs the calling thread with a policy; restores the former policy on drop.
///
/// Cost: a thread that does not wait blocks its CPU for all lower priorities, permanently if the kernel's
/// throttling is off. Threads that it starts inherit the policy.
#[derive(Debug)]
pub struct SchedulingGuard {
    before: ThreadPolicy,
    /// Since Linux 6.13, a thread that leaves the real-time policies gets the default slack.
    slack_before_ns: libc::c_ulong,
    of_this_thread: ThreadBound,
}

impl SchedulingGuard {
    /// Sets the policy.
    ///
    /// # Errors
    /// [`Error::Priority`]; [`Error::System`]: insufficient privileges.
    pub fn take(scheduling: Scheduling) -> Result<Self> {
        if let Scheduling::Fifo(priority) | Scheduling::RoundRobin(priority) = scheduling {
            if !(1..=99).contains(&priority) {
                return Err(Error::Priority(priority.into()));
            }
        }
        let refused = |errno| {
            Error::system(
                format!("schedule the thread as {scheduling}"),
                errno,
                "run it as root (CAP_SYS_NICE), or raise the limit: ulimit -r; a control group of \
                 version 1 also requires a cpu.rt_runtime_us above 0",
            )
        };
        let before = ThreadPolicy::of(0).map_err(refused)?;
        let slack_before_ns = slack().map_err(refused)?;
        // A thread without a real-time policy keeps its nice value.
        if scheduling.is_real_time() || before.is_real_time() {
            ThreadPolicy::from(scheduling).set(0).map_err(refused)?;
        }
        Ok(Self { before, slack_before_ns, of_this_thread: PhantomData })
    }
}

impl Drop for SchedulingGuard {
    fn drop(&mut self) {
        if let Err(errno) = self.before.set(0) {
            tracing::warn!("cannot restore the thread's policy: {errno}");
        }
        restore_slack(self.slack_before_ns);
    }
}

/// Restricts the calling thread to these CPUs; restores the former ones on drop.
///
/// Cost: it waits for these CPUs even while others are idle.
#[derive(Debug)]
pub struct Affinity {
    before: CpuSet,
    of_this_thread: ThreadBound,
}

impl Affinity {
    /// Sets the CPUs.
    ///
    /// # Errors
    /// [`Error::System`]: none of them is online or in the thread's cpuset.
    pub fn take(cpus: &CpuSet) -> Result<Self> {
        let refused = |errno| {
            Error::system(
                format!("run the thread on CPUs {cpus}"),
                errno,
                "use CPUs that are online and in its cpuset: see Cpus_allowed_list in /proc/self/status",
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
            tracing::warn!("cannot restore the thread's CPUs {}: {errno}", self.before);
        }
    }
}

/// Sets the timer slack of the calling thread, the maximum delay of its timers (PR_SET_TIMERSLACK); restores
/// the former value on drop.
///
/// The kernel batches timers within the slack, 50 us by default, to wake up less often. It affects threads of
/// the normal policy: timers of a real-time thread have no slack. Cost: wake-ups.
#[derive(Debug)]
pub struct TimerSlack {
    before_ns: libc::c_ulong,
    of_this_thread: ThreadBound,
}

impl TimerSlack {
    /// Sets the slack, in nanoseconds; 0 is replaced by 1, as 0 selects the kernel's default.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn take(slack_ns: u32) -> Result<Self> {
        let refused = |errno| {
            Error::system(
                format!("set a timer slack of {slack_ns} ns"),
                errno,
                "omit the timer slack",
            )
        };
        let before_ns = slack().map_err(refused)?;
        set_slack(slack_ns.max(1).into()).map_err(refused)?;
        Ok(Self { before_ns, of_this_thread: PhantomData })
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        restore_slack(self.before_ns);
    }
}

/// Returns the slack of the calling thread, in nanoseconds; 0 with a real-time policy (since Linux 6.13).
fn slack() -> std::result::Result<libc::c_ulong, Errno> {
    // SAFETY: this operation takes no pointer.
    let slack = Errno::result(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) })?;
    Ok(slack.unsigned_abs().into())
}

/// A former slack of 0 means a real-time policy, which is restored: there is no slack to set.
fn restore_slack(before_ns: libc::c_ulong) {
    if before_ns == 0 {
        return;
    }
    if let Err(errno) = set_slack(before_ns) {
        tracing::warn!("cannot restore the thread's timer slack of {before_ns} ns: {errno}");
    }
}

fn set_slack(slack_ns: libc::c_ulong) -> std::result::Result<(), Errno> {
    // SAFETY: this operation takes no pointer.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) }).map(drop)
}

//! Waits between two steps: for events of the kernel, and for deadlines.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::{Event, Guard, TICK, Usage};
use crate::{Error, Result};

/// Time since the start of the guard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn after(self, pause: Duration) -> u64 {
        self.now_ns().saturating_add(pause.as_nanos() as u64)
    }
}

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitResult {
    /// A step has something to do.
    Step,
    /// The guard is to stop.
    Guard,
}

/// Waits after a step.
#[derive(Debug)]
pub(super) struct EventLoop<'a> {
    clock: Clock,
    stop: BorrowedFd<'a>,
    /// No step before this time.
    paused_until_ns: u64,
    /// The next check for changes that the kernel does not report, and the interval of checks.
    check_ns: u64,
    check: Duration,
    /// Reported changes wait until then: other users decide their number.
    quiet_until_ns: u64,
}

/// What a poll has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    Stop,
    Event,
    Time,
}

impl<'a> EventLoop<'a> {
    /// Starts after a step: `pause` is the time to the next one, `check` the interval of checks.
    pub(super) fn new(
        clock: Clock,
        stop: BorrowedFd<'a>,
        pause: Duration,
        check: Duration,
    ) -> Self {
        let paused_until_ns = clock.after(pause);
        // The first one is right after the pause: a scan may be incomplete.
        Self { clock, stop, paused_until_ns, check_ns: 0, check, quiet_until_ns: 0 }
    }

    /// Waits until a step has something to do. Follows processes that change meanwhile. Without events and
    /// deadlines it wakes up for checks only.
    pub(super) fn wait(
        mut self,
        guard: &mut Guard<'_>,
        report: &mut (dyn FnMut(&[Event], &[Usage]) + Send),
    ) -> Result<WaitResult> {
        loop {
            let now_ns = self.clock.now_ns();
            let is_quiet = now_ns < self.quiet_until_ns;
            let events = [guard.wakes(), guard.writes()];
            let events = events.into_iter().flatten().filter(|_| !is_quiet);
            match self.poll(events, self.next_ns(guard, now_ns).saturating_sub(now_ns))? {
                Wake::Stop => return Ok(WaitResult::Guard),
                Wake::Event => {
                    self.quiet_until_ns = self.clock.after(TICK);
                    if guard.is_changed() {
                        self.check_ns = 0;
                    }
                }
                Wake::Time => {}
            }
            let mut events = guard.follow_writes()?;
            events.extend(guard.follow_processes(self.clock.now_ns())?);
            if !events.is_empty() {
                report(&events, &guard.usage());
            }
            let now_ns = self.clock.now_ns();
            if now_ns < self.paused_until_ns {
                continue;
            }
            if guard.ends_hold(now_ns) {
                return Ok(WaitResult::Step);
            }
            if now_ns >= self.check_ns {
                if guard.is_due(now_ns)? {
                    return Ok(WaitResult::Step);
                }
                self.check_ns = self.clock.after(self.check);
            }
        }
    }

    /// The next time at which there is something to do.
    fn next_ns(&self, guard: &Guard<'_>, now_ns: u64) -> u64 {
        let step = self.check_ns.min(guard.next_end_of_hold_ns().unwrap_or(u64::MAX));
        let step = step.max(self.paused_until_ns);
        let scan = guard.next_scan_ns().unwrap_or(u64::MAX);
        let quiet = if now_ns < self.quiet_until_ns { self.quiet_until_ns } else { u64::MAX };
        step.min(scan).min(quiet)
    }

    fn poll<'e>(
        &'e self,
        events: impl Iterator<Item = BorrowedFd<'e>>,
        timeout_ns: u64,
    ) -> Result<Wake> {
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<PollFd<'_>> =
            [self.stop].into_iter().chain(events).map(readable).collect();
        let timeout = TimeSpec::from(Duration::from_nanos(timeout_ns));
        match ppoll(&mut descriptors, Some(timeout), None) {
            // The caller starts again.
            Ok(0) | Err(Errno::EINTR) => Ok(Wake::Time),
            Ok(_) if descriptors[0].any() == Some(true) => Ok(Wake::Stop),
            Ok(_) => Ok(Wake::Event),
            Err(errno) => {
                Err(Error::System { operation: "wait for changes", source: errno.into() })
            }
        }
    }
}

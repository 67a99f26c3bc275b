//! Termination signals as a flag that ends waits, so that all changes are undone in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use crate::clock::{now_ns, sleep_until};
/// A termination signal was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; all objects of this run are removed")]
pub struct Interruption;

/// A result that a signal may interrupt.
pub type Result<T> = std::result::Result<T, Interruption>;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Poll interval of a wait's condition and of the flag.
const POLL_NS: u64 = 200_000;

extern "C" fn raise(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Makes SIGINT, SIGTERM and SIGHUP set a flag while it exists. A second signal of a kind has its former
/// effect.
#[derive(Debug)]
pub struct Guard {
    former: Vec<(Signal, SigAction)>,
}

impl Guard {
    /// Installs the handlers.
    #[must_use]
    pub fn install() -> Self {
        INTERRUPTED.store(false, Ordering::Relaxed);
        let action =
            SigAction::new(SigHandler::Handler(raise), SaFlags::SA_RESETHAND, SigSet::empty());
        let former = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().filter_map(
            // SAFETY: the handler stores to an atomic and does nothing else.
            |signal| unsafe { sigaction(signal, &action) }.ok().map(|former| (signal, former)),
        );
        Self { former: former.collect() }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for (signal, former) in &self.former {
            // SAFETY: the action is the one that was there before.
            let _ = unsafe { sigaction(*signal, former) };
        }
    }
}

/// Returns [`Interruption`] after a signal.
///
/// # Errors
/// [`Interruption`].
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interruption) } else { Ok(()) }
}

/// Sleeps for this time.
///
/// # Errors
/// [`Interruption`].
pub fn pause(time: Duration) -> Result<()> {
    pause_until(now_ns() + time.as_nanos() as u64, || ())
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`; calls `tick` regularly.
///
/// # Errors
/// [`Interruption`].
pub fn pause_until(deadline_ns: u64, mut tick: impl FnMut()) -> Result<()> {
    const TICK_NS: u64 = 20_000_000;
    loop {
        check()?;
        let now = now_ns();
        if now >= deadline_ns {
            return Ok(());
        }
        tick();
        sleep_until(deadline_ns.min(now + TICK_NS));
    }
}

/// Waits until `condition` holds; returns false if `bound` passes first.
///
/// # Errors
/// [`Interruption`].
pub fn wait_until(bound: Duration, mut condition: impl FnMut() -> bool) -> Result<bool> {
    let deadline = now_ns() + bound.as_nanos() as u64;
    loop {
        check()?;
        if condition() {
            return Ok(true);
        }
        let now = now_ns();
        if now >= deadline {
            return Ok(false);
        }
        sleep_until(deadline.min(now + POLL_NS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_on_its_condition_or_its_bound() {
        let mut looks = 0;
        let met = wait_until(Duration::from_secs(10), || {
            looks += 1;
            looks == 3
        });
        assert!(met.unwrap());
        assert!(!wait_until(Duration::from_millis(1), || false).unwrap());
        pause_until(now_ns() + 1000, || ()).unwrap();
    }
}

//! Delay of the kernel's coarse clock, which data planes in the kernel use for timeouts.
//!
//! It advances when a CPU handles the timer interrupt. On an overloaded machine, or a virtual machine
//! without CPU time, it stops: frames that arrive meanwhile get a time stamp that is too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nix::time::{ClockId, clock_gettime};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use crate::Result;
use crate::fault::prefer_this_thread;
use crate::worker::Worker;

const LOOK_NS: u64 = 1_000_000;

/// A thread that polls the clock.
pub(super) struct ClockMonitor {
    latest_ns: Arc<AtomicU64>,
    _worker: Worker<()>,
}

impl ClockMonitor {
    pub(super) fn start() -> Result<Self> {
        let latest_ns = Arc::new(AtomicU64::new(0));
        let inside = Arc::clone(&latest_ns);
        let poll = move |stop: &AtomicBool| {
            prefer_this_thread();
            while !stop.load(Ordering::Acquire) {
                inside.fetch_max(late_ns(), Ordering::AcqRel);
                sleep_until(now_ns() + LOOK_NS);
            }
        };
        Ok(Self { latest_ns, _worker: Worker::start("lab-tick", poll)? })
    }

    /// Its maximum delay in ns.
    pub(super) fn latest_ns(&self) -> u64 {
        self.latest_ns.load(Ordering::Acquire)
    }
}

fn late_ns() -> u64 {
    let coarse = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64);
    now_ns().saturating_sub(coarse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_realtime::interrupt::wait_until;
    use std::time::Duration;

    #[test]
    fn the_coarse_clock_is_never_early_and_sometimes_late() {
        let monitor = ClockMonitor::start().unwrap();
        assert!(wait_until(Duration::from_secs(10), || monitor.latest_ns() > 0).unwrap());
    }
}

//! How late the kernel's coarse clock was, by which data planes in the kernel tell time-outs.
//!
//! It goes forward when a CPU takes the timer's interrupt. Where a machine is overloaded, or a virtual
//! one is not run, it stands still meanwhile: what came then is told to be earlier than it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use nix::time::{ClockId, clock_gettime};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};

use crate::fault::prefer_this_thread;
use crate::{Error, Result};

const LOOK_NS: u64 = 1_000_000;

/// A thread that looks at it.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    latest_ns: AtomicU64,
}

impl Watch {
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        let look = move || {
            prefer_this_thread();
            while !inside.stop.load(Ordering::Acquire) {
                inside.latest_ns.fetch_max(late_ns(), Ordering::AcqRel);
                sleep_until(now_ns() + LOOK_NS);
            }
        };
        let thread = thread::Builder::new()
            .name("lab-tick".into())
            .spawn(look)
            .map_err(|error| Error::io("start a thread that watches the clock", error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// How late it was at most, in ns.
    pub(super) fn latest_ns(&self) -> u64 {
        self.shared.latest_ns.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.thread.take().map(JoinHandle::join);
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
        let watch = Watch::start().unwrap();
        assert!(wait_until(Duration::from_secs(10), || watch.latest_ns() > 0).unwrap());
    }
}

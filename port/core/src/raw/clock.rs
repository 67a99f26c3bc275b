//! Arrival times of frames: the kernel's time stamps converted to the clock of timeouts.

use std::mem::zeroed;

/// Maximum difference of a time stamp from now. Beyond it the time of day was set, or the octets before the frame
/// are not a time stamp.
const OLDEST_NS: u64 = 10_000_000_000;
const NEWEST_NS: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, to a tick of the kernel, and the difference of CLOCK_REALTIME from it; read it again for each
/// batch of frames, at negligible cost.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    now_ns: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC.
    realtime_ahead_ns: i64,
}

impl Clock {
    /// Reads both clocks.
    #[must_use]
    pub fn read() -> Self {
        // Both advance at a tick, together: between two equal readings there was none.
        let mut before = coarse(libc::CLOCK_MONOTONIC_COARSE);
        loop {
            let realtime = coarse(libc::CLOCK_REALTIME_COARSE);
            let now_ns = coarse(libc::CLOCK_MONOTONIC_COARSE);
            if now_ns == before {
                return Self { now_ns, realtime_ahead_ns: realtime as i64 - now_ns as i64 };
            }
            before = now_ns;
        }
    }

    /// CLOCK_MONOTONIC at the reading, in nanoseconds, or up to a tick before.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// CLOCK_REALTIME less CLOCK_MONOTONIC, in nanoseconds: changes only when the time of day is set.
    pub(super) fn realtime_ahead_ns(&self) -> i64 {
        self.realtime_ahead_ns
    }

    /// The arrival time of a frame with this time stamp of CLOCK_MONOTONIC; now if the stamp is implausible.
    #[must_use]
    pub fn arrival(&self, stamp_ns: u64) -> u64 {
        let possible = self.now_ns.saturating_sub(OLDEST_NS)..=self.now_ns + NEWEST_NS;
        if possible.contains(&stamp_ns) { stamp_ns } else { self.now_ns }
    }

    /// As [`Clock::arrival`], with a stamp of CLOCK_REALTIME.
    pub(super) fn arrival_by_realtime(&self, stamp_ns: u64) -> u64 {
        self.arrival((stamp_ns as i64).wrapping_sub(self.realtime_ahead_ns) as u64)
    }
}

fn coarse(clock: libc::clockid_t) -> u64 {
    // SAFETY: timespec is plain data, for which zeros are valid.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the timespec lives through the call. Every kernel has these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_by_either_clock_are_the_same_time() {
        let clock = Clock::read();
        let (realtime, monotonic) = (coarse(libc::CLOCK_REALTIME), coarse(libc::CLOCK_MONOTONIC));
        let found = clock.arrival_by_realtime(realtime);
        // The time between the readings above.
        assert!(found.abs_diff(monotonic) < 500_000_000, "{found} {monotonic}");
        assert!(clock.now_ns() <= monotonic);
    }

    #[test]
    fn an_implausible_stamp_is_replaced_by_now() {
        let clock = Clock { now_ns: 20_000_000_000, realtime_ahead_ns: 1_000 };
        for stamp in [0, 9_999_999_999, 21_000_000_001, u64::MAX] {
            assert_eq!(clock.arrival(stamp), 20_000_000_000, "{stamp}");
        }
        for stamp in [10_000_000_000, 19_999_999_999, 20_000_000_001, 21_000_000_000] {
            assert_eq!(clock.arrival(stamp), stamp);
            assert_eq!(clock.arrival_by_realtime(stamp + 1_000), stamp);
        }
        assert_eq!(clock.arrival_by_realtime(0), 20_000_000_000);
    }
}

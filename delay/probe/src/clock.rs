//! The clock of a session: starts at the time of day, and never steps.

use onbeat_realtime::clock::{now_ns, realtime_offset};

/// Interval between checks if the time of day was set, in nanoseconds.
const LOOK_NS: i64 = 1_000_000;
/// Maximum difference of two readings of the same time beyond their own error, in nanoseconds.
const SLACK_NS: u64 = 1_000;

/// CLOCK_MONOTONIC, plus the offset of CLOCK_REALTIME at the start of the session. The kernel's stamps are of
/// CLOCK_REALTIME: they are converted to this clock, even if the time of day is set meanwhile.
#[derive(Debug)]
pub(crate) struct SessionClock {
    ahead_ns: i64,
    offset: (i64, u64),
    looked_ns: i64,
    steps: u64,
}

impl SessionClock {
    pub(crate) fn new() -> Self {
        let offset = realtime_offset();
        Self { ahead_ns: offset.0, offset, looked_ns: now_ns() as i64, steps: 0 }
    }

    /// Nanoseconds since 1970.
    pub(crate) fn now_ns(&self) -> i64 {
        now_ns() as i64 + self.ahead_ns
    }

    /// Converts a stamp of CLOCK_REALTIME that was made a moment ago.
    pub(crate) fn of_realtime(&mut self, stamp_ns: i64) -> i64 {
        let now = now_ns() as i64;
        if now - self.looked_ns > LOOK_NS {
            self.looked_ns = now;
            self.take(realtime_offset());
        }
        stamp_ns - self.offset.0 + self.ahead_ns
    }

    /// Both clocks have the same rate: their difference changes when the time of day is set.
    fn take(&mut self, offset: (i64, u64)) {
        if offset.0.abs_diff(self.offset.0) > offset.1 + self.offset.1 + SLACK_NS {
            self.steps += 1;
            self.offset = offset;
        } else if offset.1 < self.offset.1 {
            self.offset = offset;
        }
    }

    /// The number of times that the time of day was set.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_time_of_day_does_not_step_the_session_clock() {
        let (ahead_ns, offset) = (7_000, (1_000_000, 50));
        let mut clock = SessionClock { ahead_ns, offset, looked_ns: i64::MAX, steps: 0 };
        let stamp = 1_000_000 + 5_000;
        assert_eq!(clock.of_realtime(stamp), 12_000);
        // Set by a second: stamps are of the new time, but of the same moment.
        clock.take((1_001_000_000, 50));
        assert_eq!(clock.of_realtime(stamp + 1_000_000_000), 12_000);
        assert_eq!(clock.steps(), 1);
        // An interrupted reading has no effect, and a better one is not a step.
        clock.take((1_001_040_000, 80_000));
        clock.take((1_001_000_001, 20));
        assert_eq!((clock.steps(), clock.offset), (1, (1_001_000_001, 20)));
    }
}

//! Cycles of a plain program: sleep until the instant, send.

use onbeat_realtime::clock::{now_ns, sleep_until};

/// Maximum number of cycles of a round.
const ROOM: usize = 1 << 17;

/// Sleeps from instant to instant of a cycle. Missed instants are counted and not made up for, as in a
/// port.
#[derive(Debug, Default)]
pub(super) struct Sleeper {
    plan: Option<(u64, u64)>,
    pub(super) missed: u64,
    /// Wake-up latencies in nanoseconds.
    pub(super) wakeups: Vec<u64>,
}

impl Sleeper {
    pub(super) fn start_requests(&mut self, first_ns: u64, period_ns: u64) {
        self.plan = Some((first_ns, period_ns));
        // No allocation while cycles run.
        self.wakeups.reserve(ROOM);
    }

    pub(super) fn finish(&mut self) {
        self.plan = None;
    }

    /// Sleeps until the next instant, or until `until_ns` if that is earlier. Returns true at an
    /// instant: a frame is due.
    pub(super) fn sleep(&mut self, until_ns: u64) -> bool {
        let Some((due, period)) = self.plan.filter(|(due, _)| *due < until_ns) else {
            sleep_until(until_ns);
            return false;
        };
        sleep_until(due);
        self.woken(due, period, now_ns())
    }

    fn woken(&mut self, due: u64, period: u64, now: u64) -> bool {
        // Woken by a signal.
        if now < due {
            return false;
        }
        let missed = (now - due) / period;
        self.missed += missed;
        let due = due + missed * period;
        self.wakeups.push(now - due);
        self.plan = Some((due + period, period));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_instants_are_counted_and_the_grid_is_kept() {
        let mut sleeper = Sleeper::default();
        assert!(!sleeper.sleep(0), "nothing is planned");
        assert!(!sleeper.woken(100, 10, 99), "a signal came");
        assert!(sleeper.woken(100, 10, 103));
        assert_eq!((sleeper.plan, sleeper.missed), (Some((110, 10)), 0));
        assert!(sleeper.woken(110, 10, 135));
        assert_eq!((sleeper.plan, sleeper.missed), (Some((140, 10)), 2));
        assert_eq!(sleeper.wakeups, [3, 5]);
    }
}

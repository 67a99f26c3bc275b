//! The poll that a controlled node expects next.

use crate::lead::WakeLead;

/// The part of its time that a thread may wait actively: one of `SHARE`.
const SHARE: u64 = 10;
/// Deviation of two clocks that the prediction follows: one of `DRIFT`.
const DRIFT: u64 = 1000;
/// Most cycles between two polls of a multiplexed node (0x1F98/7).
const MULTIPLEXED: u64 = 255;

/// A time in which a poll is expected, in nanoseconds of the port's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

/// Predicts polls. Their instants are those of the managing node's cycle; each poll follows its instant by a delay that
/// varies.
///
/// A thread that sleeps when a poll arrives answers it later by its wake-up latency. If it waits actively from its lead
/// before the poll, it answers at once.
#[derive(Debug)]
pub(crate) struct ExpectedPoll {
    /// The earliest time of the latest poll, as the polls before predict it.
    instant_ns: Option<u64>,
    /// Time for active waits, as of `counted_ns`: polls of any rate and sender get no more than their share.
    left_ns: u64,
    counted_ns: u64,
}

impl ExpectedPoll {
    pub(crate) fn new() -> Self {
        Self { instant_ns: None, left_ns: 0, counted_ns: 0 }
    }

    /// A poll was received.
    pub(crate) fn received(&mut self, at_ns: u64, cycle_ns: u64) {
        let expected = |former_ns: u64| {
            let cycles = at_ns.checked_sub(former_ns)?.checked_add(cycle_ns / 2)? / cycle_ns;
            let expected_ns = former_ns + cycles * (cycle_ns + cycle_ns / DRIFT);
            (cycles <= MULTIPLEXED && at_ns.abs_diff(expected_ns) < cycle_ns / 4)
                .then_some(expected_ns)
        };
        let expected_ns = self.instant_ns.filter(|_| cycle_ns > 0).and_then(expected);
        self.instant_ns = Some(expected_ns.map_or(at_ns, |expected_ns| expected_ns.min(at_ns)));
    }

    /// The next window that has not ended at `now_ns`: it begins as `lead` requires.
    pub(crate) fn window(&mut self, now_ns: u64, cycle_ns: u64, lead: &WakeLead) -> Option<Window> {
        let most_ns = cycle_ns / SHARE;
        let earned_ns = now_ns.saturating_sub(self.counted_ns) / SHARE;
        self.left_ns = self.left_ns.saturating_add(earned_ns).min(most_ns);
        self.counted_ns = now_ns;
        let instant_ns = self.instant_ns.filter(|_| cycle_ns > 0)?;
        let begin =
            |cycle: u64| lead.before(instant_ns.saturating_add(cycle * cycle_ns), most_ns / 2);
        let passed = now_ns.saturating_sub(begin(0).saturating_add(most_ns)) / cycle_ns;
        let from_ns = begin(passed + 1);
        let until_ns = now_ns.max(from_ns).saturating_add(self.left_ns).min(from_ns + most_ns);
        (passed < MULTIPLEXED && until_ns > now_ns).then_some(Window { from_ns, until_ns })
    }

    /// The thread waited actively.
    pub(crate) fn waited(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_sub(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE_NS: u64 = 1_000_000;
    const LEAD_NS: u64 = CYCLE_NS / 20;
    const LONGEST_NS: u64 = CYCLE_NS / SHARE;

    fn polled(at_ns: &[u64]) -> ExpectedPoll {
        let mut expected = ExpectedPoll::new();
        at_ns.iter().for_each(|at_ns| expected.received(*at_ns, CYCLE_NS));
        expected
    }

    fn window(expected: &mut ExpectedPoll, now_ns: u64) -> Option<Window> {
        expected.window(now_ns, CYCLE_NS, &WakeLead::new())
    }

    fn around(poll_ns: u64) -> Option<Window> {
        let from_ns = poll_ns - LEAD_NS;
        Some(Window { from_ns, until_ns: from_ns + LONGEST_NS })
    }

    #[test]
    fn a_poll_is_expected_one_cycle_after_the_last() {
        let mut expected = polled(&[10_200_000, 11_200_000]);
        assert_eq!(window(&mut expected, 11_300_000), around(12_200_000));
        // Within the window, and after it without a poll, as of a multiplexed node.
        assert_eq!(window(&mut expected, 12_240_000), around(12_200_000));
        assert_eq!(window(&mut expected, 12_260_000), around(13_200_000));
        assert_eq!(window(&mut expected, 260_260_000), around(261_200_000));
        assert_eq!(window(&mut expected, 1_000_260_000), None);
    }

    #[test]
    fn late_polls_do_not_shift_the_next_windows() {
        let mut expected = polled(&[10_000_000, 11_120_000, 12_080_000]);
        // By the assumed drift only.
        assert_eq!(window(&mut expected, 12_300_000), around(13_002_000));
        expected.received(13_000_500, CYCLE_NS);
        assert_eq!(window(&mut expected, 13_300_000), around(14_000_500));
        // Another phase: a managing node was restarted.
        expected.received(14_500_000, CYCLE_NS);
        assert_eq!(window(&mut expected, 14_700_000), around(15_500_000));
    }

    #[test]
    fn without_polls_or_a_cycle_there_is_no_window() {
        assert_eq!(window(&mut ExpectedPoll::new(), 2_000), None);
        let mut expected = ExpectedPoll::new();
        expected.received(1_000, 0);
        expected.received(2_000, 0);
        assert_eq!(expected.window(4_000, 0, &WakeLead::new()), None);
    }

    #[test]
    fn active_waits_have_a_share_of_the_time() {
        let mut expected = polled(&[1_200_000]);
        let (mut now_ns, mut active_ns) = (1_200_000, 0);
        // A flood of polls at every phase of the cycle.
        for _ in 0..100_000 {
            now_ns += 37_000;
            expected.received(now_ns, CYCLE_NS);
            if let Some(window) = window(&mut expected, now_ns) {
                if window.from_ns <= now_ns {
                    let waited_ns = (window.until_ns - now_ns).min(37_000);
                    expected.waited(waited_ns);
                    active_ns += waited_ns;
                }
            }
        }
        let share = active_ns as f64 / now_ns as f64;
        assert!(share <= 0.1001, "{share}");
    }
}

//! History length and reset timeout that follow from the measured paths of a stream (10.4.1.6, 10.4.1.7).
//!
//! * **Reset timeout**: the shortest of [`TIMEOUTS_MS`] that is at least twice the longest time between accepted packets, and
//!   twice the greatest skew. A restarted talker is heard after it. Pauses of the talker reset the function, too: with
//!   [`PAUSES`] of them within [`WINDOW_NS`], the next longer timeout is used.
//! * **History length**: a power of two that holds twice the greatest distance of a copy, and the packets of one reset timeout
//!   at the highest rate so far. A path that becomes slower, or a loss on all paths, makes no packet rogue within that time.
//!
//! Before enough packets are measured, both have values that suit most networks: [`FIRST_HISTORY`] and the longest timeout.

use crate::counters::Counters;
use crate::paths::PathsReading;
use crate::spec::{Algorithm, MAX_HISTORY, Recovery};

/// History length before the paths are measured.
pub const FIRST_HISTORY: u16 = 1024;

/// Shortest history length.
const SHORTEST_HISTORY: u16 = 64;

/// Reset timeouts, in milliseconds. The longest, which is the standard's default, holds before the paths are measured.
pub const TIMEOUTS_MS: [u32; 5] = [100, 200, 500, 1000, 2000];

/// Resets without rogue packets, which are pauses of the talker, that a timeout is too short for.
pub const PAUSES: u64 = 3;

/// Time within which they are counted.
pub const WINDOW_NS: u64 = 10_000_000_000;

/// What the parameters of a recovery function follow, as far as its counters and paths do not state it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Adaptation {
    /// Time and passed packets of the last reading.
    last: Option<(u64, u64)>,
    /// Highest rate between two readings, in packets per second.
    rate: u64,
    window: Window,
    /// Shortest timeout that pauses permit, as an index.
    least: usize,
}

/// The start of a window in which pauses are counted.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    from_ns: u64,
    resets: u64,
    rogue: u64,
}

impl Adaptation {
    /// Returns the parameters that follow from a reading at `now_ns`; those of `recovery` where they are fixed, or if too few
    /// packets are measured.
    #[must_use]
    pub fn update(
        &mut self,
        now_ns: u64,
        recovery: &Recovery,
        counters: &Counters,
        paths: &PathsReading,
    ) -> Recovery {
        let mut next = *recovery;
        if !self.note_rate(now_ns, counters.passed) {
            return next;
        }
        if recovery.adaptive.reset_timeout {
            self.note_pauses(now_ns, counters, recovery.reset_timeout_ms);
            let needed = paths.reset_timeout_ms();
            next.reset_timeout_ms = needed.map_or(next.reset_timeout_ms, |ms| self.timeout_ms(ms));
        }
        if let (true, Algorithm::Vector { history_length }) =
            (recovery.adaptive.history_length, &mut next.algorithm)
        {
            let longest = TIMEOUTS_MS[TIMEOUTS_MS.len() - 1];
            let timeout_ms = [next.reset_timeout_ms, longest].into_iter().find(|ms| *ms > 0);
            let of_timeout = self.rate.saturating_mul(timeout_ms.unwrap_or(longest).into()) / 1000;
            let needed = paths.history_length();
            *history_length = needed.map_or(*history_length, |length| {
                let length = of_timeout
                    .clamp(SHORTEST_HISTORY.into(), MAX_HISTORY.into())
                    .max(length.into());
                (length as u16).next_power_of_two()
            });
        }
        next
    }

    /// Notes the rate since the last reading; false: there is none.
    fn note_rate(&mut self, now_ns: u64, passed: u64) -> bool {
        let before = self.last.replace((now_ns, passed));
        // Counters restart when the stream is created again.
        let Some((then_ns, then)) = before.filter(|(_, then)| *then <= passed) else {
            return false;
        };
        let elapsed_ns = u128::from(now_ns.saturating_sub(then_ns).max(1));
        let rate = u128::from(passed - then) * 1_000_000_000 / elapsed_ns;
        self.rate = self.rate.max(rate as u64);
        true
    }

    /// Uses a longer timeout than `timeout_ms` after too many pauses.
    fn note_pauses(&mut self, now_ns: u64, counters: &Counters, timeout_ms: u32) {
        let Counters { resets, rogue, .. } = *counters;
        let Window { from_ns, resets: then, rogue: rogue_then } = self.window;
        let is_over = now_ns.saturating_sub(from_ns) >= WINDOW_NS;
        let is_pause = rogue == rogue_then && resets.saturating_sub(then) >= PAUSES;
        if is_pause && !is_over && from_ns > 0 {
            let longer = TIMEOUTS_MS.iter().position(|ms| *ms > timeout_ms);
            self.least = longer.unwrap_or(self.least).max(self.least);
        }
        if is_over || is_pause || rogue != rogue_then || resets < then {
            self.window = Window { from_ns: now_ns, resets, rogue };
        }
    }

    fn timeout_ms(&self, needed_ms: u64) -> u32 {
        let long_enough = |ms: &&u32| u64::from(**ms) >= needed_ms;
        let last = TIMEOUTS_MS[TIMEOUTS_MS.len() - 1];
        TIMEOUTS_MS[self.least..].iter().find(long_enough).copied().unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{MemberArrivals, UNIT_NS};
    use crate::spec::Adaptive;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn adaptive() -> Recovery {
        let adaptive = Adaptive { history_length: true, reset_timeout: true };
        Recovery { reset_timeout_ms: 2000, adaptive, ..Recovery::vector(FIRST_HISTORY) }
    }

    fn paths(samples: u16, behind: u16, skew_ns: u64, gap_ns: u64) -> PathsReading {
        let mut member = MemberArrivals::default();
        (0..samples).for_each(|_| member.record_later((skew_ns / UNIT_NS) as u32, behind));
        PathsReading { members: alloc::vec![member, MemberArrivals::default()], gap_ns }
    }

    fn values(recovery: Recovery) -> (u16, u32) {
        let Algorithm::Vector { history_length } = recovery.algorithm else { unreachable!() };
        (history_length, recovery.reset_timeout_ms)
    }

    fn passed(passed: u64) -> Counters {
        Counters { passed, ..Counters::default() }
    }

    #[test]
    fn parameters_follow_once_enough_is_measured() {
        let mut a = Adaptation::default();
        let measured = paths(30, 20, 4 * MS, 2 * MS);
        assert_eq!(a.update(0, &adaptive(), &passed(0), &measured), adaptive(), "no rate yet");
        let few = paths(29, 20, 4 * MS, 2 * MS);
        assert_eq!(values(a.update(S, &adaptive(), &passed(0), &few)), (1024, 2000));
        let enough = paths(30, 20, 4 * MS, 2 * MS);
        // 1,000 packets per second: 100 within the timeout.
        let next = a.update(2 * S, &adaptive(), &passed(1000), &enough);
        assert_eq!(values(next), (128, 100));
        // The highest rate remains.
        assert_eq!(values(a.update(3 * S, &next, &passed(1001), &enough)), (128, 100));
        let slower = paths(40, 300, 60 * MS, 2 * MS);
        assert_eq!(values(a.update(4 * S, &next, &passed(1002), &slower)), (1024, 200));
        let far = paths(40, 20_000, 3000 * MS, 2 * MS);
        assert_eq!(values(a.update(5 * S, &next, &passed(1003), &far)), (MAX_HISTORY, 2000));
        assert_eq!(values(a.update(6 * S, &next, &passed(u64::MAX), &enough)), (MAX_HISTORY, 100));
    }

    #[test]
    fn fixed_parameters_stay() {
        let enough = paths(30, 20, 40 * MS, 2 * MS);
        let fixed = Recovery { adaptive: Adaptive::default(), ..adaptive() };
        let mut a = Adaptation { last: Some((0, 0)), ..Adaptation::default() };
        assert_eq!(a.update(S, &fixed, &passed(9), &enough), fixed);
        let history = Adaptive { history_length: true, reset_timeout: false };
        for (timeout_ms, length) in [(0, 2048), (5, 64), (500, 512)] {
            let recovery =
                Recovery { reset_timeout_ms: timeout_ms, adaptive: history, ..adaptive() };
            (a.last, a.rate) = (Some((0, 0)), 1000);
            let next = values(a.update(S, &recovery, &passed(0), &enough));
            assert_eq!(next, (length, timeout_ms));
        }
    }

    #[test]
    fn pauses_lengthen_the_timeout_and_restarts_do_not() {
        let enough = paths(30, 1, MS, MS);
        let with = |resets, rogue| Counters { resets, rogue, ..Counters::default() };
        let mut a = Adaptation { last: Some((0, 0)), ..Adaptation::default() };
        let mut recovery = a.update(S, &adaptive(), &with(1, 0), &enough);
        assert_eq!(recovery.reset_timeout_ms, 100);
        // A talker that restarts sends rogue packets before the reset.
        for n in 1..20 {
            recovery = a.update((1 + n) * S, &recovery, &with(1 + n, n), &enough);
            assert_eq!(recovery.reset_timeout_ms, 100, "{n}");
        }
        // Two pauses in ten seconds, then three.
        for (at, resets, timeout_ms) in [
            (35, 22, 100),
            (46, 24, 100),
            (47, 25, 100),
            (49, 27, 200),
            (50, 30, 500),
            (70, 31, 500),
        ] {
            recovery = a.update(at * S, &recovery, &with(resets, 19), &enough);
            assert_eq!(recovery.reset_timeout_ms, timeout_ms, "{at}");
        }
    }

    #[test]
    fn counters_that_restart_are_no_pauses() {
        let enough = paths(30, 1, MS, MS);
        let with = |resets, passed| Counters { resets, passed, ..Counters::default() };
        let mut a = Adaptation { last: Some((0, 0)), ..Adaptation::default() };
        let mut recovery = a.update(20 * S, &adaptive(), &with(25, 100), &enough);
        for (at, passed) in [(21, 0), (22, 10)] {
            recovery = a.update(at * S, &recovery, &with(1, passed), &enough);
            assert_eq!(recovery.reset_timeout_ms, 100, "{at}");
        }
    }
}

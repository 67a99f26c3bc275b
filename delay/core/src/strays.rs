//! Packets on both sides of a hop that no window matches: a clock was set meanwhile.

use std::collections::{HashMap, VecDeque};

/// Maximum number of unmatched packets kept of each side.
const ROOM: usize = 1 << 16;
/// Minimum number of packets of a run that is no coincidence.
const FEWEST: u64 = 32;
/// Matched packets per packet of a run that end it: after a clock step nearly no packet matches.
const MATCHED_PER_STRAY: u64 = 8;
/// Maximum variation of the differences of a run; also a quarter of the first difference.
const VARIATION_NS: i64 = 1_000_000;

/// A run of packets whose departure differs from the arrival by more than the window permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StrayRun {
    /// The number of packets.
    pub packets: u64,
    /// Departure less arrival of the first packet, in nanoseconds.
    pub difference_ns: i64,
}

/// Finds unmatched arrivals among unmatched departures.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    arrivals: UnmatchedPackets,
    departures: UnmatchedPackets,
    run: StrayRun,
    matched: u64,
    longest: StrayRun,
}

impl Strays {
    /// Records an arrival that did not depart within the window.
    pub(crate) fn arrival(&mut self, key: u64, time_ns: i64) {
        match self.departures.remove(key) {
            Some(departure_ns) => self.stray(departure_ns.saturating_sub(time_ns)),
            None => self.arrivals.insert(key, time_ns),
        }
    }

    /// Records a departure without an arrival within the window.
    pub(crate) fn departure(&mut self, key: u64, time_ns: i64) {
        match self.arrivals.remove(key) {
            Some(arrival_ns) => self.stray(time_ns.saturating_sub(arrival_ns)),
            None => self.departures.insert(key, time_ns),
        }
    }

    /// Returns true if a departure of these contents had no arrival within the window.
    pub(crate) fn has_departure(&self, key: u64) -> bool {
        self.departures.times_ns.contains_key(&key)
    }

    /// Records a matched packet.
    #[inline]
    pub(crate) fn matched(&mut self) {
        self.matched += 1;
    }

    /// Records a backward step of the clock: packets before and after it are not compared.
    pub(crate) fn restart(&mut self) {
        *self = Strays { longest: self.longest, ..Strays::default() };
    }

    /// The longest run; `None` if there is none.
    pub(crate) fn longest(&self) -> Option<StrayRun> {
        Some(self.longest).filter(|run| run.packets >= FEWEST)
    }

    fn stray(&mut self, difference_ns: i64) {
        let first_ns = self.run.difference_ns;
        let varies_by = difference_ns.abs_diff(first_ns);
        let goes_on = varies_by <= (first_ns / 4).unsigned_abs() + VARIATION_NS.unsigned_abs()
            && self.matched <= MATCHED_PER_STRAY * self.run.packets;
        if !goes_on {
            self.run = StrayRun { packets: 0, difference_ns };
        }
        self.run.packets += 1;
        self.matched = if goes_on { self.matched } else { 0 };
        if self.run.packets > self.longest.packets {
            self.longest = self.run;
        }
    }
}

/// The latest unmatched packets of a side, and the time of each key; `None`: more than one.
#[derive(Debug, Default)]
struct UnmatchedPackets {
    times_ns: HashMap<u64, Option<i64>>,
    order: VecDeque<u64>,
}

impl UnmatchedPackets {
    fn insert(&mut self, key: u64, time_ns: i64) {
        if let Some(known) = self.times_ns.get_mut(&key) {
            *known = None;
            return;
        }
        if self.order.len() >= ROOM {
            if let Some(oldest) = self.order.pop_front() {
                self.times_ns.remove(&oldest);
            }
        }
        self.order.push_back(key);
        self.times_ns.insert(key, Some(time_ns));
    }

    /// Returns the time of a packet with a unique key. Its key keeps its slot, so that it counts once.
    fn remove(&mut self, key: u64) -> Option<i64> {
        self.times_ns.get_mut(&key).and_then(Option::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn a_run_of_strays_indicates_a_step() {
        let mut strays = Strays::default();
        for key in 0..FEWEST {
            assert_eq!(strays.longest(), None);
            strays.departure(key, key as i64 * MS - 100 * MS);
            strays.arrival(key, key as i64 * MS);
        }
        let run = StrayRun { packets: FEWEST, difference_ns: -100 * MS };
        assert_eq!(strays.longest(), Some(run));
        // Lost arrivals and departures of other packets are not strays.
        let mut strays = Strays::default();
        (0..1000).for_each(|key| strays.arrival(key, 0));
        (1000..2000).for_each(|key| strays.departure(key, 0));
        assert_eq!(strays.longest(), None);
    }

    #[test]
    fn identical_packets_and_few_among_many_are_not_a_run() {
        let mut alike = Strays::default();
        for key in 0..1000_u64 {
            alike.departure(key / 4, key as i64);
        }
        (0..1000).for_each(|key| alike.arrival(key / 4, 100 * MS + key as i64));
        assert_eq!(alike.longest(), None);
        let mut few = Strays::default();
        for key in 0..1000_u64 {
            few.departure(key, key as i64);
            few.arrival(key, 100 * MS + key as i64);
            (0..=MATCHED_PER_STRAY).for_each(|_| few.matched());
        }
        assert_eq!(few.longest(), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut strays = Strays::default();
        for key in 0..3 * ROOM as u64 {
            strays.departure(key, 0);
            strays.arrival(key / 2, 5);
        }
        for side in [&strays.arrivals, &strays.departures] {
            assert!(side.order.len() <= ROOM && side.times_ns.len() <= ROOM);
        }
    }
}

//! The launch schedule of slots. Pure: the time is passed in.

use crate::{Cause, Slot, Time};

/// A transmission that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DueTransmission {
    pub(crate) slot: Slot,
    /// [`Cause::At`] or [`Cause::Cycle`].
    pub(crate) cause: Cause,
    /// The instant at which it was due.
    pub(crate) time: Time,
    /// Preceding cycles that passed without a frame.
    pub(crate) missed: u64,
}

#[derive(Debug, Clone, Copy)]
struct PlannedLaunch {
    slot: Slot,
    first: Time,
    /// `None`: once.
    period: Option<u64>,
    next_cycle: u64,
    /// The next instant; `None`: beyond the range of the clock.
    next: Time,
}

/// Maximum one launch per slot, at the slot's index: nothing is allocated at run time.
#[derive(Debug)]
pub(crate) struct Schedule {
    launches: Vec<Option<PlannedLaunch>>,
}

impl Schedule {
    pub(crate) fn new(slots: usize) -> Self {
        Self { launches: vec![None; slots] }
    }

    /// Sends the slot once, at `time`; replaces its planned launch.
    pub(crate) fn at(&mut self, slot: Slot, time: Time) {
        self.set(PlannedLaunch { slot, first: time, period: None, next_cycle: 0, next: time });
    }

    /// Sends the slot at `first`, and every `period` nanoseconds after it; replaces its planned launch.
    pub(crate) fn every(&mut self, slot: Slot, first: Time, period: u64) {
        debug_assert!(period > 0);
        self.set(PlannedLaunch { slot, first, period: Some(period), next_cycle: 0, next: first });
    }

    fn set(&mut self, launch: PlannedLaunch) {
        self.launches[launch.slot.index as usize] = Some(launch);
    }

    /// Cancels the planned launch of the slot; returns false if there was none.
    pub(crate) fn cancel(&mut self, slot: Slot) -> bool {
        self.launches[slot.index as usize].take().is_some()
    }

    /// The time of the next transmission.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.launches.iter().flatten().map(|launch| launch.next).min()
    }

    /// Returns the transmission that has been due longest at `now`.
    ///
    /// Instants are `first + n * period`, so that lateness does not accumulate. If several instants of a cyclic
    /// slot passed, only the last is due, once: a burst of the others would reach a bus that is in a later cycle.
    pub(crate) fn pop(&mut self, now: Time) -> Option<DueTransmission> {
        let due = self.launches.iter_mut().filter(|l| l.is_some_and(|l| l.next <= now));
        let place = due.min_by_key(|l| l.map(|l| l.next))?;
        let launch = place.as_mut()?;
        let slot = launch.slot;
        let Some(period) = launch.period else {
            let time = launch.next;
            *place = None;
            return Some(DueTransmission { slot, cause: Cause::At(time), time, missed: 0 });
        };
        let number = now.since(launch.first) / period;
        let missed = number - launch.next_cycle;
        let time = Time(launch.first.0 + number * period);
        match time.0.checked_add(period) {
            Some(next) => {
                launch.next_cycle = number + 1;
                launch.next = Time(next);
            }
            None => *place = None,
        }
        Some(DueTransmission { slot, cause: Cause::Cycle { number, due: time }, time, missed })
    }

    /// Returns the next transmission due by `horizon`, for submission ahead. Instants of a cyclic slot before `now`
    /// are missed; single launches are not.
    pub(crate) fn pop_ahead(&mut self, now: Time, horizon: Time) -> Option<DueTransmission> {
        loop {
            let due = self.launches.iter_mut().filter(|l| l.is_some_and(|l| l.next <= horizon));
            let place = due.min_by_key(|l| l.map(|l| l.next))?;
            let launch = place.as_mut()?;
            let (slot, time) = (launch.slot, launch.next);
            let Some(period) = launch.period else {
                *place = None;
                return Some(DueTransmission { slot, cause: Cause::At(time), time, missed: 0 });
            };
            let number = time.since(launch.first) / period;
            let from = now.since(launch.first).div_ceil(period);
            let next = if number < from { from } else { number + 1 };
            let missed = number - launch.next_cycle;
            let instant = next.checked_mul(period).and_then(|ns| launch.first.0.checked_add(ns));
            match instant {
                Some(instant) => launch.next = Time(instant),
                None => *place = None,
            }
            if number >= from {
                if let Some(launch) = place {
                    launch.next_cycle = next;
                }
                return Some(DueTransmission {
                    slot,
                    cause: Cause::Cycle { number, due: time },
                    time,
                    missed,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Slots;
    use proptest::prelude::*;

    fn slots(n: usize) -> Vec<Slot> {
        let mut slots = Slots::new(0, n, 100);
        (0..n).map(|_| slots.allocate(60).unwrap()).collect()
    }

    fn numbers(schedule: &mut Schedule, now: u64) -> Vec<(u64, u64, u64)> {
        std::iter::from_fn(|| schedule.pop(Time(now)))
            .map(|due| match due.cause {
                Cause::Cycle { number, due: time } => (number, time.0, due.missed),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_single_launch_is_due_once_at_its_time() {
        let slot = slots(1)[0];
        let mut schedule = Schedule::new(1);
        schedule.at(slot, Time(100));
        assert_eq!(schedule.next_deadline(), Some(Time(100)));
        assert_eq!(schedule.pop(Time(99)), None);
        let due = schedule.pop(Time(250)).unwrap();
        assert_eq!((due.cause, due.time, due.missed), (Cause::At(Time(100)), Time(100), 0));
        assert_eq!(schedule.pop(Time(u64::MAX)), None);
        assert_eq!(schedule.next_deadline(), None);
    }

    #[test]
    fn cycles_stay_on_the_grid_when_polled_late() {
        let slot = slots(1)[0];
        let mut schedule = Schedule::new(1);
        schedule.every(slot, Time(1_000), 250);
        assert_eq!(numbers(&mut schedule, 999), []);
        assert_eq!(numbers(&mut schedule, 1_000), [(0, 1_000, 0)]);
        assert_eq!(numbers(&mut schedule, 1_249), []);
        assert_eq!(numbers(&mut schedule, 1_499), [(1, 1_250, 0)]);
        assert_eq!(schedule.next_deadline(), Some(Time(1_500)), "lateness does not accumulate");
        assert_eq!(numbers(&mut schedule, 2_600), [(6, 2_500, 4)], "one frame for five instants");
        assert_eq!(schedule.next_deadline(), Some(Time(2_750)));
    }

    #[test]
    fn the_longest_due_is_first_and_a_new_launch_replaces_the_old() {
        let slots = slots(3);
        let mut schedule = Schedule::new(3);
        schedule.at(slots[0], Time(30));
        schedule.at(slots[1], Time(10));
        schedule.every(slots[2], Time(20), 100);
        let order: Vec<Slot> =
            std::iter::from_fn(|| schedule.pop(Time(50))).map(|due| due.slot).collect();
        assert_eq!(order, [slots[1], slots[2], slots[0]]);
        schedule.at(slots[2], Time(500));
        assert_eq!(schedule.next_deadline(), Some(Time(500)));
        assert!(schedule.cancel(slots[2]));
        assert!(!schedule.cancel(slots[2]));
        assert_eq!(schedule.next_deadline(), None);
    }

    #[test]
    fn ahead_each_instant_up_to_the_horizon_is_due_once() {
        let slot = slots(1)[0];
        let mut schedule = Schedule::new(1);
        schedule.every(slot, Time(1_000), 250);
        let mut ahead = |now, horizon| {
            std::iter::from_fn(|| schedule.pop_ahead(Time(now), Time(horizon)))
                .map(|due| (due.time.0, due.missed))
                .collect::<Vec<_>>()
        };
        assert_eq!(ahead(0, 999), []);
        assert_eq!(ahead(500, 1_500), [(1_000, 0), (1_250, 0), (1_500, 0)]);
        assert_eq!(ahead(600, 1_600), []);
        assert_eq!(ahead(1_750, 1_800), [(1_750, 0)], "not late at its instant");
        assert_eq!(ahead(2_300, 2_800), [(2_500, 2), (2_750, 0)], "2000 and 2250 passed");
        assert_eq!(ahead(3_010, 3_100), [], "3000 passed, 3250 is not due");
        assert_eq!(ahead(3_200, 3_250), [(3_250, 1)], "and is counted once");
    }

    #[test]
    fn ahead_a_single_launch_is_due_even_if_it_has_passed() {
        let slots = slots(2);
        let mut schedule = Schedule::new(2);
        schedule.at(slots[0], Time(300));
        schedule.at(slots[1], Time(100));
        assert_eq!(schedule.pop_ahead(Time(0), Time(99)), None);
        let due = schedule.pop_ahead(Time(200), Time(300)).unwrap();
        assert_eq!((due.slot, due.cause), (slots[1], Cause::At(Time(100))));
        assert_eq!(schedule.pop_ahead(Time(200), Time(300)).unwrap().slot, slots[0]);
        assert_eq!(schedule.next_deadline(), None);
    }

    #[test]
    fn a_cycle_stops_at_the_end_of_the_clocks_range() {
        let slot = slots(1)[0];
        let mut schedule = Schedule::new(1);
        schedule.every(slot, Time(u64::MAX - 15), 10);
        assert_eq!(numbers(&mut schedule, u64::MAX), [(1, u64::MAX - 5, 1)]);
        assert_eq!(schedule.next_deadline(), None);
    }

    proptest! {
        #[test]
        fn every_cycle_is_sent_or_counted(
            first in 0..10_000_u64,
            period in 1..2_000_u64,
            steps in proptest::collection::vec(0..5_000_u64, 1..60),
        ) {
            let slot = slots(1)[0];
            let mut schedule = Schedule::new(1);
            schedule.every(slot, Time(first), period);
            let (mut now, mut accounted) = (0, 0);
            for step in steps {
                now += step;
                while let Some(due) = schedule.pop(Time(now)) {
                    accounted += 1 + due.missed;
                    prop_assert!(due.time.0 <= now && now - due.time.0 < period);
                    prop_assert_eq!((due.time.0 - first) % period, 0);
                }
                let passed = if now < first { 0 } else { (now - first) / period + 1 };
                prop_assert_eq!(accounted, passed);
                prop_assert_eq!(schedule.next_deadline(), Some(Time(first + passed * period)));
            }
        }
    }
}

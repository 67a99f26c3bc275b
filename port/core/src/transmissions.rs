//! Assigns confirmations to frames. Pure.

use std::collections::VecDeque;

use crate::{Cause, Confirmation, Outcome, Slot, Stamp, Time};

/// Maximum number of pending transmissions, and of queued confirmations.
const KEPT: usize = 256;

/// Sent frames and their outcomes, in memory that is allocated once.
#[derive(Debug)]
pub(crate) struct TransmissionTracker {
    /// Transmission number n at n mod [`KEPT`].
    under_way: Vec<Option<(u32, Slot, Cause)>>,
    count: usize,
    next_id: u32,
    news: VecDeque<Confirmation>,
    /// Confirmations that never arrived, or were evicted.
    pub(crate) lost: u64,
}

impl TransmissionTracker {
    pub(crate) fn new() -> Self {
        Self {
            under_way: vec![None; KEPT],
            count: 0,
            next_id: 0,
            news: VecDeque::with_capacity(KEPT),
            lost: 0,
        }
    }

    /// Records that the kernel accepted a frame; returns its number.
    pub(crate) fn taken(&mut self, slot: Slot, cause: Cause) -> u32 {
        let id = self.next_id;
        let place = &mut self.under_way[self.next_id as usize % KEPT];
        match place.replace((self.next_id, slot, cause)) {
            Some(_) => self.lost += 1,
            None => self.count += 1,
        }
        self.skip();
        id
    }

    /// Records that the kernel numbered a frame, but did not send it.
    pub(crate) fn skip(&mut self) {
        self.next_id = self.next_id.wrapping_add(1);
    }

    /// Returns true if confirmations are expected.
    pub(crate) fn expects(&self) -> bool {
        self.count > 0
    }

    /// Returns true if a confirmation is queued.
    pub(crate) fn has_confirmation(&self) -> bool {
        !self.news.is_empty()
    }

    /// Records that transmission `id` was sent at `stamp`; returns false if it is not pending.
    pub(crate) fn left(&mut self, id: u32, stamp: Stamp) -> bool {
        let place = &mut self.under_way[id as usize % KEPT];
        let Some((_, slot, cause)) = place.take_if(|(of, _, _)| *of == id) else { return false };
        self.count -= 1;
        self.add(Confirmation { slot, cause, outcome: Outcome::Sent(stamp) });
        true
    }

    /// Records that the queueing discipline dropped a frame with launch time `time`; returns false if none is
    /// pending. Of several the newest: a refusal on submission is reported at once.
    pub(super) fn missed(&mut self, time: Time) -> bool {
        let next_id = self.next_id;
        let launched_then = |place: &&mut Option<(u32, Slot, Cause)>| {
            place.is_some_and(|(_, _, cause)| match cause {
                Cause::At(at) | Cause::Cycle { due: at, .. } => at == time,
                Cause::Now | Cause::Response => false,
            })
        };
        let age = |place: &&mut Option<(u32, Slot, Cause)>| {
            place.map(|(id, _, _)| next_id.wrapping_sub(id))
        };
        let newest = self.under_way.iter_mut().filter(launched_then).min_by_key(age);
        let Some((_, slot, cause)) = newest.and_then(Option::take) else { return false };
        self.count -= 1;
        self.dropped(slot, cause);
        true
    }

    /// Records that a frame without a caller that waits was dropped.
    pub(crate) fn dropped(&mut self, slot: Slot, cause: Cause) {
        self.add(Confirmation { slot, cause, outcome: Outcome::Dropped });
    }

    /// Adds a confirmation.
    pub(crate) fn add(&mut self, confirmation: Confirmation) {
        if self.news.len() == KEPT {
            self.news.pop_front();
            self.lost += 1;
        }
        self.news.push_back(confirmation);
    }

    /// Returns the oldest confirmation.
    pub(crate) fn take(&mut self) -> Option<Confirmation> {
        self.news.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StampSource;
    use crate::slot::Slots;

    const STAMP: Stamp = Stamp { ns: 5, source: StampSource::Software };

    #[test]
    fn confirmations_in_any_order_match_their_frames() {
        let mut slots = Slots::new(0, 2, 100);
        let (a, b) = (slots.allocate(60).unwrap(), slots.allocate(60).unwrap());
        let mut sent = TransmissionTracker::new();
        sent.taken(a, Cause::Now);
        sent.skip();
        sent.taken(b, Cause::Response);
        assert!(!sent.left(1, STAMP), "the number of a frame that was not sent");
        assert!(sent.left(2, STAMP) && sent.left(0, STAMP));
        assert!(!sent.left(0, STAMP), "once");
        assert!(!sent.expects());
        let outcome = Outcome::Sent(STAMP);
        assert_eq!(sent.take(), Some(Confirmation { slot: b, cause: Cause::Response, outcome }));
        assert_eq!(sent.take(), Some(Confirmation { slot: a, cause: Cause::Now, outcome }));
        assert_eq!(sent.take(), None);
        assert_eq!(sent.lost, 0);
    }

    #[test]
    fn a_missed_launch_is_matched_by_its_time() {
        let mut slots = Slots::new(0, 2, 100);
        let (a, b) = (slots.allocate(60).unwrap(), slots.allocate(60).unwrap());
        let mut sent = TransmissionTracker::new();
        sent.next_id = u32::MAX;
        let cycle = Cause::Cycle { number: 3, due: Time(70) };
        sent.taken(a, cycle);
        sent.taken(b, Cause::At(Time(70)));
        sent.taken(b, Cause::Now);
        assert!(!sent.missed(Time(71)));
        assert!(sent.missed(Time(70)) && sent.missed(Time(70)) && !sent.missed(Time(70)));
        let outcome = Outcome::Dropped;
        assert_eq!(
            sent.take(),
            Some(Confirmation { slot: b, cause: Cause::At(Time(70)), outcome })
        );
        assert_eq!(sent.take(), Some(Confirmation { slot: a, cause: cycle, outcome }));
        assert!(sent.expects(), "the frame without a launch time");
    }

    #[test]
    fn unread_confirmations_are_counted() {
        let slot = Slots::new(0, 1, 100).allocate(60).unwrap();
        let mut sent = TransmissionTracker::new();
        sent.next_id = u32::MAX - 3;
        for _ in 0..KEPT + 2 {
            sent.taken(slot, Cause::Now);
        }
        assert_eq!(sent.lost, 2, "two were overwritten");
        assert!(!sent.left(u32::MAX - 3, STAMP));
        assert!(sent.left(u32::MAX, STAMP), "across the wrap of numbers");
        for _ in 0..KEPT {
            sent.dropped(slot, Cause::Now);
        }
        assert_eq!(sent.lost, 3, "the oldest confirmation is evicted");
        assert_eq!(sent.take().map(|news| news.outcome), Some(Outcome::Dropped));
    }
}

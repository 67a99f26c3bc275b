//! One direction of a wire: frames in flight, without a clock or a socket.

use std::collections::VecDeque;

use super::{Impairment, ImpairmentModel, MAX_HELD};

/// Maximum time that a frame is held for [`MAX_HELD`] others to overtake it; proportionally longer for
/// more, [`MAX_HOLD_NS`] at most.
const HOLD_NS: u64 = 50_000_000;
const MAX_HOLD_NS: u64 = 500_000_000;

/// One direction of a wire.
#[derive(Debug)]
pub(super) struct WireLine {
    model: ImpairmentModel,
    hold_ns: u64,
    /// Queued frames, in order of due time.
    queue: VecDeque<(u64, Vec<u8>)>,
    held: Vec<DelayedFrame>,
    /// Due time of the last queued frame.
    last_due_ns: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
}

#[derive(Debug)]
struct DelayedFrame {
    /// Number of frames that have yet to overtake it.
    remaining: u16,
    until_ns: u64,
    copies: u8,
    octets: Vec<u8>,
}

impl WireLine {
    pub(super) fn new(impairment: Impairment) -> Self {
        Self {
            model: ImpairmentModel::new(impairment),
            hold_ns: hold_ns(&impairment),
            queue: VecDeque::new(),
            held: Vec::new(),
            last_due_ns: 0,
            lost: 0,
            duplicated: 0,
            reordered: 0,
        }
    }

    /// Changes the impairment from the next frame. Frames in flight keep theirs.
    pub(super) fn set(&mut self, impairment: Impairment) {
        self.model = ImpairmentModel::new(impairment);
        self.hold_ns = hold_ns(&impairment);
    }

    /// Adds a frame that arrived at `arrival_ns`.
    pub(super) fn push(&mut self, octets: &[u8], arrival_ns: u64) {
        let fate = self.model.next_fate();
        if fate.copies == 0 {
            self.lost += 1;
            return;
        }
        self.duplicated += u64::from(fate.copies - 1);
        if fate.held > 0 {
            self.reordered += 1;
            self.held.push(DelayedFrame {
                remaining: fate.held,
                until_ns: arrival_ns + self.hold_ns,
                copies: fate.copies,
                octets: octets.to_vec(),
            });
            return;
        }
        self.queue(fate.copies, octets.to_vec(), arrival_ns + fate.delay_ns);
        let released = |held: &mut DelayedFrame| {
            held.remaining -= 1;
            held.remaining == 0
        };
        self.release(released);
    }

    /// Removes the next frame that is due by `now_ns`.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        self.release(|held| held.until_ns <= now_ns);
        self.queue.front().filter(|(due_ns, _)| *due_ns <= now_ns)?;
        self.queue.pop_front().map(|(_, octets)| octets)
    }

    /// The next due time.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let held = self.held.iter().map(|held| held.until_ns).min();
        let queued = self.queue.front().map(|(due_ns, _)| *due_ns);
        held.into_iter().chain(queued).min()
    }

    fn release(&mut self, mut is_due: impl FnMut(&mut DelayedFrame) -> bool) {
        let (due, held) = std::mem::take(&mut self.held).into_iter().fold(
            (Vec::new(), Vec::new()),
            |(mut due, mut held), mut frame| {
                if is_due(&mut frame) {
                    due.push(frame)
                } else {
                    held.push(frame)
                }
                (due, held)
            },
        );
        self.held = held;
        for frame in due {
            self.queue(frame.copies, frame.octets, self.last_due_ns);
        }
    }

    /// Queues a frame, not due before the previous one, so that the order is kept.
    fn queue(&mut self, copies: u8, octets: Vec<u8>, due_ns: u64) {
        self.last_due_ns = self.last_due_ns.max(due_ns);
        if copies > 1 {
            self.queue.push_back((self.last_due_ns, octets.clone()));
        }
        self.queue.push_back((self.last_due_ns, octets));
    }
}

fn hold_ns(impairment: &Impairment) -> u64 {
    (HOLD_NS * u64::from(impairment.max_held()) / u64::from(MAX_HELD)).clamp(HOLD_NS, MAX_HOLD_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(line: &mut WireLine, now_ns: u64) -> Vec<u16> {
        std::iter::from_fn(|| line.pop(now_ns))
            .map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
            .collect()
    }

    #[test]
    fn every_frame_is_delayed() {
        let mut line = WireLine::new(Impairment { delay_us: 300, ..Default::default() });
        line.push(&[0, 1], 1000);
        assert_eq!(line.next_due_ns(), Some(301_000));
        assert!(drain(&mut line, 300_999).is_empty());
        assert_eq!(drain(&mut line, 301_000), [1]);
        assert_eq!(line.next_due_ns(), None);
    }

    #[test]
    fn a_held_frame_without_a_successor_is_released_by_time() {
        let mut line = WireLine::new(Impairment { reorder: 1.0, ..Default::default() });
        line.push(&[0, 1], 0);
        assert_eq!(line.next_due_ns(), Some(HOLD_NS));
        assert!(drain(&mut line, HOLD_NS - 1).is_empty());
        assert_eq!(drain(&mut line, HOLD_NS), [1]);
    }

    #[test]
    fn a_held_frame_is_overtaken_by_a_bounded_number() {
        for seed in 0..50 {
            let mut line = WireLine::new(Impairment { reorder: 1.0, seed, ..Default::default() });
            line.push(&[0, 0], 0);
            line.set(Impairment::default());
            (1..10).for_each(|number| line.push(&[0, number], u64::from(number)));
            let out = drain(&mut line, 10);
            let place = out.iter().position(|number| *number == 0).unwrap();
            assert!((1..=usize::from(MAX_HELD)).contains(&place), "{out:?}");
        }
    }

    prop_compose! {
        fn impairment()(
            loss in 0.0..0.5_f64, duplicate in 0.0..0.5_f64, reorder in 0.0..0.5_f64,
            delay_us in 0..100_u64, jitter_us in 0..100_u64, seed: u64,
        ) -> Impairment {
            Impairment { loss, duplicate, delay_us, jitter_us, reorder, seed, ..Default::default() }
        }
    }

    proptest! {
        /// The number of frames out matches the number in and the counters.
        #[test]
        fn losses_and_duplicates_match_the_counters(impairment in impairment(), frames in 0..500_u16) {
            let mut line = WireLine::new(impairment);
            for number in 0..frames {
                line.push(&number.to_be_bytes(), u64::from(number) * 10_000);
            }
            let out = drain(&mut line, u64::MAX);
            prop_assert_eq!(
                out.len() as u64, u64::from(frames) - line.lost + line.duplicated
            );
            let times = |number| out.iter().filter(|other| **other == number).count() as u64;
            let lost = (0..frames).filter(|number| times(*number) == 0).count() as u64;
            let doubled = (0..frames).filter(|number| times(*number) == 2).count() as u64;
            prop_assert_eq!((lost, doubled), (line.lost, line.duplicated));
            prop_assert!((0..frames).all(|number| times(number) <= 2));
        }

        /// Only held frames are overtaken.
        #[test]
        fn only_held_frames_are_overtaken(impairment in impairment()) {
            let mut line = WireLine::new(Impairment { duplicate: 0.0, ..impairment });
            for number in 0..200_u16 {
                line.push(&number.to_be_bytes(), u64::from(number) * 10_000);
            }
            let out = drain(&mut line, u64::MAX);
            let is_late = |place: usize| out[..place].iter().any(|other| *other > out[place]);
            let late = (0..out.len()).filter(|place| is_late(*place)).count() as u64;
            prop_assert!(late <= line.reordered);
        }
    }
}

//! Duplicate discard by the numbers of one source.
//!
//! IEC 62439-3:2021 4.1.10.3 demands that a valid frame is never discarded; it prescribes no algorithm. A source numbers
//! the frames to all its destinations by one counter, so a receiver of unicast frames sees gaps as a rule. A window
//! of vector recovery (802.1CB 7.4.3.4) would discard what comes late after a gap. Here each of the 65,536 numbers is
//! remembered by itself.
//!
//! One word has the state of 16 numbers: a bit for each one accepted in the present period, a bit for each one accepted
//! in the period before, the period and the lap of the last change. A period is half the forget time, so a number is
//! remembered for at least half of it and at most all of it. The lap counts how often the numbers wrapped around:
//! a bit of an earlier lap is that of another frame, although it may be recent.

use alloc::boxed::Box;

/// Numbers in a word.
const NUMBERS: u32 = 16;

/// Words of a source.
const WORDS: usize = 65536 / NUMBERS as usize;

/// Greatest distance of a late number behind the newest one. A number further behind is taken as one ahead.
const MAX_BEHIND: u16 = 32767;

/// Periods of a forget time.
const FORGET: i32 = 2;

/// A word: 16 bits accepted in the present period, 16 bits of the period before, 20 bits period, 12 bits lap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NumberWord(u64);

impl NumberWord {
    const PERIOD_BITS: u32 = 20;
    const LAP_BITS: u32 = 12;
    const PERIOD_AT: u32 = 32;
    const LAP_AT: u32 = Self::PERIOD_AT + Self::PERIOD_BITS;

    fn new(present: u16, before: u16, period: u32, lap: u32) -> Self {
        let (period, lap) = (truncate(period, Self::PERIOD_BITS), truncate(lap, Self::LAP_BITS));
        let bits = u64::from(before) << NUMBERS | u64::from(present);
        Self(u64::from(lap) << Self::LAP_AT | u64::from(period) << Self::PERIOD_AT | bits)
    }

    fn present(self) -> u16 {
        self.0 as u16
    }

    fn before(self) -> u16 {
        (self.0 >> NUMBERS) as u16
    }

    /// Returns the periods from the word's to `period`, modulo their number.
    fn age(self, period: u32) -> i32 {
        distance((self.0 >> Self::PERIOD_AT) as u32, period, Self::PERIOD_BITS)
    }

    /// Returns the laps from the word's to `lap`, modulo their number.
    fn laps(self, lap: u32) -> i32 {
        distance((self.0 >> Self::LAP_AT) as u32, lap, Self::LAP_BITS)
    }

    /// Returns the word after a frame with number `bit`, and whether the frame is the first one.
    fn accept(self, bit: u16, period: u32, lap: u32) -> (Self, bool) {
        let laps = self.laps(lap);
        if laps > 0 {
            // The numbers wrapped around, perhaps within the forget time.
            return (Self::new(bit, 0, period, lap), true);
        }
        let (present, before, period) = match self.age(period) {
            // Arrival times of ports are not in order.
            -1 => (self.present(), self.before(), period.wrapping_add(1)),
            0 => (self.present(), self.before(), period),
            1 => (0, self.present(), period),
            _ => return (Self::new(bit, 0, period, lap), true),
        };
        if laps < 0 {
            // The word has numbers of a later lap: without state, a frame is accepted.
            return (self, true);
        }
        let is_first = (present | before) & bit == 0;
        let after = if is_first { Self::new(present | bit, before, period, lap) } else { self };
        (after, is_first)
    }
}

/// Returns the lowest `bits` of a number.
const fn truncate(number: u32, bits: u32) -> u32 {
    number & ((1 << bits) - 1)
}

/// Returns the signed distance between numbers of this number of bits.
const fn distance(from: u32, to: u32, bits: u32) -> i32 {
    let unused = u32::BITS - bits;
    (to.wrapping_sub(from) << unused) as i32 >> unused
}

/// The numbers received from one source.
#[derive(Debug, Clone)]
pub(super) struct ReceivedNumbers {
    words: Box<[NumberWord; WORDS]>,
    /// The newest number and, above it, the lap. `None`: no number so far.
    newest: Option<u32>,
    /// The latest period with a frame.
    latest: u32,
}

impl Default for ReceivedNumbers {
    fn default() -> Self {
        // Not on the stack.
        let words = alloc::vec![NumberWord::default(); WORDS].into_boxed_slice();
        Self { words: words.try_into().expect("the number of words"), newest: None, latest: 0 }
    }
}

impl ReceivedNumbers {
    /// Returns whether a frame is the first one with its number. `period`: the time in units of half the forget time.
    ///
    /// A number discards if it was accepted in this or the former period and fewer than 32,768 numbers are newer.
    pub(super) fn accept(&mut self, number: u16, period: u32) -> bool {
        let Some(newest) = self.newest else {
            // Lap 1: words have lap 0, and numbers before the first one are of it.
            let first = 1 << 16 | u32::from(number);
            (self.newest, self.latest) = (Some(first), period);
            return self.record(first, period);
        };
        let silence = period.wrapping_sub(self.latest) as i32;
        let newest = if silence < FORGET {
            newest
        } else {
            // All numbers are forgotten: in new laps, none returns when the periods of words wrap around. The source may
            // have started again, at any number: late ones before it are of the lap before, still a new one.
            (newest >> 16).wrapping_add(2) << 16 | u32::from(number)
        };
        // Small steps back are those of several CPUs.
        if !(-FORGET..=0).contains(&silence) {
            self.latest = period;
        }
        self.newest = Some(newest);
        let behind = (newest as u16).wrapping_sub(number);
        if behind <= MAX_BEHIND {
            return self.record(newest.wrapping_sub(behind.into()), period);
        }
        let ahead = newest.wrapping_add(u32::from(number.wrapping_sub(newest as u16)));
        self.newest = Some(ahead);
        self.record(ahead, period)
    }

    fn record(&mut self, extended: u32, period: u32) -> bool {
        let number = extended & 0xffff;
        let word = &mut self.words[(number / NUMBERS) as usize];
        let (after, is_first) = word.accept(1 << (number % NUMBERS), period, extended >> 16);
        *word = after;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::{BTreeMap, VecDeque};
    use alloc::vec::Vec;

    use onbeat_wire::random::Random;
    use proptest::prelude::*;

    use super::*;

    const FORGET: u32 = super::FORGET as u32;

    #[test]
    fn the_second_copy_is_discarded_and_a_third_one_too() {
        let mut numbers = ReceivedNumbers::default();
        for number in [0, 65535, 1, 40000, 2] {
            assert!(numbers.accept(number, 7), "{number}");
        }
        for number in [0, 65535, 1, 40000, 2] {
            assert!(!numbers.accept(number, 8), "{number}");
            assert!(!numbers.accept(number, 8), "{number}");
        }
    }

    #[test]
    fn a_number_is_remembered_for_this_period_and_the_next() {
        for start in [0, 1, 5, (1 << NumberWord::PERIOD_BITS) - 1, u32::MAX - 1] {
            for (later, is_first) in [(0, false), (1, false), (2, true), (3, true), (1000, true)] {
                let mut numbers = ReceivedNumbers::default();
                assert!(numbers.accept(3, start));
                assert_eq!(
                    numbers.accept(3, start.wrapping_add(later)),
                    is_first,
                    "{start} {later}"
                );
            }
        }
    }

    /// Its age is that of the number, not of its neighbors: 100 frames/s on paths 30 ms apart, forget time 400 ms.
    #[test]
    fn slow_frames_pass_once() {
        let mut numbers = ReceivedNumbers::default();
        for sent in 0..6000_u32 {
            let (number, at_ms) = (sent as u16, sent * 10);
            assert!(numbers.accept(number, at_ms / 200));
            if let Some(late) = sent.checked_sub(3) {
                assert!(!numbers.accept(late as u16, at_ms / 200), "{late}");
            }
        }
    }

    #[test]
    fn all_numbers_wrapped_within_half_a_period_are_accepted() {
        let mut numbers = ReceivedNumbers::default();
        for lap in 0..5000 {
            let step = if lap < 3 { 1 } else { 4097 };
            for number in (0..65536_u32).step_by(step) {
                assert!(numbers.accept(number as u16, lap / 8), "{lap} {number}");
                assert!(!numbers.accept(number as u16, lap / 8), "{lap} {number}");
            }
        }
    }

    #[test]
    fn a_source_that_restarts_is_accepted_after_the_forget_time() {
        for last in [0, 1, 100, 32767, 32768, 40000, 65535] {
            let mut numbers = ReceivedNumbers::default();
            (0..=last).for_each(|number| assert!(numbers.accept(number, 10)));
            for number in 0..200 {
                assert!(numbers.accept(number, 10 + FORGET), "{last} {number}");
                assert!(!numbers.accept(number, 10 + FORGET), "{last} {number}");
            }
        }
    }

    /// What a receiver with unlimited memory and the true count of each frame does: a copy is a duplicate if
    /// its frame was accepted within the last period at least.
    #[derive(Default)]
    struct Oracle {
        accepted: BTreeMap<u64, u32>,
    }

    /// Frames of one source over two paths: each has delay, loss and reordering.
    fn check_paths(seed: u64, frames: u64, per_period: u64, skew: u64) {
        let mut random = Random::new(seed);
        // The place in time of a copy, in frames sent.
        let mut arrivals: Vec<(u64, u64)> = Vec::new();
        let start = random.below(65536);
        for frame in 0..frames {
            for path in 0..2 {
                if random.below(100) >= 20 {
                    let jitter = random.below(64);
                    arrivals.push((frame + path * skew + jitter, frame));
                }
            }
        }
        arrivals.sort_unstable();
        let mut numbers = ReceivedNumbers::default();
        let mut oracle = Oracle::default();
        for (at, frame) in arrivals {
            let period = (at / per_period) as u32;
            let is_first = numbers.accept((start + frame) as u16, period);
            match oracle.accepted.get(&frame) {
                None => assert!(is_first, "seed {seed}: frame {frame} was lost"),
                Some(accepted) if period - accepted <= 1 => {
                    assert!(!is_first, "seed {seed}: frame {frame} passed twice");
                }
                Some(_) => {}
            }
            if is_first {
                oracle.accepted.insert(frame, period);
            }
        }
    }

    #[test]
    fn copies_over_two_paths_pass_once_and_no_frame_is_lost() {
        for seed in 0..8 {
            // Slow, and so fast that the numbers wrap around in a quarter of the forget time.
            check_paths(seed, 200_000, 1000, 300);
            check_paths(seed, 300_000, 131_072, 30_000);
        }
    }

    proptest! {
        #[test]
        fn any_numbers_and_times(
            steps in prop::collection::vec((any::<u16>(), 0_u32..3), 1..400),
            start in any::<u32>(),
        ) {
            let mut numbers = ReceivedNumbers::default();
            let mut period = start;
            // Without wrapping, a number is a duplicate only if it was accepted recently.
            let mut accepted: VecDeque<(u16, u32)> = VecDeque::new();
            for (number, later) in steps {
                period = period.wrapping_add(later);
                let recent = accepted
                    .iter()
                    .any(|(other, at)| *other == number && period.wrapping_sub(*at) < FORGET);
                let is_first = numbers.accept(number, period);
                prop_assert!(is_first || recent);
                if is_first {
                    accepted.push_back((number, period));
                }
            }
        }
    }
}

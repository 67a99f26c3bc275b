//! SequenceHistory of vector recovery (802.1CB 7.4.3.2.2), without shifting.
//!
//! The bit of a number is at `number modulo ring size`. The ring size is a power of two and so divides 65536:
//! numbers wrap around together with the ring. Bits of numbers outside the history are stale and are cleared
//! when the window moves over them.

use alloc::boxed::Box;
use core::num::NonZero;

use crate::spec::MAX_HISTORY;

/// Words of histories that need no memory of their own.
const WORDS: usize = 16;

/// The last `length` sequence numbers, with a bit for each number seen.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct History {
    length: NonZero<u16>,
    /// Ring size - 1.
    mask: u16,
    /// Numbers that entered since the first accepted packet, including that packet; at most `length`. Older
    /// positions represent numbers from before it. Maintained only while `unborn > 0`.
    born: u16,
    /// Unseen numbers in the history from before the first accepted packet.
    unborn: u16,
    words: [u64; WORDS],
    /// The words of a longer history.
    long: Option<Box<[u64]>>,
}

/// Numbers that left the history unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EvictedNumbers {
    /// All of them.
    pub(crate) lost: u16,
    /// Those that precede the first accepted packet.
    pub(crate) before_first: u16,
}

impl History {
    /// Octets up to the end of the first word.
    #[cfg(test)]
    pub(crate) const FIRST_WORD_ENDS: usize = core::mem::offset_of!(Self, words) + 8;

    /// Creates an empty history of `2..=MAX_HISTORY` numbers.
    pub(crate) fn new(length: u16) -> Self {
        debug_assert!((2..=MAX_HISTORY).contains(&length));
        let mask = length.max(64).next_power_of_two() - 1;
        let length = NonZero::new(length).unwrap_or(NonZero::<u16>::MIN);
        let words = usize::from(mask / 64) + 1;
        let long = (words > WORDS).then(|| alloc::vec![0; words].into_boxed_slice());
        Self { length, mask, born: 0, unborn: 0, words: [0; WORDS], long }
    }

    /// Returns HistoryLength.
    pub(crate) fn length(&self) -> u16 {
        self.length.get()
    }

    /// Returns the history that ends with `newest` in another length, and the numbers that leave it. Numbers that are
    /// older than this history count as seen.
    pub(crate) fn resized(&self, newest: u16, length: u16) -> (Self, EvictedNumbers) {
        let mut new = Self::new(length);
        let kept = length.min(self.length());
        for behind in 0..length {
            let number = newest.wrapping_sub(behind);
            if behind >= kept || self.contains(number) {
                new.insert(number);
            }
        }
        let leaving = self.length() - kept;
        let oldest = newest.wrapping_sub(self.length() - 1);
        let lost = self.count_unseen(oldest, leaving);
        let before_first = lost.min(self.unborn);
        new.born = self.born.min(length);
        new.unborn = self.unborn - before_first;
        (new, EvictedNumbers { lost, before_first })
    }

    /// Clears the history and records `number` as the only one seen.
    pub(crate) fn start(&mut self, number: u16) {
        self.words_mut().fill(0);
        self.insert(number);
        self.born = 1;
        self.unborn = self.length() - 1;
    }

    /// Records the number `behind < length` positions behind `newest`; returns false if it was seen before.
    pub(crate) fn note_behind(&mut self, newest: u16, behind: u16) -> bool {
        let unseen = self.insert(newest.wrapping_sub(behind));
        if unseen && self.unborn > 0 && behind >= self.born {
            self.unborn -= 1;
        }
        unseen
    }

    /// Advances the newest number from `newest` to `newest + delta`, `1 <= delta < length`.
    pub(crate) fn advance(&mut self, newest: u16, delta: u16) -> EvictedNumbers {
        let oldest = newest.wrapping_sub(self.length() - 1);
        let lost = if delta == 1 {
            u16::from(!self.contains(oldest))
        } else {
            let lost = self.count_unseen(oldest, delta);
            self.clear(newest.wrapping_add(1), delta);
            lost
        };
        self.insert(newest.wrapping_add(delta));

        // Numbers from before the first packet are the oldest: they leave first.
        let before_first = lost.min(self.unborn);
        if self.unborn > 0 {
            self.unborn -= before_first;
            self.born = self.length().min(self.born + delta);
        }
        EvictedNumbers { lost, before_first }
    }

    fn place(&self, number: u16) -> (usize, u64) {
        let position = number & self.mask;
        (usize::from(position / 64), 1 << (position % 64))
    }

    fn words(&self) -> &[u64] {
        match &self.long {
            Some(long) if self.is_long() => long,
            _ => &self.words,
        }
    }

    fn words_mut(&mut self) -> &mut [u64] {
        let is_long = self.is_long();
        match &mut self.long {
            Some(long) if is_long => long,
            _ => &mut self.words,
        }
    }

    /// Returns whether the words have memory of their own, by a field in the cache line that each packet needs.
    fn is_long(&self) -> bool {
        usize::from(self.mask) >= 64 * WORDS
    }

    fn contains(&self, number: u16) -> bool {
        let (word, bit) = self.place(number);
        self.words()[word] & bit != 0
    }

    /// Records a number; returns false if it was recorded before.
    fn insert(&mut self, number: u16) -> bool {
        let (word, bit) = self.place(number);
        let word = &mut self.words_mut()[word];
        let unseen = *word & bit == 0;
        *word |= bit;
        unseen
    }

    fn count_unseen(&self, first: u16, count: u16) -> u16 {
        spans(self.mask, first, count)
            .map(|(word, bits)| (!self.words()[word] & bits).count_ones() as u16)
            .sum()
    }

    fn clear(&mut self, first: u16, count: u16) {
        for (word, bits) in spans(self.mask, first, count) {
            self.words_mut()[word] &= !bits;
        }
    }
}

/// Yields the words, with the bits of each, that hold `count` numbers starting at `first`.
fn spans(mask: u16, first: u16, mut count: u16) -> impl Iterator<Item = (usize, u64)> {
    let mut position = first & mask;
    core::iter::from_fn(move || {
        if count == 0 {
            return None;
        }
        let (word, bit) = (position / 64, position % 64);
        let run = count.min(64 - bit);
        position = (position + run) & mask;
        count -= run;
        Some((usize::from(word), (u64::MAX >> (64 - run)) << bit))
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn spans_cover_each_number_once_across_words_and_the_ring_end() {
        assert_eq!(spans(63, 62, 4).collect::<Vec<_>>(), [(0, 0b11 << 62), (0, 0b11)]);
        assert_eq!(spans(127, 60, 8).collect::<Vec<_>>(), [(0, 0xf << 60), (1, 0xf)]);
        assert_eq!(spans(1023, 65535, 2).collect::<Vec<_>>(), [(15, 1 << 63), (0, 1)]);
        assert_eq!(spans(1023, 64, 1023).count(), 16);
        assert_eq!(spans(1023, 1, 1023).map(|(_, b)| b.count_ones()).sum::<u32>(), 1023);
    }

    #[test]
    fn a_number_is_unseen_again_after_the_window_passed_it() {
        let mut history = History::new(2);
        history.start(0);
        for newest in 0..200u16 {
            history.advance(newest, 1);
        }
        // 137 shares its bit with 200 + 1 in a ring of 64; the stale bit must not count as seen.
        assert_eq!(history.advance(200, 1), EvictedNumbers { lost: 0, before_first: 0 });
        assert!(!history.note_behind(201, 0));
    }
}

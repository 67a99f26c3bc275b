//! Record of a stream's arrivals, frame by frame.

use super::stamp::Stamp;

/// Maximum number of recorded frames of a stream: 2^27 require 2.2 GB.
pub(super) const MAX_FRAMES: u64 = 1 << 27;

/// Record of a stream's arrivals, frame by frame: 17 octets each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamRecord {
    /// First arrival of each frame (CLOCK_MONOTONIC, ns), by number; 0: not arrived.
    arrival_ns: Vec<u64>,
    /// Transmission time of each frame; 0: unknown.
    sent_ns: Vec<u64>,
    /// Number of arrivals of each frame, up to 255.
    copies: Vec<u8>,
    delivered: u64,
    duplicated: u64,
    out_of_order: u64,
    complete_below: u64,
    /// Frames with unexpected VLAN tags.
    pub wrong_vlan: u64,
    /// Frames that still have a sequence tag.
    pub sequence_tagged: u64,
}

impl StreamRecord {
    /// Records a frame that arrived at `arrival_ns`; returns false if its number exceeds the maximum.
    pub fn take(&mut self, stamp: &Stamp, arrival_ns: u64) -> bool {
        if stamp.sequence >= MAX_FRAMES {
            return false;
        }
        let index = stamp.sequence as usize;
        if index >= self.copies.len() {
            self.arrival_ns.resize(index + 1, 0);
            self.sent_ns.resize(index + 1, 0);
            self.copies.resize(index + 1, 0);
        } else if self.copies[index] == 0 {
            // A later frame has arrived already.
            self.out_of_order += 1;
        }
        if self.copies[index] == 0 {
            self.arrival_ns[index] = arrival_ns.max(1);
            self.sent_ns[index] = stamp.actual_ns;
            self.delivered += 1;
        } else {
            self.duplicated += 1;
        }
        self.copies[index] = self.copies[index].saturating_add(1);
        self.advance();
        true
    }

    /// Gives up frames below `sequence`.
    pub fn expect_from(&mut self, sequence: u64) {
        self.complete_below = self.complete_below.max(sequence);
        self.advance();
    }

    fn advance(&mut self) {
        while self.copies.get(self.complete_below as usize).is_some_and(|copies| *copies > 0) {
            self.complete_below += 1;
        }
    }

    /// Frames that arrived, each counted once.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Arrivals of frames that had arrived already.
    #[must_use]
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Frames whose first arrival was after that of a later frame.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// All frames below this number have arrived, except those given up.
    #[must_use]
    pub fn complete_below(&self) -> u64 {
        self.complete_below
    }

    /// First arrival of frame `sequence`, if it arrived.
    #[must_use]
    pub fn arrival_ns(&self, sequence: u64) -> Option<u64> {
        self.arrival_ns.get(usize::try_from(sequence).ok()?).copied().filter(|at| *at != 0)
    }

    /// Transmission time of frame `sequence`, if it arrived.
    #[must_use]
    pub fn sent_ns(&self, sequence: u64) -> Option<u64> {
        self.arrival_ns(sequence)?;
        self.sent_ns.get(usize::try_from(sequence).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(sequence: u64) -> Stamp {
        Stamp { stream: 1, sequence, intended_ns: 0, actual_ns: sequence.saturating_add(1000) }
    }

    #[test]
    fn a_number_above_the_maximum_allocates_no_memory() {
        let mut record = StreamRecord::default();
        assert!(!record.take(&stamp(u64::MAX), 1));
        assert_eq!(record, StreamRecord::default());
    }

    #[test]
    fn frames_given_up_do_not_delay_completeness() {
        let mut record = StreamRecord::default();
        for sequence in [0, 1, 4, 5, 7] {
            assert!(record.take(&stamp(sequence), 1));
        }
        assert_eq!(record.complete_below(), 2);
        record.expect_from(4);
        assert_eq!(record.complete_below(), 6);
        record.expect_from(3);
        assert_eq!(record.complete_below(), 6);
        record.expect_from(20);
        assert_eq!(record.complete_below(), 20);
    }

    proptest! {
        /// Compares with a simple oracle.
        #[test]
        fn arrivals_are_counted(sequences in prop::collection::vec(0..40_u64, 0..200)) {
            let mut record = StreamRecord::default();
            let mut seen: Vec<u64> = Vec::new();
            let (mut duplicated, mut late) = (0, 0);
            for (at, sequence) in sequences.iter().enumerate() {
                prop_assert!(record.take(&stamp(*sequence), 5000 + at as u64));
                if seen.contains(sequence) {
                    duplicated += 1;
                } else {
                    late += u64::from(seen.iter().any(|other| other > sequence));
                    seen.push(*sequence);
                }
            }
            prop_assert_eq!(record.delivered(), seen.len() as u64);
            prop_assert_eq!(record.duplicated(), duplicated);
            prop_assert_eq!(record.out_of_order(), late);
            let missing = (0..).find(|number| !seen.contains(number));
            prop_assert_eq!(Some(record.complete_below()), missing);
            for number in 0..50 {
                let first = sequences.iter().position(|sequence| *sequence == number);
                prop_assert_eq!(record.arrival_ns(number), first.map(|at| 5000 + at as u64));
                prop_assert_eq!(record.sent_ns(number), first.map(|_| 1000 + number));
            }
        }
    }
}

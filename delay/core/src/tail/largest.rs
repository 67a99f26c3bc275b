//! The largest delays of a measurement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A delay with its index in the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// In nanoseconds.
    pub delay_ns: i64,
    /// Its index in order of time, counted over all delays.
    pub place: u64,
}

/// Keeps the largest delays, in bounded memory, and the number of all delays.
#[derive(Debug, Clone)]
pub struct LargestDelays {
    kept: BinaryHeap<Reverse<Sample>>,
    room: usize,
    count: u64,
}

impl LargestDelays {
    /// Keeps at most `room` delays. A fit needs fewer than ten thousand.
    pub fn new(room: usize) -> Self {
        LargestDelays { kept: BinaryHeap::with_capacity(room), room, count: 0 }
    }

    /// Records the next delay in order of time, in nanoseconds.
    #[inline]
    pub fn record(&mut self, delay_ns: i64) {
        let sample = Sample { delay_ns, place: self.count };
        self.count += 1;
        if self.kept.len() < self.room {
            self.kept.push(Reverse(sample));
        } else if let Some(mut least) = self.kept.peek_mut() {
            if least.0.delay_ns < delay_ns {
                *least = Reverse(sample);
            }
        }
    }

    /// The number of delays, kept or not.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The kept delays, largest first.
    pub fn descending(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = self.kept.iter().map(|kept| kept.0).collect();
        samples.sort_unstable_by(|a, b| b.cmp(a));
        samples
    }
}

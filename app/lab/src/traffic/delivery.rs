//! Delivery of a stream: sent, arrived and lost frames.

use std::ops::Range;

use super::record::StreamRecord;
use super::source::SourceReport;

/// Delivery of a stream.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Report of the source.
    pub source: SourceReport,
    /// Record of the arrivals.
    pub record: StreamRecord,
    /// Runs of lost frames.
    pub lost: Vec<Gap>,
}

/// A run of lost frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Number of the first frame.
    pub first: u64,
    /// Number of frames.
    pub frames: u64,
}

impl Delivery {
    /// Compares sent with arrived frames.
    #[must_use]
    pub fn new(source: SourceReport, record: StreamRecord) -> Self {
        let mut lost: Vec<Gap> = Vec::new();
        for sequence in 0..source.sent {
            if record.arrival_ns(sequence).is_some() {
                continue;
            }
            match lost.last_mut() {
                Some(gap) if gap.first + gap.frames == sequence => gap.frames += 1,
                _ => lost.push(Gap { first: sequence, frames: 1 }),
            }
        }
        Self { source, record, lost }
    }

    /// Frames that were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.source.sent
    }

    /// Frames that arrived, each counted once.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.record.delivered()
    }

    /// Number of lost frames.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.iter().map(|gap| gap.frames).sum()
    }

    /// Number of lost frames with a number in `range`.
    #[must_use]
    pub fn lost_in(&self, range: Range<u64>) -> u64 {
        let within = |gap: &Gap| {
            let end = (gap.first + gap.frames).min(range.end);
            end.saturating_sub(gap.first.max(range.start))
        };
        self.lost.iter().map(within).sum()
    }

    /// Transmission time of frame `sequence`: by its stamp if it arrived, else by the schedule.
    #[must_use]
    pub fn sent_ns(&self, sequence: u64) -> u64 {
        self.record.sent_ns(sequence).unwrap_or_else(|| self.source.intended_ns(sequence))
    }

    /// Delay of a frame from transmission to arrival, in ns, if it arrived.
    #[must_use]
    pub fn delay_ns(&self, sequence: u64) -> Option<u64> {
        Some(self.record.arrival_ns(sequence)?.saturating_sub(self.record.sent_ns(sequence)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Rate, Stamp};
    use proptest::prelude::*;

    fn delivery(sent: u64, arrived: &[u64]) -> Delivery {
        let source = SourceReport {
            stream: 1,
            sent,
            retries: 0,
            latest_ns: 0,
            start_ns: 1000,
            end_ns: 2000,
            rate: Rate::PerSecond(1_000_000_000),
        };
        let mut record = StreamRecord::default();
        for &sequence in arrived {
            let stamp = Stamp { stream: 1, sequence, intended_ns: 0, actual_ns: 1000 + sequence };
            assert!(record.take(&stamp, 1000 + 3 * sequence + 7));
        }
        Delivery::new(source, record)
    }

    #[test]
    fn gaps_in_the_middle_and_at_the_end_are_found() {
        let found = delivery(10, &[0, 1, 4, 5, 7]);
        let gap = |first, frames| Gap { first, frames };
        assert_eq!(found.lost, [gap(2, 2), gap(6, 1), gap(8, 2)]);
        assert_eq!((found.lost(), found.lost_in(3..9), found.lost_in(4..6)), (5, 3, 0));
        assert_eq!((found.delay_ns(4), found.delay_ns(6)), (Some(15), None));
        assert_eq!(found.sent_ns(6), 1006);
    }

    proptest! {
        #[test]
        fn every_frame_is_delivered_or_lost(
            sent in 0..60_u64, arrivals in prop::collection::vec(0..60_u64, 0..100),
        ) {
            let arrived: Vec<u64> = arrivals.into_iter().filter(|number| *number < sent).collect();
            let found = delivery(sent, &arrived);
            prop_assert_eq!(found.delivered() + found.lost(), sent);
            for cut in 0..=sent {
                prop_assert_eq!(found.lost_in(0..cut) + found.lost_in(cut..sent), found.lost());
            }
            for gap in &found.lost {
                prop_assert!((gap.first..gap.first + gap.frames).all(|n| !arrived.contains(&n)));
            }
        }
    }
}

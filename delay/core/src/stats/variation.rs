//! Inter-packet delay variation (RFC 3393, RFC 5481 4.1): the difference of a packet's delay from that of the
//! previous packet.

use super::Histogram;

/// Delay differences of packets that arrived in sequence.
///
/// If one of the two was lost there is no difference, and a new pair starts.
#[derive(Debug, Clone, Default)]
pub struct Variation {
    longer: Histogram,
    shorter: Histogram,
    last: Option<i64>,
}

impl Variation {
    /// Creates a variation without packets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the delay of the next packet in order of arrival, in nanoseconds.
    pub fn record(&mut self, delay_ns: i64) {
        if let Some(last) = self.last.replace(delay_ns) {
            let part = if delay_ns < last { &mut self.shorter } else { &mut self.longer };
            part.record(delay_ns.abs_diff(last));
        }
    }

    /// Records that the next packet in order of arrival was lost, or has an unknown delay.
    pub fn lose(&mut self) {
        self.last = None;
    }

    /// Differences of packets with the same delay as the previous one, or a longer one.
    pub fn longer(&self) -> &Histogram {
        &self.longer
    }

    /// Differences of the other packets, as positive numbers.
    pub fn shorter(&self) -> &Histogram {
        &self.shorter
    }

    /// The number of pairs.
    pub fn count(&self) -> u64 {
        self.longer.count() + self.shorter.count()
    }

    /// The mean of the absolute differences, in nanoseconds.
    pub fn mean_absolute_ns(&self) -> Option<f64> {
        let count = self.count();
        let sum = self.longer.sum_ns() + self.shorter.sum_ns();
        (count > 0).then(|| sum as f64 / count as f64)
    }
}

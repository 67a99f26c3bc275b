//! Inter-packet delay variation (RFC 3393, RFC 5481 4.1): the difference of a packet's delay from that of the
//! previous packet.

use super::Distribution;

/// Delay differences of packets that arrived in sequence.
///
/// If one of the two was lost there is no difference, and a new pair starts.
#[derive(Debug, Clone, Default)]
pub struct Variation {
    longer: Distribution,
    shorter: Distribution,
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
            let difference = delay_ns - last;
            if difference < 0 {
                self.shorter.record(-difference);
            } else {
                self.longer.record(difference);
            }
        }
    }

    /// Records that the next packet in order of arrival was lost, or has an unknown delay.
    pub fn lose(&mut self) {
        self.last = None;
    }

    /// Differences of packets with the same delay as the previous one, or a longer one.
    pub fn longer(&self) -> &Distribution {
        &self.longer
    }

    /// Differences of the other packets, as positive numbers.
    pub fn shorter(&self) -> &Distribution {
        &self.shorter
    }

    /// The number of pairs.
    pub fn count(&self) -> u64 {
        self.longer.count() + self.shorter.count()
    }

    /// The mean of the absolute differences, in nanoseconds.
    pub fn mean_absolute_ns(&self) -> Option<f64> {
        let sum = |part: &Distribution| part.mean_ns().unwrap_or(0.0) * part.count() as f64;
        let count = self.count();
        (count > 0).then(|| (sum(&self.longer) + sum(&self.shorter)) / count as f64)
    }
}

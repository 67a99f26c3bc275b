//! Inter-packet delay variation (RFC 3393, RFC 5481 4.1): how much longer or shorter the delay of
//! a packet is than that of the packet before it.

use super::Distribution;

/// Differences of the delays of packets that arrived one after the other.
///
/// Where one of the two was lost there is no difference, and a new pair begins.
#[derive(Debug, Clone, Default)]
pub struct Variation {
    longer: Distribution,
    shorter: Distribution,
    last: Option<i64>,
}

impl Variation {
    /// Without a packet yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next packet in order of arrival had this delay, in nanoseconds.
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

    /// The next packet in order of arrival was lost, or its delay is not known.
    pub fn lose(&mut self) {
        self.last = None;
    }

    /// Adds what another holds, of other packets.
    pub fn merge(&mut self, other: &Self) {
        self.longer.merge(&other.longer);
        self.shorter.merge(&other.shorter);
        self.last = None;
    }

    /// Differences of packets that were delayed as long as the one before, or longer.
    pub fn longer(&self) -> &Distribution {
        &self.longer
    }

    /// By how much the others were delayed less, as positive numbers.
    pub fn shorter(&self) -> &Distribution {
        &self.shorter
    }

    /// Pairs of packets.
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

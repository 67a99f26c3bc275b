//! Delays in batches of consecutive packets: the variance of an average of dependent values.
//!
//! Delays of one overload resemble each other, so that a million of them may contain the information of ten
//! thousand independent ones; delays of a periodic schedule contain more than independent ones. Both show in the
//! slow fluctuations of the batches' averages. The variance is the mean square of the first [`FREQUENCIES`] cosine
//! coefficients of the batches' deviations (equal-weighted cosine estimator: Müller 2007; Lazarus, Lewis, Stock,
//! Watson 2018), which has Student's distribution with as many degrees of freedom.

use std::f64::consts::PI;

/// Maximum number of batches. Above it, each two are merged.
const MAX_BATCHES: usize = 256;
/// Cosine coefficients of the variance. More make intervals narrower, and miss longer dependence.
const FREQUENCIES: usize = 8;
/// Batches per coefficient.
const BATCHES_PER_FREQUENCY: usize = 4;
/// A count in the low bits of an entry, its bucket in the high bits.
const COUNT_BITS: u32 = 48;

/// Counts by bucket, in ascending order, without empty buckets.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseCounts(Vec<u64>);

impl SparseCounts {
    /// The buckets with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let count_mask = (1 << COUNT_BITS) - 1;
        self.0.iter().map(move |entry| ((entry >> COUNT_BITS) as usize, entry & count_mask))
    }

    fn merged(&self, other: &Self) -> Self {
        let mut merged = Vec::with_capacity(self.0.len() + other.0.len());
        let mut add = |entry: u64| match merged.last_mut() {
            Some(last) if *last >> COUNT_BITS == entry >> COUNT_BITS => {
                *last += entry & ((1 << COUNT_BITS) - 1);
            }
            _ => merged.push(entry),
        };
        let (mut one, mut two) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let Some(entry) = match (one.peek(), two.peek()) {
            (Some(a), Some(b)) if **a >> COUNT_BITS <= **b >> COUNT_BITS => one.next(),
            (_, Some(_)) => two.next(),
            _ => one.next(),
        } {
            add(*entry);
        }
        SparseCounts(merged)
    }
}

/// Consecutive packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Batch {
    pub(super) delays: SparseCounts,
    /// The number of delays.
    pub(super) count: u64,
    /// Packets without a delay, which have a place in the sequence.
    pub(super) lost: u64,
    /// The sum of delays, in nanoseconds.
    pub(super) sum: u128,
}

impl Batch {
    fn packets(&self) -> u64 {
        self.count + self.lost
    }

    fn merged(&self, later: &Self) -> Self {
        Batch {
            delays: self.delays.merged(&later.delays),
            count: self.count + later.count,
            lost: self.lost + later.lost,
            sum: self.sum + later.sum,
        }
    }
}

/// A sequence of delays in batches of equal length, of which the last is shorter.
#[derive(Debug, Clone)]
pub(super) struct Batches {
    complete: Vec<Batch>,
    length: u64,
    /// The last batch: its counts by bucket, and the range of buckets in use.
    counts: Vec<u32>,
    used: std::ops::Range<usize>,
    last: Batch,
}

impl Batches {
    pub(super) fn new(buckets: usize) -> Self {
        Batches {
            complete: Vec::new(),
            length: 1,
            counts: vec![0; buckets],
            used: buckets..0,
            last: Batch::default(),
        }
    }

    /// Adds the next packet, with the bucket of its delay.
    #[inline]
    pub(super) fn record(&mut self, bucket: usize, delay_ns: u64) {
        self.counts[bucket] += 1;
        self.used = self.used.start.min(bucket)..self.used.end.max(bucket + 1);
        self.last.count += 1;
        self.last.sum += u128::from(delay_ns);
        if self.last.packets() >= self.length {
            self.complete();
        }
    }

    /// Adds a packet without a delay.
    pub(super) fn record_lost(&mut self) {
        self.last.lost += 1;
        if self.last.packets() >= self.length {
            self.complete();
        }
    }

    #[cold]
    fn complete(&mut self) {
        let batch = self.current();
        for bucket in self.used.clone() {
            self.counts[bucket] = 0;
        }
        self.used = self.counts.len()..0;
        self.last = Batch::default();
        self.complete.push(batch);
        if self.complete.len() >= MAX_BATCHES {
            let pairs = self.complete.chunks(2);
            self.complete = pairs.map(|pair| pair[0].merged(&pair[1])).collect();
            self.length *= 2;
        }
    }

    /// The last batch.
    fn current(&self) -> Batch {
        let entry = |bucket: usize| (bucket as u64) << COUNT_BITS | u64::from(self.counts[bucket]);
        let used = self.used.clone().filter(|bucket| self.counts[*bucket] > 0);
        Batch { delays: SparseCounts(used.map(entry).collect()), ..self.last }
    }

    /// All batches, in order.
    pub(super) fn all(&self) -> Vec<Batch> {
        let mut all = self.complete.clone();
        all.extend((self.last.packets() > 0).then(|| self.current()));
        all
    }
}

/// Returns the variance of a sum over packets from its deviations from the expected value in each batch, with its
/// degrees of freedom; `None` with too few batches.
pub(super) fn variance_of_sum(
    batches: &[Batch],
    deviation: impl Fn(&Batch) -> f64,
) -> Option<(f64, usize)> {
    let frequencies = FREQUENCIES.min(batches.len() / BATCHES_PER_FREQUENCY);
    let packets: u64 = batches.iter().map(Batch::packets).sum();
    if frequencies == 0 {
        return None;
    }
    let mut coefficients = vec![0.0; frequencies];
    let mut end = 0;
    for batch in batches {
        let start = end;
        end += batch.packets();
        let deviation = deviation(batch);
        for (number, coefficient) in coefficients.iter_mut().enumerate() {
            // The mean of the cosine over the batch.
            let angle = PI * (number + 1) as f64 / packets as f64;
            let (from, to) = ((angle * start as f64).sin(), (angle * end as f64).sin());
            *coefficient += deviation * (to - from) / (angle * batch.packets() as f64);
        }
    }
    let squares: f64 = coefficients.iter().map(|coefficient| coefficient * coefficient).sum();
    Some((2.0 * squares / frequencies as f64, frequencies))
}

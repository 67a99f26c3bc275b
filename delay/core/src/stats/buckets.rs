//! Buckets of delays: powers of two in equal parts, and single nanoseconds below the first of these.

/// The resolution of buckets: 2^`bits` of them for each power of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buckets {
    pub(super) bits: u32,
}

impl Buckets {
    /// Returns the bucket of a delay.
    #[inline]
    pub(super) fn of(self, delay_ns: u64) -> usize {
        let shift = (63 - (delay_ns | 1).leading_zeros()).saturating_sub(self.bits);
        ((shift as usize) << self.bits) + (delay_ns >> shift) as usize
    }

    /// Returns the shortest delay of a bucket.
    pub(super) fn shortest(self, bucket: usize) -> u64 {
        let shift = (bucket >> self.bits).saturating_sub(1);
        ((bucket - (shift << self.bits)) as u64) << shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        let buckets = Buckets { bits: 10 };
        let mut next = 0;
        for number in 0..buckets.of(60_000_000_000) {
            let (from, to) = (buckets.shortest(number), buckets.shortest(number + 1));
            assert_eq!((from, buckets.of(from), buckets.of(to - 1)), (next, number, number));
            assert!((to - from - 1) as f64 <= from as f64 / 1024.0);
            next = to;
        }
    }
}

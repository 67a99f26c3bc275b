//! Delays over time in bounded memory, for a plot.

/// Maximum number of time bins. Above it, each two are merged.
const MAX_BINS: usize = 2048;
/// Initial length of a bin, in nanoseconds: a power of two.
const FIRST_BITS: u32 = 20;

/// The shortest and the longest delay of each of many equal time bins.
#[derive(Debug, Clone, Default)]
pub struct DelayTimeline {
    start_ns: Option<i64>,
    /// The number of times that the length was doubled.
    doubled: u32,
    bins: Vec<Option<(i64, i64)>>,
}

/// The delays of a time bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBin {
    /// Its middle, in nanoseconds since the first delay.
    pub middle_ns: i64,
    /// The shortest delay, in nanoseconds.
    pub shortest_ns: i64,
    /// The longest, likewise.
    pub longest_ns: i64,
}

impl DelayTimeline {
    /// Creates a series without delays.
    pub fn new() -> Self {
        Self::default()
    }

    /// The length of a bin, in nanoseconds.
    pub fn length_ns(&self) -> i64 {
        1 << (FIRST_BITS + self.doubled)
    }

    /// Adds a delay. A time before the first one belongs to the first bin.
    #[inline]
    pub fn record(&mut self, time_ns: i64, delay_ns: i64) {
        let start = *self.start_ns.get_or_insert(time_ns);
        let since = time_ns.saturating_sub(start).max(0);
        let mut place = self.bin_of(since);
        while place >= MAX_BINS {
            self.double();
            place = self.bin_of(since);
        }
        if self.bins.len() <= place {
            self.bins.resize(place + 1, None);
        }
        match &mut self.bins[place] {
            Some((shortest, longest)) => {
                *shortest = delay_ns.min(*shortest);
                *longest = delay_ns.max(*longest);
            }
            bin => *bin = Some((delay_ns, delay_ns)),
        }
    }

    /// A shift is faster than a division.
    fn bin_of(&self, since_ns: i64) -> usize {
        (since_ns >> (FIRST_BITS + self.doubled).min(63)) as usize
    }

    fn double(&mut self) {
        let halves = self.bins.chunks(2);
        let whole = |pair: &[Option<(i64, i64)>]| pair.iter().copied().fold(None, together);
        self.bins = halves.map(whole).collect();
        self.doubled += 1;
    }

    /// The bins with delays, in order of time.
    pub fn bins(&self) -> impl Iterator<Item = TimeBin> + '_ {
        let length_ns = self.length_ns();
        self.bins.iter().enumerate().filter_map(move |(place, seen)| {
            let (shortest_ns, longest_ns) = (*seen)?;
            let middle_ns = place as i64 * length_ns + length_ns / 2;
            Some(TimeBin { middle_ns, shortest_ns, longest_ns })
        })
    }
}

fn together(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_NS: i64 = 1 << FIRST_BITS;

    #[test]
    fn extremes_are_kept_over_any_duration() {
        let mut line = DelayTimeline::new();
        line.record(5 * FIRST_NS, 10);
        line.record(5 * FIRST_NS + 1, 4);
        line.record(0, 7);
        assert_eq!(line.bins().collect::<Vec<_>>().len(), 1);
        for second in 0..100_000 {
            line.record(5 * FIRST_NS + second * 1_000_000_000, 1000 + second % 10);
        }
        let bins: Vec<TimeBin> = line.bins().collect();
        assert!((MAX_BINS / 2..=MAX_BINS).contains(&bins.len()), "{}", bins.len());
        assert_eq!((bins[0].shortest_ns, bins[0].longest_ns), (4, 1009));
        assert!(bins[1..].iter().all(|s| (s.shortest_ns, s.longest_ns) == (1000, 1009)));
        assert!(bins.windows(2).all(|s| s[1].middle_ns - s[0].middle_ns == line.length_ns()));
        // The limits of 64 bits.
        for time in [i64::MIN, i64::MAX] {
            let mut line = DelayTimeline::new();
            line.record(time, 1);
            line.record(i64::MIN, i64::MIN);
            line.record(i64::MAX, i64::MAX);
            assert!(line.bins().count() <= 2);
        }
    }
}

//! A NIC clock, tracked against a clock of the kernel.

use std::collections::VecDeque;

use nix::time::{ClockId, clock_gettime};
use onbeat_netdev::NicClock;

use crate::error::{Error, Result};

/// Maximum number of kept readings.
const KEPT: usize = 64;
/// Attempts per reading; the one with the least interruption is kept.
const TRIES: usize = 8;

/// The clock of a NIC, read together with `CLOCK_MONOTONIC` from time to time.
#[derive(Debug)]
pub struct TrackedClock {
    nic: NicClock,
    line: ClockMapping,
}

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockReading {
    nic_ns: u64,
    monotonic_ns: u64,
    /// Its maximum error.
    error_ns: u64,
}

/// Readings of both clocks, with linear interpolation between them.
#[derive(Debug, Default)]
struct ClockMapping(VecDeque<ClockReading>);

impl TrackedClock {
    /// Opens /dev/ptpN of that number, and reads it twice.
    ///
    /// # Errors
    /// [`Error::System`] if it does not exist, or cannot be read.
    pub fn open(number: u32) -> Result<Self> {
        let nic = NicClock::open(number)
            .map_err(|source| Error::System { operation: "open the clock of the NIC", source })?;
        let mut clock = Self { nic, line: ClockMapping::default() };
        clock.read()?;
        clock.read()?;
        Ok(clock)
    }

    /// Reads both clocks. Times are converted between readings, and shortly before and after them: read them ten
    /// times per second.
    ///
    /// # Errors
    /// [`Error::System`] if the clock cannot be read any more.
    pub fn read(&mut self) -> Result<()> {
        let mut best: Option<ClockReading> = None;
        for _ in 0..TRIES {
            let before_ns = monotonic_ns()?;
            let nic_ns = self.nic.read().map_err(unreadable)?;
            let window_ns = monotonic_ns()? - before_ns;
            let error_ns = window_ns.div_ceil(2);
            let reading =
                ClockReading { nic_ns, monotonic_ns: before_ns + window_ns / 2, error_ns };
            if best.is_none_or(|best| error_ns < best.error_ns) {
                best = Some(reading);
            }
        }
        best.into_iter().for_each(|reading| self.line.add(reading));
        Ok(())
    }

    /// Converts a time of the NIC's clock to nanoseconds of `CLOCK_MONOTONIC`; returns it with its maximum error.
    /// `None` if the NIC's clock was set since, or the time is long before the first kept reading.
    #[must_use]
    pub fn monotonic_ns(&self, nic_ns: u64) -> Option<(u64, u64)> {
        self.line.at(nic_ns)
    }
}

fn monotonic_ns() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(|errno| unreadable(errno.into()))?;
    Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

fn unreadable(source: std::io::Error) -> Error {
    Error::System { operation: "read a clock", source }
}

impl ClockMapping {
    fn add(&mut self, reading: ClockReading) {
        // A rate difference of a thousandth means that the clock was set in between.
        let was_set = self.0.back().is_some_and(|last| {
            let (nic, monotonic) = (last.nic_ns, last.monotonic_ns);
            let elapsed_ns = reading.monotonic_ns.saturating_sub(monotonic) as i128;
            let nic_ns = i128::from(reading.nic_ns) - i128::from(nic);
            let allowed_ns = elapsed_ns / 1000 + i128::from(last.error_ns + reading.error_ns);
            (nic_ns - elapsed_ns).abs() > allowed_ns
        });
        if was_set {
            self.0.clear();
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }

    fn at(&self, nic_ns: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|reading| reading.nic_ns <= nic_ns);
        // Outside of all readings the nearest two are extrapolated for the distance to the next.
        let right = after.clamp(1, self.0.len().checked_sub(1).filter(|last| *last > 0)?);
        let (a, b) = (self.0[right - 1], self.0[right]);
        let rate = (b.monotonic_ns - a.monotonic_ns) as f64 / (b.nic_ns - a.nic_ns).max(1) as f64;
        let nearest = if nic_ns >= b.nic_ns { b } else { a };
        let from_ns = nic_ns as i128 - i128::from(nearest.nic_ns);
        if from_ns.unsigned_abs() > u128::from(LONGEST_NS) {
            return None;
        }
        let at_ns = i128::from(nearest.monotonic_ns) + (from_ns as f64 * rate).round() as i128;
        // Between two readings the error is at most theirs; beyond them their rate may be wrong, too.
        let outside_ns = nic_ns.saturating_sub(b.nic_ns).max(a.nic_ns.saturating_sub(nic_ns));
        let span_ns = (b.nic_ns - a.nic_ns).max(1) as f64;
        let beyond = 1.0 + 2.0 * outside_ns as f64 / span_ns;
        let error_ns = (a.error_ns.max(b.error_ns) as f64 * beyond).ceil();
        u64::try_from(at_ns).ok().map(|at_ns| (at_ns, error_ns as u64))
    }
}

/// Maximum distance of a converted time from the nearest reading.
const LONGEST_NS: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn line(readings: &[(u64, u64)]) -> ClockMapping {
        let mut line = ClockMapping::default();
        for (nic_ns, monotonic_ns) in readings.iter().copied() {
            line.add(ClockReading { nic_ns, monotonic_ns, error_ns: 100 });
        }
        line
    }

    /// 50 ppm fast, and 7 s ahead.
    fn nic(monotonic_ns: u64) -> u64 {
        monotonic_ns + monotonic_ns / 20_000 + 7 * S
    }

    #[test]
    fn a_fast_clock_is_tracked() {
        let tenths: Vec<_> = (0..200).map(|n| (nic(n * S / 10), n * S / 10)).collect();
        let line = line(&tenths);
        assert_eq!(line.0.len(), KEPT);
        for monotonic_ns in [15 * S + 12_345, 19 * S + S / 3, 20 * S] {
            let (at_ns, error_ns) = line.at(nic(monotonic_ns)).unwrap();
            assert!(at_ns.abs_diff(monotonic_ns) <= 2, "{at_ns} {monotonic_ns}");
            assert!((100..=300).contains(&error_ns), "{error_ns}");
        }
        assert_eq!(line.at(nic(S)), None, "long before the first reading");
        assert_eq!(line.at(nic(40 * S)), None, "long after the last reading");
    }

    #[test]
    fn a_clock_step_discards_former_readings() {
        let mut line = line(&[(nic(S), S), (nic(2 * S), 2 * S)]);
        line.add(ClockReading { nic_ns: 5, monotonic_ns: 3 * S, error_ns: 100 });
        assert_eq!(line.at(5), None, "one reading permits no conversion");
        line.add(ClockReading { nic_ns: 5 + S, monotonic_ns: 4 * S, error_ns: 100 });
        assert_eq!(line.at(5 + S / 2), Some((3 * S + S / 2, 100)));
        assert_eq!(ClockMapping::default().at(1), None);
    }
}

//! Skew between the paths of a stream: the time between the copies of a number, by the clock of the receiver.
//!
//! One number of [`SAMPLED`], or of more with a long history, is measured. Its first copy, which passes, stores its time of arrival; a later copy of another
//! member reads it. The kernel's programs record the same (`frer/xdp/bpf/paths.h`).

use alloc::vec::Vec;

use crate::recover::RecoveryFunction;
use crate::spec::MAX_HISTORY;

/// One number of these is measured with a history of up to 512: those that are multiples of it.
pub const SAMPLED: u16 = 128;

/// Measured numbers that can be under way at the same time.
const ARRIVALS: usize = 8;

/// Samples from which values for the configuration follow.
pub const ENOUGH: u64 = 30;

/// Times are counted in units of 64 ns.
pub const UNIT_NS: u64 = 64;

/// Classes of times: below 8.192 us, half octaves from there on, and all longer ones.
pub const CLASSES: usize = 27;

/// The logarithm of the first limit, in units.
const FIRST_LIMIT: u32 = 7;

/// The arrivals of a member's copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberArrivals {
    /// Measured numbers of which it delivered the first copy.
    pub first: u32,
    /// The greatest time after the first copy, in units of [`UNIT_NS`].
    pub greatest: u32,
    /// The greatest distance of a copy from the highest number, in packets.
    pub behind: u16,
    /// Numbers of which it delivered a later copy, by class of the time after the first. If a class is full, all are
    /// halved: recent copies count more.
    pub later: [u16; CLASSES],
}

/// The paths of a stream with sequence recovery.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathsReading {
    /// By member.
    pub members: Vec<MemberArrivals>,
    /// The longest time between accepted packets, without those that ended by a reset.
    pub gap_ns: u64,
}

impl PathsReading {
    /// Returns the greatest distance of a copy from the highest number, in packets.
    #[must_use]
    pub fn behind(&self) -> u16 {
        self.members.iter().map(|member| member.behind).max().unwrap_or(0)
    }

    /// Returns the history length that follows: twice the greatest distance of a copy, as one number of [`SAMPLED`] is
    /// measured. `None`: too few samples.
    #[must_use]
    pub fn history_length(&self) -> Option<u16> {
        let twice = 2 * (u32::from(self.behind()) + 1);
        let length = twice.min(MAX_HISTORY.into()) as u16;
        (self.samples() >= ENOUGH).then_some(length)
    }

    /// Returns the reset timeout that follows, in milliseconds: twice the longest time between accepted packets, or twice
    /// the greatest skew if that is longer. `None`: too few samples.
    #[must_use]
    pub fn reset_timeout_ms(&self) -> Option<u64> {
        let skew = self.members.iter().map(|member| u64::from(member.greatest)).max().unwrap_or(0);
        let longest_ns = self.gap_ns.max(skew * UNIT_NS);
        (self.samples() >= ENOUGH).then_some((2 * longest_ns).div_ceil(1_000_000).max(1))
    }

    /// Returns the measured numbers with a second copy.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.members.iter().map(MemberArrivals::later_copies).sum()
    }

    /// Returns the measured numbers.
    #[must_use]
    pub fn firsts(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.first)).sum()
    }

    /// Returns a percentile of the skew of a member, in nanoseconds: the time of its copy after that of the other
    /// member, negative if it is first. With more members, the time after the first copy. `None`: no sample.
    #[must_use]
    pub fn skew_ns(&self, member: usize, share: f64) -> Option<i64> {
        let own = self.members.get(member)?;
        let mut times: Vec<(i64, i64, u64)> = Vec::new();
        if let [first, second] = self.members.as_slice() {
            let other = if member == 0 { second } else { first };
            times.extend(other.classes().rev().map(|(low, high, count)| (-high, -low, count)));
        } else {
            times.push((0, 0, u64::from(own.first)));
        }
        times.extend(own.classes());
        percentile(&times, share)
    }

    /// Returns the greatest skew of a member like [`PathsReading::skew_ns`].
    #[must_use]
    pub fn greatest_skew_ns(&self, member: usize) -> Option<i64> {
        let greatest = self.skew_ns(member, 1.0)?;
        let own = self.members.get(member)?;
        Some(if own.later_copies() > 0 { own.greatest_ns() } else { greatest })
    }
}

impl MemberArrivals {
    /// Records the first copy of a measured number.
    pub fn record_first(&mut self) {
        self.first = self.first.wrapping_add(1);
    }

    /// Records a later copy, `units` of [`UNIT_NS`] after the first.
    pub fn record_later(&mut self, units: u32, behind: u16) {
        self.greatest = self.greatest.max(units);
        self.behind = self.behind.max(behind);
        let class = class(units);
        if self.later[class] == u16::MAX {
            self.later.iter_mut().for_each(|count| *count /= 2);
            self.first /= 2;
        }
        self.later[class] += 1;
    }

    fn later_copies(&self) -> u64 {
        self.later.iter().map(|count| u64::from(*count)).sum()
    }

    fn greatest_ns(&self) -> i64 {
        i64::from(self.greatest) * UNIT_NS as i64
    }

    /// Yields the classes with their limits in nanoseconds, none beyond the greatest time, and their counts.
    fn classes(&self) -> impl DoubleEndedIterator<Item = (i64, i64, u64)> + '_ {
        let most = self.greatest_ns();
        let class = move |(class, count): (usize, &u16)| {
            let high = if class + 1 < CLASSES { limit_ns(class + 1).min(most) } else { most };
            (limit_ns(class).min(high), high, u64::from(*count))
        };
        self.later.iter().enumerate().filter(|(_, count)| **count > 0).map(class)
    }
}

/// Returns the interval of measured numbers: their arrivals last for two histories.
fn interval(history_length: Option<u16>) -> u16 {
    let longest = history_length.map_or(0, u16::next_power_of_two);
    SAMPLED.max(longest / 4)
}

/// Returns the class of a time.
fn class(units: u32) -> usize {
    let Some(octave) = units.checked_ilog2().and_then(|log| log.checked_sub(FIRST_LIMIT)) else {
        return 0;
    };
    let half = units >> (octave + FIRST_LIMIT - 1) & 1;
    (1 + 2 * octave + half).min(CLASSES as u32 - 1) as usize
}

/// Returns the lowest time of a class, in nanoseconds.
fn limit_ns(class: usize) -> i64 {
    let Some(step) = class.checked_sub(1) else { return 0 };
    let octave = 1_i64 << (FIRST_LIMIT as usize + step / 2);
    (octave + octave / 2 * (step as i64 % 2)) * UNIT_NS as i64
}

/// Returns a percentile of times in ascending classes (lowest, highest, count), by linear interpolation.
fn percentile(classes: &[(i64, i64, u64)], share: f64) -> Option<i64> {
    let total: u64 = classes.iter().map(|(_, _, count)| count).sum();
    let mut wanted = share * total as f64;
    let mut found = None;
    for &(low, high, count) in classes.iter().filter(|(_, _, count)| *count > 0) {
        let part = (wanted / count as f64).clamp(0.0, 1.0);
        found = Some(low + ((high - low) as f64 * part) as i64);
        if wanted <= count as f64 {
            break;
        }
        wanted -= count as f64;
    }
    found
}

/// Recorder of a stream in user space.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathRecorder {
    /// The first copies of measured numbers: time in units, member and number.
    arrivals: [Option<(u32, u16, u16)>; ARRIVALS],
    pub(crate) members: Vec<MemberArrivals>,
}

impl PathRecorder {
    pub(crate) fn new(members: Vec<MemberArrivals>) -> Self {
        Self { members, ..Self::default() }
    }

    /// Returns whether a number may be measured.
    pub(crate) fn is_sampled(number: u16) -> bool {
        number % SAMPLED == 0
    }

    /// Records a copy that arrived at `now_ns` and passed or was discarded by `recovery`, if its number is measured.
    pub(crate) fn record(
        &mut self,
        member: usize,
        number: u16,
        now_ns: u64,
        passed: bool,
        recovery: &RecoveryFunction,
    ) {
        let interval = interval(recovery.history_length());
        if number % interval != 0 {
            return;
        }
        let now = (now_ns / UNIT_NS) as u32;
        let arrival = &mut self.arrivals[usize::from(number / interval) % ARRIVALS];
        let Some(arrivals) = self.members.get_mut(member) else { return };
        if passed {
            *arrival = Some((now, member as u16, number));
            arrivals.record_first();
            return;
        }
        match *arrival {
            Some((first, other, same)) if same == number && usize::from(other) != member => {
                let behind = (recovery.recov_seq_num().wrapping_sub(number) as i16).max(0) as u16;
                arrivals.record_later(now.wrapping_sub(first), behind);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Recovery, Role};

    #[test]
    fn with_a_long_history_fewer_numbers_are_measured() {
        let lengths = [None, Some(2), Some(512), Some(513), Some(1024), Some(MAX_HISTORY)];
        assert_eq!(lengths.map(interval), [128, 128, 128, 256, 256, 8192]);
    }

    #[test]
    fn classes_are_half_octaves_and_contiguous() {
        assert_eq!([0, 127, 128, 191, 192, 255, 256].map(class), [0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(class(u32::MAX), CLASSES - 1);
        for n in 1..CLASSES {
            let units = (limit_ns(n) / UNIT_NS as i64) as u32;
            assert_eq!((class(units - 1), class(units)), (n - 1, n));
        }
    }

    #[test]
    fn a_full_class_halves_all() {
        let mut member = MemberArrivals { first: 9, ..Default::default() };
        member.record_later(1000, 1);
        (0..u16::MAX).for_each(|_| member.record_later(1, 0));
        assert_eq!((member.later[0], member.first, member.later_copies()), (u16::MAX, 9, 65_536));
        member.record_later(1, 0);
        assert_eq!((member.later[0], member.first, member.later_copies()), (32_768, 4, 32_768));
    }

    #[test]
    fn the_sign_of_the_skew_is_that_of_the_order() {
        const MS: u64 = 1_000_000;
        let mut recorder = PathRecorder::new(alloc::vec![MemberArrivals::default(); 2]);
        let mut recovery = RecoveryFunction::new(&Recovery::vector(64), Role::Sequence).unwrap();
        for n in 0..200_u16 {
            let number = n.wrapping_mul(SAMPLED);
            let now = u64::from(n) * 100 * MS;
            recovery.reset(now);
            recovery.packet(now, Some(number));
            recorder.record(0, number, now, true, &recovery);
            recorder.record(0, number, now, false, &recovery);
            recovery.packet(now, Some(number.wrapping_add(20)));
            recorder.record(1, number, now + 4 * MS, false, &recovery);
        }
        let reading = PathsReading { members: recorder.members.clone(), gap_ns: 30 * MS };
        assert_eq!((reading.samples(), reading.members[0].first), (200, 200));
        assert_eq!((reading.behind(), reading.history_length()), (20, Some(42)));
        assert_eq!(reading.reset_timeout_ms(), Some(60));
        let near = |skew: Option<i64>, wanted: i64| {
            assert!((skew.unwrap() - wanted).abs() < 1_100_000, "{skew:?} {wanted}");
        };
        for share in [0.5, 0.99] {
            near(reading.skew_ns(1, share), 4_000_000);
            near(reading.skew_ns(0, share), -4_000_000);
        }
        assert_eq!(reading.greatest_skew_ns(1), Some(4_000_000));
        near(reading.greatest_skew_ns(0), -3_000_000);
        assert_eq!(PathsReading::default().skew_ns(0, 0.5), None);
        assert_eq!(PathsReading::default().history_length(), None);
    }
}

//! Transmission schedule of probes: a rate over time, as in FlowPing's profiles.

use std::fmt;
use std::str::FromStr;

/// The course of a rate from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateCurve {
    /// Linear in time.
    Linear,
    /// Quadratic in time: slow at first.
    Quadratic,
}

/// A segment of a profile. Rates are in packets/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProfileSegment {
    /// Its duration, in nanoseconds.
    pub duration_ns: i64,
    /// The rate at its start.
    pub from: f64,
    /// The rate at its end; equal to the start for a constant one.
    pub to: f64,
    /// The course of the rate.
    pub course: RateCurve,
}

impl ProfileSegment {
    /// A constant rate.
    pub fn constant(rate: f64, duration_ns: i64) -> Self {
        ProfileSegment { duration_ns, from: rate, to: rate, course: RateCurve::Linear }
    }

    /// The number of packets in the first share `x` of the segment, `0.0..=1.0`: the integral of the rate.
    fn packets(&self, x: f64) -> f64 {
        let growth = match self.course {
            RateCurve::Linear => x * x / 2.0,
            RateCurve::Quadratic => x * x * x / 3.0,
        };
        (self.from * x + (self.to - self.from) * growth) * self.duration_ns as f64 / 1e9
    }

    /// The time from its start at which `packets` have been sent, in nanoseconds.
    fn time_ns(&self, packets: f64) -> i64 {
        let (mut low, mut high) = (0.0, 1.0);
        // Precise to a nanosecond for any possible segment.
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            if self.packets(middle) < packets { low = middle } else { high = middle }
        }
        (high * self.duration_ns as f64).round() as i64
    }
}

/// A sequence of segments. The first probe is sent at once; each further one when the integral of the rate has
/// grown by one packet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    stretches: Vec<ProfileSegment>,
    current: usize,
    /// The start of the current segment, and packets due before it.
    start_ns: i64,
    before: f64,
    next: u64,
}

impl Profile {
    /// Creates a profile of these segments; those without time or packets are skipped. Rates must not be negative.
    pub fn new(stretches: Vec<ProfileSegment>) -> Self {
        Profile { stretches, ..Self::default() }
    }

    /// The total duration of the segments, in nanoseconds.
    pub fn duration_ns(&self) -> i64 {
        self.stretches.iter().map(|stretch| stretch.duration_ns).sum()
    }

    /// The number of packets due by a time since the start, in nanoseconds: as by the iterator, except that the
    /// packet after a pause is due at the start of the pause.
    pub fn due(&self, after_ns: i64) -> u64 {
        let (mut left_ns, mut made, mut all) = (after_ns, 0.0, 0.0);
        for stretch in &self.stretches {
            let within_ns = left_ns.clamp(0, stretch.duration_ns);
            made += stretch.packets(within_ns as f64 / stretch.duration_ns.max(1) as f64);
            all += stretch.packets(1.0);
            left_ns = left_ns.saturating_sub(stretch.duration_ns);
        }
        // The first is due at once; one at the end is not sent.
        let due = ((made + 1e-9_f64).floor() + 1.0).min((all - 1e-9_f64).ceil());
        if after_ns < 0 { 0 } else { due as u64 }
    }
}

/// The error of a text that is not a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid profile segment {text:?}: {why}; use the form \"100 for 10s\", \"100..1000 for 10s\" or \
     \"100..1000 for 10s quadratic\""
)]
pub struct ProfileError {
    /// The segment.
    pub text: String,
    /// The cause.
    pub why: &'static str,
}

/// `100 for 10s`, `0..1000 for 500ms`, `0..1000 for 10s quadratic`: packets/s.
impl FromStr for ProfileSegment {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let wrong = |why| ProfileError { text: text.trim().to_owned(), why };
        let mut words = text.split_whitespace();
        let rates = words.next().ok_or_else(|| wrong("it is empty"))?;
        let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
        let rate = |text: &str| {
            let rate = text.parse::<f64>().ok().filter(|rate| (0.0..=MOST).contains(rate));
            rate.ok_or_else(|| wrong("the rate is not in 0 to 10,000,000 packets/s"))
        };
        let (from, to) = (rate(from)?, rate(to)?);
        if words.next() != Some("for") {
            return Err(wrong("\"for\" and a time must follow the rate"));
        }
        let time = words.next().unwrap_or_default();
        let (number, unit) = time.split_at(time.find(char::is_alphabetic).unwrap_or(time.len()));
        let unit_ns = match unit {
            "ms" => 1e6,
            "s" => 1e9,
            "min" => 60e9,
            _ => return Err(wrong("the time is not a number of ms, s or min")),
        };
        let number = number.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number));
        let number = number.ok_or_else(|| wrong("the time is not a number of ms, s or min"))?;
        let course = match (words.next(), words.next()) {
            (None, _) => RateCurve::Linear,
            (Some("linear"), None) => RateCurve::Linear,
            (Some("quadratic"), None) => RateCurve::Quadratic,
            _ => return Err(wrong("only \"linear\" or \"quadratic\" may follow the time")),
        };
        Ok(ProfileSegment { duration_ns: (number * unit_ns) as i64, from, to, course })
    }
}

/// Maximum rate; higher ones are a mistake.
const MOST: f64 = 1e7;

/// Segments, separated by line ends or commas; `#` starts a comment.
impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let parts = lines.flat_map(|line| line.split(',')).map(str::trim);
        let stretches: Vec<ProfileSegment> =
            parts.filter(|part| !part.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
        if stretches.is_empty() {
            return Err(ProfileError { text: text.trim().to_owned(), why: "the profile is empty" });
        }
        Ok(Profile::new(stretches))
    }
}

impl fmt::Display for ProfileSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProfileSegment { duration_ns, from, to, course } = self;
        write!(f, "{from}")?;
        if from != to {
            write!(f, "..{to}")?;
        }
        write!(f, " for {}ms", *duration_ns as f64 / 1e6)?;
        if *course == RateCurve::Quadratic { f.write_str(" quadratic") } else { Ok(()) }
    }
}

impl Iterator for Profile {
    type Item = i64;

    /// Returns the intended time of the next probe, in nanoseconds since the start.
    fn next(&mut self) -> Option<i64> {
        loop {
            let stretch = self.stretches.get(self.current)?;
            let within = self.next as f64 - self.before;
            let packets = stretch.packets(1.0);
            // A packet at the end is the next segment's first.
            if within < packets - 1e-9 {
                self.next += 1;
                return Some(self.start_ns + stretch.time_ns(within));
            }
            self.before += packets;
            self.start_ns += stretch.duration_ns;
            self.current += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn ramp(from: f64, to: f64, course: RateCurve) -> Vec<i64> {
        Profile::new(vec![ProfileSegment { duration_ns: 10 * SECOND, from, to, course }]).collect()
    }

    #[test]
    fn probes_follow_constant_rates_and_steps() {
        let steps =
            vec![ProfileSegment::constant(4.0, SECOND), ProfileSegment::constant(2.0, SECOND)];
        let times: Vec<i64> = Profile::new(steps).map(|ns| ns / 1_000_000).collect();
        assert_eq!(times, [0, 250, 500, 750, 1000, 1500]);
        assert_eq!(Profile::new(vec![ProfileSegment::constant(1e6, SECOND)]).count(), 1_000_000);
        assert_eq!(Profile::new(vec![ProfileSegment::constant(0.0, SECOND)]).count(), 0);
        assert_eq!(Profile::new(Vec::new()).next(), None);
        // A pause, and a rate that does not fill its segment.
        let pause = [ProfileSegment::constant(1.5, SECOND), ProfileSegment::constant(0.0, SECOND)];
        let times: Vec<i64> = Profile::new([pause, pause].concat()).collect();
        assert_eq!(times, [0, 666_666_667, 2_333_333_333]);
    }

    /// After t of T seconds, a linear ramp from a to b has sent at + (b - a)t²/2T packets, a quadratic one at + (b
    /// - a)t³/3T².
    #[test]
    fn ramps_send_the_integral_of_their_rate() {
        for (course, total) in [(RateCurve::Linear, 5500), (RateCurve::Quadratic, 4000)] {
            let times = ramp(100.0, 1000.0, course);
            assert_eq!(times.len(), total);
            for (n, time) in times.iter().enumerate() {
                let t = *time as f64 / 1e9;
                let sent = match course {
                    RateCurve::Linear => 100.0 * t + 900.0 * t * t / 20.0,
                    RateCurve::Quadratic => 100.0 * t + 900.0 * t.powi(3) / 300.0,
                };
                assert!((sent - n as f64).abs() < 1e-5, "{n}: {sent}");
            }
            assert!(times.is_sorted());
        }
        assert_eq!(ramp(1000.0, 0.0, RateCurve::Linear).len(), 5000, "and down");
    }

    #[test]
    fn due_packets_equal_the_intended_times() {
        for text in [
            "4 for 1s, 2 for 1s",
            "0..1000 for 100ms",
            "1.5 for 1s, 0 for 1s, 3 for 1s",
            "0 for 1s",
        ] {
            let profile: Profile = text.parse().unwrap();
            let times: Vec<i64> = profile.clone().collect();
            for time in [-1, 0, 1, 250_000_000, 99_999_999, SECOND - 1, SECOND, 3 * SECOND] {
                let meant = times.iter().filter(|at| **at <= time).count() as u64;
                let due = profile.due(time);
                // One packet more if a pause follows a partly due packet.
                assert!(due == meant || due == meant + 1, "{text}: {time}: {due} {meant}");
            }
            assert_eq!(profile.due(i64::MAX), times.len() as u64, "{text}");
        }
    }

    #[test]
    fn a_formatted_profile_parses_to_the_same_profile() {
        let text = "100 for 2s # first\n\n0..1000 for 500ms, 10..5 for 1.5min quadratic\n";
        let profile: Profile = text.parse().unwrap();
        let expected = [
            ProfileSegment::constant(100.0, 2 * SECOND),
            ProfileSegment {
                duration_ns: SECOND / 2,
                from: 0.0,
                to: 1000.0,
                course: RateCurve::Linear,
            },
            ProfileSegment {
                duration_ns: 90 * SECOND,
                from: 10.0,
                to: 5.0,
                course: RateCurve::Quadratic,
            },
        ];
        assert_eq!(profile.stretches, expected);
        assert_eq!(profile.duration_ns(), 92_500_000_000);
        assert_eq!(profile.due(i64::MAX), 1200);
        for stretch in &expected {
            assert_eq!(stretch.to_string().parse().as_ref(), Ok(stretch));
        }
    }

    #[test]
    fn an_invalid_segment_is_named() {
        for text in [
            "",
            "# nothing",
            "100",
            "100 for",
            "100 for 3",
            "x for 3s",
            "-1 for 3s",
            "1e9 for 3s",
            "1 for 3s cubic",
            "1 for 3s linear 2",
            "1 in 3s",
            "1 for -3s",
            "nan for 1s",
        ] {
            let error = text.parse::<Profile>().unwrap_err().to_string();
            assert!(error.contains("100..1000 for 10s quadratic"), "{text}: {error}");
        }
    }
}

//! STAMP, the Simple Two-way Active Measurement Protocol (RFC 8762), with the session identifier of
//! RFC 8972.
//!
//! Both packets have 44 octets, or 112 if authenticated, so that a measurement is equal in both directions.
//! The octets after them, padding or the TLVs of RFC 8972, are a payload that the reflector returns.

mod authenticated;
mod reflected;
mod test;

use core::fmt;

use crate::EmitError;

pub use authenticated::{AUTHENTICATED_LEN, COVERED_LEN, HMAC_LEN, View as AuthenticatedView};
pub use reflected::{Repr as Reflected, View as ReflectedView};
pub use test::{Repr as Test, View as TestView};

/// Default UDP port of a reflector.
pub const PORT: u16 = 862;
/// Octets of either packet, unauthenticated.
pub const PACKET_LEN: usize = 44;
/// Octets of the fields of TWAMP's test packet (RFC 5357 4.1.2), which equal the first ones of STAMP's; any
/// number of padding octets follows.
pub const TWAMP_TEST_LEN: usize = 14;
/// Octets of the fields of TWAMP's reflected packet (RFC 5357 4.2.1), which equal the first ones of STAMP's.
pub const TWAMP_REFLECTED_LEN: usize = 41;

/// From 1900, the epoch of NTP, to 1970, in seconds.
const NTP_TO_UNIX_S: i64 = 2_208_988_800;
const NS_PER_S: i64 = 1_000_000_000;

/// The form of a time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// NTP: seconds since 1900 and a fraction, in 32 bits each. UTC.
    #[default]
    Ntp,
    /// PTPv2, with seconds truncated to 32 bits: seconds since 1970 and nanoseconds. TAI.
    Ptp,
}

/// A time stamp in wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Timestamp(pub [u8; 8]);

impl Timestamp {
    /// Creates the time stamp of a time in nanoseconds since 1970, of the clock of the format. NTP's is
    /// rounded to its nearest fraction, a quarter of a nanosecond.
    pub fn new(format: Format, time_ns: i64) -> Self {
        let (seconds, ns) = (time_ns.div_euclid(NS_PER_S), time_ns.rem_euclid(NS_PER_S) as u64);
        let (seconds, fraction) = match format {
            // A rounded fraction is below 2^32: the last nanosecond is further away than one fraction.
            Format::Ntp => {
                let fraction = ((ns << 32) + NS_PER_S as u64 / 2) / NS_PER_S as u64;
                (seconds.wrapping_add(NTP_TO_UNIX_S), fraction)
            }
            Format::Ptp => (seconds, ns),
        };
        // The era is omitted on the wire.
        Timestamp((u64::from(seconds as u32) << 32 | fraction).to_be_bytes())
    }

    /// Returns the time in nanoseconds since 1970. The wire format is modulo 136 years: the time nearest to
    /// `near_ns` is returned. `None`: invalid fraction.
    pub fn time_ns(self, format: Format, near_ns: i64) -> Option<i64> {
        let [a, b, c, d, e, f, g, h] = self.0;
        let seconds = u32::from_be_bytes([a, b, c, d]);
        let fraction = u64::from(u32::from_be_bytes([e, f, g, h]));
        let (epoch_s, ns) = match format {
            Format::Ntp => (NTP_TO_UNIX_S, (fraction * NS_PER_S as u64 + (1 << 31)) >> 32),
            Format::Ptp => (0, fraction),
        };
        // NTP's largest fraction rounds up to a whole second.
        if ns > NS_PER_S as u64 || (format == Format::Ptp && ns == NS_PER_S as u64) {
            return None;
        }
        let near_s = near_ns.div_euclid(NS_PER_S) + epoch_s;
        let ahead = seconds.wrapping_sub(near_s as u32) as i32;
        (near_s + i64::from(ahead) - epoch_s).checked_mul(NS_PER_S)?.checked_add(ns as i64)
    }
}

/// The error of a packet's time stamps, and their format (RFC 4656 4.1.2, RFC 8762 4.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// Whether the clock is synchronized to UTC by an external source.
    pub synchronized: bool,
    /// The format of the packet's time stamps.
    pub format: Format,
    /// Scale, `0..=63`.
    pub scale: u8,
    /// Multiplier, not 0: the error is multiplier · 2^scale / 2^32 seconds.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// Returns the smallest estimate that covers an error in nanoseconds.
    pub fn of(error_ns: u64, synchronized: bool, format: Format) -> Self {
        let mut units = ((u128::from(error_ns) << 32).div_ceil(NS_PER_S as u128)).max(1);
        let mut scale = 0;
        while units > 255 {
            units = units.div_ceil(2);
            scale += 1;
        }
        ErrorEstimate { synchronized, format, scale, multiplier: units as u8 }
    }

    /// Returns the error in nanoseconds, rounded up; `None`: the multiplier is 0, an invalid estimate.
    pub fn error_ns(&self) -> Option<u64> {
        let units = u128::from(self.multiplier) << self.scale;
        let error = (units * NS_PER_S as u128).div_ceil(1 << 32);
        (self.multiplier != 0).then_some(u64::try_from(error).unwrap_or(u64::MAX))
    }

    fn parse([first, multiplier]: [u8; 2]) -> Self {
        ErrorEstimate {
            synchronized: first & 0x80 != 0,
            format: if first & 0x40 == 0 { Format::Ntp } else { Format::Ptp },
            scale: first & 0x3f,
            multiplier,
        }
    }

    fn emit(&self) -> Result<[u8; 2], EmitError> {
        EmitError::check("scale of the error estimate", self.scale.into(), 63)?;
        let flags = u8::from(self.synchronized) << 7 | u8::from(self.format == Format::Ptp) << 6;
        Ok([flags | self.scale, self.multiplier])
    }
}

impl fmt::Display for ErrorEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error_ns() {
            Some(error) => write!(f, "±{error} ns")?,
            None => f.write_str("of unknown error")?,
        }
        f.write_str(if self.synchronized { " to UTC" } else { ", not synchronized" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn times_there_and_back() {
        // 2036-02-07 06:28:16 UTC, when NTP's seconds wrap around.
        let era = 2_085_978_496 * NS_PER_S;
        for time in [0, 1, 999_999_999, 1_767_323_045_123_456_789, era - 1, era, era + 1] {
            for format in [Format::Ntp, Format::Ptp] {
                for away in [-60 * 365 * 86_400 * NS_PER_S, 0, 60 * 365 * 86_400 * NS_PER_S] {
                    let stamp = Timestamp::new(format, time);
                    assert_eq!(stamp.time_ns(format, time + away), Some(time), "{format:?}");
                }
            }
        }
    }

    #[test]
    fn known_stamps() {
        // RFC 868 and RFC 5905: 1970-01-01 is 2,208,988,800 s after 1900.
        let half = Timestamp([0x83, 0xaa, 0x7e, 0x80, 0x80, 0, 0, 0]);
        assert_eq!(Timestamp::new(Format::Ntp, 500_000_000), half);
        assert_eq!(Timestamp::new(Format::Ptp, 3 * NS_PER_S + 7).0, [0, 0, 0, 3, 0, 0, 0, 7]);
        let all = Timestamp([0xff; 8]);
        assert_eq!(all.time_ns(Format::Ptp, 0), None, "more nanoseconds than a second has");
        assert!(all.time_ns(Format::Ntp, 0).is_some());
    }

    #[test]
    fn errors_are_covered() {
        for error in [0, 1, 59, 60, 1000, 17_468, 1_000_000_000, u64::MAX] {
            let estimate = ErrorEstimate::of(error, false, Format::Ntp);
            let covered = estimate.error_ns().unwrap();
            assert!(covered >= error, "{error}");
            assert!(covered <= error.saturating_add(error / 64 + 2), "{error} {covered}");
        }
        assert_eq!(ErrorEstimate::parse([0, 0]).error_ns(), None);
        assert_eq!(ErrorEstimate::parse([0xff, 0xff]).error_ns(), Some(u64::MAX));
    }

    #[test]
    fn shows() {
        let estimate = ErrorEstimate::of(1000, true, Format::Ptp);
        assert_eq!(estimate.to_string(), "±1006 ns to UTC");
        let none = ErrorEstimate { synchronized: false, multiplier: 0, ..estimate };
        assert_eq!(none.to_string(), "of unknown error, not synchronized");
        assert!(ErrorEstimate { scale: 64, ..estimate }.emit().is_err());
    }
}

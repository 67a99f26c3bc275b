//! Values of options.

use std::num::NonZeroU32;
use std::time::Duration;

/// A time with its unit: `5ms`, `250us`, `1h`.
///
/// # Errors
/// How it is written.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u32 =
        number.parse().map_err(|_| "a whole number and its unit: 250us".to_owned())?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err("a whole number of us, ms, s, min or h: 250us".into()),
    };
    Ok(unit * number)
}

/// What `--sample N` takes.
///
/// # Errors
/// The range.
pub fn one_in(text: &str) -> std::result::Result<NonZeroU32, String> {
    const MOST: u32 = 1000;
    match text.parse() {
        Ok(n @ 2..=MOST) => Ok(NonZeroU32::new(n).expect("it is at least 2")),
        _ => Err(format!(
            "give a whole number from 2 to {MOST}: packets are sampled for one N-th of the time"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("250us", 250e-6), ("5ms", 5e-3), ("7s", 7.0), ("2min", 120.0)] {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        // The longest there is is no overflow.
        let longest = duration("4294967295h").unwrap();
        assert_eq!(longest.as_secs(), u64::from(u32::MAX) * 3600);
        for text in ["", "5", "s", "1.5s", "-1s", "5m", "1d", "4294967296s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

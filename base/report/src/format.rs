//! Formatting and parsing of numbers for people.

use std::time::Duration;

use crate::number::Number;

/// Formats an integer with thousands separators: `1,234,567`.
pub fn integer(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    text.push_str(&grouped(&digits));
    text
}

/// Formats a count with a noun in singular or plural: `1 stream`, `0 entries`, `1,234 losses`.
pub fn count(number: u64, noun: &str) -> String {
    let number_text = grouped(&number.to_string());
    if number == 1 {
        return format!("{number_text} {noun}");
    }
    let before_y = noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o', 'u']));
    let plural = match before_y {
        Some(stem) => format!("{stem}ies"),
        None if noun.ends_with(['s', 'x']) || noun.ends_with("ch") => format!("{noun}es"),
        None => format!("{noun}s"),
    };
    format!("{number_text} {plural}")
}

/// Formats a part of a count: `1 of 1 stream`, `280 of 1,300 packets`.
pub fn count_of(part: u64, whole: u64, noun: &str) -> String {
    format!("{} of {}", grouped(&part.to_string()), count(whole, noun))
}

/// Formats a float with four significant digits and thousands separators: `1,234`, `12.34`, `0.001234`.
pub fn float(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let decimals = (3 - magnitude(value, 4)).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    let (sign, digits) = sign_and_digits(&text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", grouped(whole))
}

/// Formats a time with three significant digits in a suitable unit: `850 ns`, `12.3 µs`, `1.50 s`.
pub fn duration_ns(ns: f64) -> String {
    if !ns.is_finite() {
        return "–".into();
    }
    if ns == 0.0 {
        return "0 ns".into();
    }
    // Rounded first, so that 999.96 µs becomes 1.00 ms instead of 1000 µs.
    let exponent = magnitude(ns, 3);
    let (scale, unit) = match exponent {
        ..3 => (1.0, "ns"),
        3..6 => (1e3, "µs"),
        6..9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns / scale;
    let decimals = (2 - magnitude(value, 3)).clamp(0, 2) as usize;
    let text = format!("{value:.decimals$}");
    // Clocks count whole nanoseconds: 850 ns instead of 850.00 ns.
    let whole = unit == "ns" && ns.fract() == 0.0;
    let text = if whole { format!("{ns:.0}") } else { text };
    let (sign, digits) = sign_and_digits(&text);
    let (before, after) = digits.split_once('.').map_or((digits, None), |(a, b)| (a, Some(b)));
    let after = after.map_or(String::new(), |after| format!(".{after}"));
    format!("{sign}{}{after} {unit}", grouped(before))
}

/// Formats a share as a percentage: `92.4 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".into();
    }
    let text = format!("{:.1}", share * 100.0);
    let (sign, digits) = sign_and_digits(&text);
    format!("{sign}{digits} %")
}

/// Formats a number with its unit. Times are written in a suitable unit; a missing number is `–`.
pub fn quantity(value: Number, unit: &str) -> String {
    let number = value.as_f64();
    if !number.is_finite() {
        return "–".into();
    }
    match unit {
        "ns" => duration_ns(number),
        "us" | "µs" => duration_ns(number * 1e3),
        "ms" => duration_ns(number * 1e6),
        "s" => duration_ns(number * 1e9),
        "" | "1" => plain(value),
        "%" | "percent" => format!("{} %", plain(value)),
        _ => format!("{} {unit}", plain(value)),
    }
}

fn plain(value: Number) -> String {
    match value {
        Number::Integer(value) => integer(value),
        Number::Float(value) => float(value),
    }
}

/// Returns the decimal exponent of `value`, rounded to `digits` significant digits.
fn magnitude(value: f64, digits: usize) -> i32 {
    let text = format!("{:.*e}", digits - 1, value.abs());
    text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0)
}

/// Splits off the sign. A number that is rounded to zero has none.
fn sign_and_digits(text: &str) -> (&str, &str) {
    match text.strip_prefix('-') {
        Some(digits) if digits.contains(|digit| matches!(digit, '1'..='9')) => ("-", digits),
        Some(digits) => ("", digits),
        None => ("", text),
    }
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Escapes text for HTML and XML.
#[must_use]
pub fn markup(text: &str) -> String {
    crate::svg::escape(text)
}

/// Parses a time, a whole number with its unit: `5ms`, `250us`, `1h`.
///
/// # Errors
/// The required form.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u32 =
        number.parse().map_err(|_| "use a whole number and its unit, such as 250us".to_owned())?;
    let unit = match unit {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        "min" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err("use a whole number of us, ms, s, min or h, such as 250us".into()),
    };
    Ok(unit * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_singular_and_plural() {
        for (number, noun, text) in [
            (0, "stream", "0 streams"),
            (1, "stream", "1 stream"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (3, "delay", "3 delays"),
            (4, "process", "4 processes"),
            (1234, "lost frame", "1,234 lost frames"),
        ] {
            assert_eq!(count(number, noun), text);
        }
        assert_eq!(count_of(1, 1, "stream"), "1 of 1 stream");
        assert_eq!(count_of(1280, 1300, "packet"), "1,280 of 1,300 packets");
    }

    #[test]
    fn integers() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (-1_234_567, "-1,234,567"),
            (i64::MIN, "-9,223,372,036,854,775,808"),
        ] {
            assert_eq!(integer(value), text);
        }
    }

    #[test]
    fn floats() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (0.912_34, "0.9123"),
            (1234.56, "1,235"),
            (1_234_567.8, "1,234,568"),
            (-0.001_234_56, "-0.001235"),
            (9999.9, "10,000"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn durations_change_their_unit_after_rounding() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (0.5, "0.50 ns"),
            (850.0, "850 ns"),
            (999.0, "999 ns"),
            (999.6, "1.00 µs"),
            (1000.0, "1.00 µs"),
            (12_345.0, "12.3 µs"),
            (999_949.0, "1.00 ms"),
            (999_400.0, "999 µs"),
            (1.5e9, "1.50 s"),
            (6e13, "60,000 s"),
            (-12_345.0, "-12.3 µs"),
        ] {
            assert_eq!(duration_ns(ns), text);
        }
    }

    #[test]
    fn zero_has_no_sign_and_a_missing_number_is_a_dash() {
        for tiny in [0.0, -0.0, -1e-14, -f64::MIN_POSITIVE] {
            assert_eq!(percent(tiny), "0.0 %");
            assert!(!float(tiny).contains('-'), "{}", float(tiny));
            assert!(!duration_ns(tiny).contains('-'), "{}", duration_ns(tiny));
            for unit in ["ns", "us", "ms", "s", "", "1", "%", "percent", "frames"] {
                let text = quantity(tiny.into(), unit);
                assert!(!text.contains('-'), "{tiny}: {text}");
            }
        }
        assert_eq!(percent(-0.000_49), "0.0 %");
        assert_eq!(percent(-0.001), "-0.1 %");
        for missing in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(percent(missing), "–");
            assert_eq!(float(missing), "–");
            assert_eq!(duration_ns(missing), "–");
            assert_eq!(quantity(Number::Float(missing), "%"), "–");
            assert_eq!(quantity(Number::Float(missing), "frames"), "–");
        }
    }

    #[test]
    fn quantities() {
        assert_eq!(quantity(1500_u64.into(), "ns"), "1.50 µs");
        assert_eq!(quantity(3_u64.into(), "s"), "3.00 s");
        assert_eq!(quantity(1_240_000.4.into(), "frames/s"), "1,240,000 frames/s");
        assert_eq!(quantity(7_u64.into(), ""), "7");
        assert_eq!(quantity(Number::MISSING, "ns"), "–");
        assert_eq!(percent(0.9236), "92.4 %");
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("250us", 250e-6), ("5ms", 5e-3), ("7s", 7.0), ("2min", 120.0)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        // The longest time does not overflow.
        let longest = parse_duration("4294967295h").unwrap();
        assert_eq!(longest.as_secs(), u64::from(u32::MAX) * 3600);
        for text in ["", "5", "s", "1.5s", "-1s", "5m", "1d", "4294967296s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}

//! Points in time as RFC 3339 text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats `time` in UTC to the second as in RFC 3339: `2025-01-31T12:00:00Z`. A time before 1970 is written
/// as 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut days, second_of_day) = (seconds / 86_400, seconds % 86_400);

    let mut year = 1970;
    while days >= days_of_year(year) {
        days -= days_of_year(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) =
        (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

/// Formats like [`rfc3339`], to the microsecond: `2025-01-31T12:00:00.000001Z`. All such texts have the same
/// length, so that they sort by time.
pub fn rfc3339_us(time: SystemTime) -> String {
    let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_micros());
    let seconds = rfc3339(time);
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

fn is_leap(year: u64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn microseconds_have_six_digits() {
        let time = UNIX_EPOCH + Duration::new(951_782_399, 42_999);
        assert_eq!(rfc3339_us(time), "2000-02-28T23:59:59.000042Z");
    }
}

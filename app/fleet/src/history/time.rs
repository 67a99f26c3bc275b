//! Times of files and options: UTC.

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Parses `2026-11-30`, `2026-11-30T12`, `2026-11-30T12:30`, `2026-11-30T12:30:15Z`; returns Unix milliseconds.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    let invalid = || "use a time in UTC such as 2026-11-30T12:30".to_owned();
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once('T').unwrap_or((text, ""));
    let days = days(date).ok_or_else(invalid)?;
    let mut parts = if clock.is_empty() { vec![] } else { clock.split(':').collect::<Vec<_>>() };
    if parts.len() > 3 {
        return Err(invalid());
    }
    parts.resize(3, "00");
    let mut seconds = 0;
    for (part, most) in parts.iter().zip([23, 59, 59]) {
        let number = two_digits(part).filter(|number| *number <= most).ok_or_else(invalid)?;
        seconds = seconds * 60 + number;
    }
    Ok(days * DAY_MS + seconds * 1000)
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2 && text.bytes().all(|octet| octet.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; `None`: no such date.
pub(super) fn days(date: &str) -> Option<i64> {
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts[..] else { return None };
    let year: i64 = (year.len() == 4).then(|| year.parse().ok())??;
    let (month, day) = (two_digits(month)?, two_digits(day)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    let number = from_civil(year, month, day);
    let next =
        if month == 12 { from_civil(year + 1, 1, 1) } else { from_civil(year, month + 1, 1) };
    (day >= 1 && number < next).then_some(number)
}

/// The year starts in March here, so that the leap day is its last.
fn from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let (of_era, of_year) = (year.rem_euclid(400), (153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_another_implementation() {
        // date -u -d TEXT +%s
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("2026-11-30T12", 1_796_040_000),
            ("2026-11-30T12:30", 1_796_041_800),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(parse(text), Ok(seconds * 1000), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-11-31",
            "2026-02-29",
            "2026-13-01",
            "2026-11-30T24",
            "2026-11-30T1:1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! Parsers of option values.

use std::num::NonZeroU32;

/// Parses the value of `--sample N`.
///
/// # Errors
/// The value is out of range.
pub fn parse_sample_ratio(text: &str) -> std::result::Result<NonZeroU32, String> {
    const MOST: u32 = 1000;
    match text.parse() {
        Ok(n @ 2..=MOST) => Ok(NonZeroU32::new(n).expect("it is at least 2")),
        _ => {
            Err(format!("use an integer from 2 to {MOST}: packets are sampled for 1/N of the time"))
        }
    }
}

//! Values of options.

use std::num::NonZeroU32;

/// What `--sample N` takes.
///
/// # Errors
/// The range.
pub fn parse_sample_ratio(text: &str) -> std::result::Result<NonZeroU32, String> {
    const MOST: u32 = 1000;
    match text.parse() {
        Ok(n @ 2..=MOST) => Ok(NonZeroU32::new(n).expect("it is at least 2")),
        _ => Err(format!(
            "give a whole number from 2 to {MOST}: packets are sampled for one N-th of the time"
        )),
    }
}

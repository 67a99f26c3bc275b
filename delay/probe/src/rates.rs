//! Packet rates, as options of `onbeat delay ping` and `onbeat load net`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use onbeat_delay::probe::{Profile, ProfileSegment};
use onbeat_host::file;

/// Maximum length of a profile file in octets.
const PROFILE: u64 = 1 << 20;

fn is_file(profile: &str) -> bool {
    fs::metadata(profile).is_ok_and(|file| file.is_file())
}

/// Returns name and content of a profile file; `None` for a profile on the command line.
pub fn profile_file(profile: &str) -> Option<(&str, String)> {
    let content = is_file(profile).then(|| file::read_text(Path::new(profile), PROFILE).ok())?;
    Some((profile, content?))
}

/// Parses a profile on the command line or in a file; without one, returns a constant rate for a limited or
/// unlimited time.
///
/// # Errors
/// An error message with the option, for the user.
pub fn rates(
    profile: Option<&str>,
    rate: f64,
    length: Option<Duration>,
) -> Result<Profile, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("--profile: {error}");
    match profile {
        Some(text) if is_file(text) => {
            let text = file::read_text(Path::new(text), PROFILE).map_err(|error| wrong(&error))?;
            text.parse().map_err(|error| wrong(&error))
        }
        Some(text) => text.parse().map_err(|error| wrong(&error)),
        None if rate > 0.0 && rate <= 1e7 => {
            let length_ns = length.map(|length| i64::try_from(length.as_nanos()));
            let length_ns = length_ns.and_then(std::result::Result::ok).unwrap_or(i64::MAX);
            Ok(Profile::new(vec![ProfileSegment::constant(rate, length_ns)]))
        }
        None => Err("--rate: must be above 0, and at most 10,000,000 packets/s".to_owned()),
    }
}

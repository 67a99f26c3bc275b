//! Rates of what is sent, as `onbeat delay ping` and `onbeat load net` take them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use onbeat_delay::probe::{Profile, ProfileSegment};
use onbeat_host::file;

/// Octets of a profile at most.
const PROFILE: u64 = 1 << 20;

fn is_file(profile: &str) -> bool {
    fs::metadata(profile).is_ok_and(|file| file.is_file())
}

/// Name and content of a profile's file; `None` where the profile is on the command line.
pub fn profile_file(profile: &str) -> Option<(&str, String)> {
    let content = is_file(profile).then(|| file::read_text(Path::new(profile), PROFILE).ok())?;
    Some((profile, content?))
}

/// A profile as it stands on the command line or in a file; without one, a constant rate for a time or
/// for ever.
///
/// # Errors
/// With the option that is wrong, for the user.
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
        None => Err("--rate: more than 0, and 10,000,000 a second at most".to_owned()),
    }
}

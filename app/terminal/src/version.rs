//! The version of the programs and the commit of their sources.

use std::sync::LazyLock;

/// Version of the programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit of the sources: hexadecimal digits, and `-dirty` if the sources differ from it. `None` if it
/// was unknown at build time: sources without a repository and not from `git archive`.
pub const COMMIT: Option<&str> = option_env!("ONBEAT_COMMIT");

/// Number of digits of a short commit.
const SHORT: usize = 12;

/// Version and short commit, as `--version` prints them: `0.1.0 (c9f3a56b1234)`.
#[must_use]
pub fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| line_of(VERSION, COMMIT));
    &LINE
}

fn line_of(version: &str, commit: Option<&str>) -> String {
    let Some(commit) = commit else { return version.to_owned() };
    let (hash, dirty) = commit.split_at(commit.find('-').unwrap_or(commit.len()));
    format!("{version} ({hash:.SHORT$}{dirty})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_form_keeps_the_dirty_suffix() {
        let hash = "c9f3a56b12345678901234567890123456789012";
        assert_eq!(line_of("0.1.0", None), "0.1.0");
        assert_eq!(line_of("0.1.0", Some(hash)), "0.1.0 (c9f3a56b1234)");
        let dirty = format!("{hash}-dirty");
        assert_eq!(line_of("0.1.0", Some(&dirty)), "0.1.0 (c9f3a56b1234-dirty)");
    }
}

//! A foreign judge of manual pages: mandoc.

use std::path::Path;
use std::process::Command;

use crate::require_that;

/// The faults that mandoc finds in pages; none where mandoc is not installed.
///
/// # Panics
/// mandoc prints no text.
pub fn faults_of_manual_pages(pages: &[impl AsRef<Path>]) -> Vec<String> {
    let mut mandoc = Command::new("mandoc");
    mandoc.args(["-Tlint", "-Wwarning"]).args(pages.iter().map(AsRef::as_ref));
    let checked = mandoc.output();
    if !require_that(checked.is_ok(), "mandoc (apt-get install mandoc)") {
        return Vec::new();
    }
    let report = String::from_utf8(checked.expect("it is there").stdout).expect("text");
    // The pages of a version are the same whenever they are made, so they have no date.
    report.lines().filter(|line| !line.contains("missing date")).map(str::to_owned).collect()
}

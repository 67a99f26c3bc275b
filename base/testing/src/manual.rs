//! An independent check of manual pages: mandoc.

use std::path::Path;
use std::process::Command;

use crate::require_that;

/// Returns the findings of mandoc; none if mandoc is not installed.
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
    // The pages of a version are the same whenever they are generated, so they have no date.
    report.lines().filter(|line| !line.contains("missing date")).map(str::to_owned).collect()
}

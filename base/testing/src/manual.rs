//! An independent check of manual pages, by mandoc, and of the paths in them.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{require_that, root};

/// Where packages install documents and examples.
const DOCUMENTS: &str = "/usr/share/doc/onbeat/";

/// Returns the paths of documents and examples in manual pages that are not installed: those of the sources, and
/// those of no file.
///
/// # Panics
/// A page cannot be read.
pub fn missing_documents(pages: &[impl AsRef<Path>]) -> Vec<String> {
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(page).expect("a page").replace("\\-", "-");
        let words = text.split(|c: char| c.is_whitespace() || "()".contains(c));
        missing.extend(words.map(|word| word.trim_end_matches(['.', ',', ';'])).filter_map(
            |word| {
                let is_missing = match word.strip_prefix(DOCUMENTS) {
                    Some(path) => !root().join(path).is_file(),
                    None => word.starts_with("examples/") || word.starts_with("docs/"),
                };
                is_missing.then(|| format!("{}: {word}", page.as_ref().display()))
            },
        ));
    }
    missing
}

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

/// Returns manual pages that docs/reference/commands.md does not link: `make book` adds them as HTML.
///
/// # Panics
/// The document cannot be read.
pub fn pages_without_a_link(pages: &[impl AsRef<Path>]) -> Vec<String> {
    let document = root().join("docs/reference/commands.md");
    let document = fs::read_to_string(document).expect("the document");
    let names = pages.iter().filter_map(|page| page.as_ref().file_name()?.to_str());
    let missing = names.filter(|name| !document.contains(&format!("(../{name}.html)")));
    missing.map(str::to_owned).collect()
}

//! Passes the commit of the sources to the crate as `ONBEAT_COMMIT`, if it is known.

mod commit;

use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build");
    for path in commit::inputs(&root) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    if let Some(commit) = commit::of_sources(&root) {
        println!("cargo::rustc-env=ONBEAT_COMMIT={commit}");
    }
}

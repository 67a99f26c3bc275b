//! Every broken configuration under tests/errors/ and the exact report it gets.
//!
//! `REGENERATE=1 cargo test -p onbeat-node --test config_errors` writes the reports anew; read the
//! difference before you commit it.

use std::fs;
use std::path::Path;

use onbeat_node::config::Config;

#[test]
fn every_broken_configuration_gets_its_report() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let regenerate = std::env::var_os("REGENERATE").is_some();
    let mut cases = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        cases += 1;
        let text = fs::read_to_string(&path).unwrap();
        let file = path.file_name().unwrap().to_str().unwrap();
        let report = match Config::parse(&text, file) {
            Ok(_) => panic!("{file} is accepted"),
            Err(error) => format!("{error}\n"),
        };
        let expected = path.with_extension("txt");
        if regenerate {
            fs::write(&expected, report).unwrap();
        } else if fs::read_to_string(&expected).ok().as_ref() != Some(&report) {
            wrong.push(format!("{file}:\n{report}"));
        }
    }
    assert!(cases >= 40, "only {cases} cases in {}", folder.display());
    assert!(
        wrong.is_empty(),
        "{} reports differ; they are now:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

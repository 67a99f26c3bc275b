//! Every broken configuration under tests/errors/ and the exact report it gets; every one under
//! tests/warnings/, which are legal and known traps, and the exact warnings.
//!
//! DIRECTORY in a configuration is a directory that only root or its owner can write to, with a
//! symbolic link "link" to itself.
//!
//! `REGENERATE=1 cargo test -p onbeat-node config_errors` writes the reports again; read the
//! difference before you commit it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use onbeat_node::config::Config;
use onbeat_testing::TemporaryDirectory;

/// Compares the report of each configuration in a folder with the one beside it; how many there are.
fn compare(folder: &str, report: impl Fn(&str, &str) -> String) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
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
        let report = report(&text, file) + "\n";
        let expected = path.with_extension("txt");
        if regenerate {
            fs::write(&expected, report).unwrap();
        } else if fs::read_to_string(&expected).ok().as_ref() != Some(&report) {
            wrong.push(format!("{file}:\n{report}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} reports differ; they are now:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    cases
}

#[test]
fn every_broken_configuration_gets_its_report() {
    let directory = TemporaryDirectory::new("config-errors");
    symlink(directory.path(), directory.file("link")).unwrap();
    let path = directory.path().to_str().unwrap();
    // Carets below a path are as many as its characters.
    let longer = "^".repeat(path.len() - "DIRECTORY".len());
    let cases = compare("errors", |text, file| {
        let named = text.contains("DIRECTORY");
        let text = text.replace("DIRECTORY", path);
        let error = match Config::parse(&text, file) {
            Ok(config) => config.check_control().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let report = error.expect_err(&format!("{file} is accepted"));
        let report = report.replace(path, "DIRECTORY");
        if named { report.replacen(&longer, "", 1) } else { report }
    });
    assert!(cases >= 40, "only {cases} cases");
}

#[test]
fn every_trap_gets_its_warning() {
    let cases = compare("warnings", |text, file| {
        let config = Config::parse(text, file).unwrap_or_else(|error| panic!("{error}"));
        let warnings = config.check(|_| None).unwrap_or_else(|error| panic!("{error}"));
        assert!(warnings.count() > 0, "{file} is no trap");
        warnings.to_string()
    });
    assert!(cases >= 8, "only {cases} cases");
}

#[test]
fn a_log_has_a_warning_in_a_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/warnings/several.toml");
    let config = Config::load(&path).unwrap();
    let warnings = config.check(|_| None).unwrap();
    let place = |rest: &str| format!("{}:{rest}", path.display());
    let lines: Vec<String> = warnings.lines().collect();
    assert_eq!(lines.len(), warnings.count());
    assert!(lines[0].starts_with(&place("9:11: stream[\"back\"].recover: ")), "{}", lines[0]);
    assert!(lines[3].ends_with("; set algorithm = \"match\""), "{}", lines[3]);
    assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:?}");
}

#[test]
fn what_has_faults_is_not_warned_of() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/warnings/several.toml");
    let text = fs::read_to_string(path).unwrap() + "\n[[strem]]\n";
    let error = Config::parse(&text, "a.toml").unwrap_err();
    assert_eq!(error.count(), 1);
    assert!(!error.to_string().contains("warning"), "{error}");
}

#[test]
fn what_is_no_trap_is_not_warned_of() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/warnings/several.toml");
    let traps = fs::read_to_string(path).unwrap();
    let config = Config::parse(&traps, "a.toml").unwrap();
    assert!(config.check(|_| None).unwrap().count() > 0);
    let sound = traps
        .replace("individual = {}", "individual = { algorithm = \"match\" }")
        .replace("{ reset-timeout-ms = 0 }", "{ history-length = 3, reset-timeout-ms = 1 }")
        .replace("mtu = 1400", "mtu = 1500");
    let matching = sound.replace(
        "{ history-length = 3, reset-timeout-ms = 1 }",
        "{ algorithm = \"match\", reset-timeout-ms = 0 }",
    );
    for text in [sound, matching] {
        let config = Config::parse(&text, "a.toml").unwrap();
        assert_eq!(config.check(|_| None).unwrap().to_string(), "");
    }
}

//! Every broken configuration under tests/errors/ and the exact report it gets; every one under
//! tests/warnings/, which are legal and known traps, and the exact warnings.
//!
//! DIRECTORY in a configuration is a directory that only root or its owner can write to, with a
//! symbolic link "link" to itself.
//!
//! `REGENERATE=1 cargo test -p onbeat-node config_errors` writes the reports again; read the
//! difference before you commit it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use onbeat_node::config::Config;
use onbeat_testing::{TemporaryDirectory, root};

/// Compares the report of each configuration in a directory with the one beside it; returns their number.
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

fn reference() -> String {
    fs::read_to_string(root().join("examples/reference.toml")).unwrap()
}

/// The keys before an equals sign, each with its end in the text.
fn keys(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    text.match_indices(" = ").filter_map(move |(end, _)| {
        let line = &text[text[..end].rfind('\n').map_or(0, |at| at + 1)..end];
        let key = &line[line.rfind(|c| !is_key(c)).map_or(0, |at| at + 1)..];
        (!line.contains('#')).then_some((end, key))
    })
}

/// A misspelled key has no further consequence, such as a missing key or a value without its mask.
#[test]
fn a_misspelled_key_is_one_error() {
    let text = reference();
    let mut misspelled: Vec<(String, String)> = keys(&text)
        .map(|(end, key)| {
            let last = &key[key.len() - 1..];
            (key.to_owned(), format!("{}{last}{}", &text[..end], &text[end..]))
        })
        .collect();
    for table in ["node", "node.events", "guard", "guard.budget", "port", "stream", "stream.member"]
        .into_iter()
        .chain(["stream.member.identify", "stream.egress", "stream.recover.latent-error"])
    {
        let last = &table[table.len() - 1..];
        let line = |line: &str| match line.trim_start_matches('[').strip_prefix(table) {
            Some(rest) if line.starts_with('[') && rest.starts_with(['.', ']']) => {
                let start = line.len() - rest.len();
                format!("{}{last}{rest}\n", &line[..start])
            }
            _ => format!("{line}\n"),
        };
        let key = table.rsplit('.').next().unwrap();
        misspelled.push((key.to_owned(), text.lines().map(line).collect()));
    }
    assert!(misspelled.len() > 150, "{}", misspelled.len());
    for (key, text) in misspelled {
        let error = Config::parse(&text, "a.toml").unwrap_err();
        assert_eq!(error.count(), 1, "{key}: {error}");
        let report = error.to_string();
        assert!(report.ends_with(&format!("did you mean {key}?")), "{report}");
    }
}

#[test]
fn all_misspelled_keys_are_reported() {
    let text = reference().replace("[port]", "[prot]").replace("mtu =", "mut =");
    let report = Config::parse(&text, "a.toml").unwrap_err().to_string();
    assert_eq!(report.matches("did you mean ").count(), 3, "{report}");
    assert!(report.ends_with("a.toml: 3 errors"), "{report}");
}

#[test]
fn each_key_has_a_broken_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let mut broken = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let report = fs::read_to_string(path).unwrap();
            // FILE:LINE:COLUMN: KEY: message
            let keys = report.lines().filter_map(|line| line.split(": ").nth(1));
            let last = keys.filter_map(|path| path.rsplit('.').next());
            broken.extend(last.filter_map(|key| key.split('[').next().map(str::to_owned)));
        }
    }
    let text = reference();
    let missing: BTreeSet<_> =
        keys(&text).map(|(_, key)| key).filter(|key| !broken.contains(*key)).collect();
    assert_eq!(missing, BTreeSet::new(), "add a broken example for each of these keys");
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

//! `onbeat run --check`: requires only the file, no root; reads the interfaces that exist.

use std::path::{Path, PathBuf};

use crate::common::run;
use onbeat_testing::{CommandOutput, TemporaryDirectory, root};

fn configurations(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(below).expect("a directory") {
        let path = entry.expect("an entry").path();
        // Other examples: networks, loads, buses.
        if ["lab", "load", "powerlink"].iter().any(|of| path.ends_with(format!("examples/{of}"))) {
            continue;
        }
        if path.is_dir() {
            configurations(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

fn check(file: &Path) -> CommandOutput {
    run(&["run", "--check", file.to_str().expect("a path that is text")])
}

#[test]
fn every_example_is_valid() {
    let mut examples = Vec::new();
    configurations(&root().join("examples"), &mut examples);
    assert!(examples.len() >= 11, "{examples:?}");
    let directory = TemporaryDirectory::new("check-examples");
    for file in examples {
        // Networks are no nodes: plan.rs.
        if file.parent().is_some_and(|directory| directory.ends_with("plan")) {
            continue;
        }
        // A copy, as another user may own the sources, without the interfaces of this host.
        let copy = directory.file("example.toml");
        let text = std::fs::read_to_string(&file).expect("the file");
        std::fs::write(&copy, text.replace("\"eth", "\"absent")).expect("a copy");
        let CommandOutput { code, out, err } = check(&copy);
        assert_eq!((code, err.as_str()), (0, ""), "{}", file.display());
        assert!(out.starts_with("node ") && out.contains("\n  port "), "{out}");
        let has_streams = text.contains("[[stream]]");
        assert!(!has_streams || out.contains("\n  stream ") && out.contains(" -> "), "{out}");
        assert!(out.lines().count() < 100, "short, however many streams: {out}");
    }
}

#[test]
fn an_error_shows_its_line() {
    let directory = TemporaryDirectory::new("check");
    let file = directory.file("broken.toml");
    let text = "[[port]]\nname = \"a\"\ninterface = \"eth0\"\nmodee = \"native\"\n\n[[strem]]\n";
    std::fs::write(&file, text).expect("a file");
    let CommandOutput { code, out, err } = check(&file);
    assert_eq!((code, out.as_str()), (2, ""));
    let place = |line| format!("{}:{line}:", file.display());
    assert!(err.starts_with(&format!("onbeat: {}", place(4))), "{err}");
    assert!(err.contains(&place(6)), "all faults at once: {err}");
    assert!(err.contains("did you mean mode?"), "{err}");
}

#[test]
fn a_warning_is_no_error() {
    let directory = TemporaryDirectory::new("check-trap");
    let file = directory.file("trap.toml");
    let text = r#"
[[port]]
name = "path1"
interface = "eth0"
mtu = 9000
[[port]]
name = "host"
interface = "eth1"
mtu = 1500
[[stream]]
name = "back"
member = [{ port = "path1", identify = { type = "null", destination = "01:00:5e:00:00:01" } }]
recover = {}
egress = [{ port = "host", tag = "none" }]
"#;
    std::fs::write(&file, text).expect("a file");
    let CommandOutput { code, out, err } = check(&file);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\n  stream back  path1 -> recover -> host\n"), "{out}");
    let place = |line| format!("{}:{line}: warning: ", file.display());
    assert!(err.starts_with(&format!("onbeat: {}", place("13:11"))), "{err}");
    assert!(err.contains(&format!("\n{}", place("14:11"))), "{err}");
    assert!(err.ends_with("trap.toml: 2 warnings\n"), "{err}");
}

#[test]
fn interfaces_that_do_not_exist_are_named_but_are_no_error() {
    let directory = TemporaryDirectory::new("check-absent");
    let file = directory.file("absent.toml");
    let text = r#"
port = [
  { name = "talker", interface = "absent0", create = "veth" },
  { name = "path1", interface = "absent1" },
  { name = "path2", interface = "lo" },
]
[guard]
interfaces = ["absent2", "absent1", "absent0", "lo"]
"#;
    std::fs::write(&file, text).expect("a file");
    let CommandOutput { code, out, err } = check(&file);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\n  guard: absent2, absent1, absent0, lo\n"), "{out}");
    let absent = "\n  interfaces that do not exist on this host: absent1, absent2\n";
    assert!(out.contains(absent), "without those that the node creates: {out}");
}

#[test]
fn an_mtu_that_is_too_small_in_the_file_is_refused() {
    let directory = TemporaryDirectory::new("check-mtu");
    let file = directory.file("narrow.toml");
    let text = r#"
port = [
  { name = "talker", interface = "eth0", mtu = 1500 },
  { name = "path1", interface = "eth1", mtu = 1500 },
]
[[stream]]
name = "there"
generate = true
member = [{ port = "talker", identify = { type = "null", destination = "01:00:5e:00:00:01" } }]
egress = [{ port = "path1", tag = "r-tag" }]
"#;
    std::fs::write(&file, text).expect("a file");
    let CommandOutput { code, out, err } = check(&file);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("set mtu = 1506 on port \"path1\""), "{err}");
}

/// The MTU that the file does not set is that of the interface, or of the veth pair that the node creates.
#[test]
fn an_mtu_that_is_too_small_on_this_host_is_refused() {
    let directory = TemporaryDirectory::new("check-host-mtu");
    let file = directory.file("narrow.toml");
    let check = |talker: &str| {
        let text = format!(
            r#"
port = [
  {{ name = "talker", interface = {talker} }},
  {{ name = "path1", interface = "not-here", mtu = 1500 }},
]
[[stream]]
name = "there"
generate = true
member = [{{ port = "talker", identify = {{ type = "null", destination = "01:00:5e:00:00:01" }} }}]
egress = [{{ port = "path1", tag = "r-tag" }}]
"#
        );
        std::fs::write(&file, text).expect("a file");
        check(&file)
    };
    for (talker, mtu) in [("\"lo\"", 65536), ("\"not-there\", create = \"veth\"", 1500)] {
        let CommandOutput { code, out, err } = check(talker);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        let needed = format!("frames from port \"talker\" (MTU {mtu}) require {}", mtu + 6);
        assert!(err.contains(&needed), "{err}");
    }
    assert_eq!(check("\"not-there\"").code, 0, "an interface of another machine");
}

#[test]
fn the_error_of_a_missing_file_names_it() {
    let CommandOutput { code, err, .. } = run(&["run", "--check", "/nowhere/a.toml"]);
    assert_eq!(code, 2);
    assert!(
        err.starts_with("onbeat: configuration file \"/nowhere/a.toml\" cannot be read"),
        "{err}"
    );
    assert_eq!(err.matches("No such file").count(), 1, "said once: {err}");
}

//! Configuration files of privileged commands: each command refuses files that another user could have
//! written, with the same message.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use crate::common::run;
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all, root};

const NETWORK: &str = "[network]\ncycle-us = 5000\n[managing]\ninterface = \"sx0\"\n[[node]]\nid = 3\n\
                       interface = \"sx0\"\n";

/// Files of root for each command.
struct Files {
    directory: TemporaryDirectory,
}

impl Files {
    fn new(name: &str) -> Self {
        let directory = TemporaryDirectory::new(name);
        for (file, text) in [
            ("node.toml", "[node]\nname = \"sx\"\n[[port]]\nname = \"p\"\ninterface = \"sx0\"\n"),
            ("guard.toml", "[guard]\ninterfaces = [\"sx0\"]\n"),
            ("bus.toml", NETWORK),
            ("streams.toml", ""),
            ("lab.toml", "[[host]]\nname = \"a\"\n"),
        ] {
            fs::write(directory.file(file), text).expect("a file");
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.file(name)
    }

    /// Runs a command line; names of files are replaced by their paths.
    fn run(&self, line: &str) -> CommandOutput {
        let path = |word: &str| {
            let is_file = word.ends_with(".toml");
            if is_file { self.path(word).display().to_string() } else { word.to_owned() }
        };
        let words: Vec<String> = line.split(' ').map(path).collect();
        run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

#[test]
fn each_command_refuses_files_that_another_user_could_have_written() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let files = Files::new("trust");
    for (line, file) in [
        ("run node.toml", "node.toml"),
        ("down node.toml", "node.toml"),
        ("irq guard guard.toml", "guard.toml"),
        ("powerlink mn bus.toml --seconds 1", "bus.toml"),
        ("powerlink cn bus.toml --node 3 --seconds 1", "bus.toml"),
        ("powerlink mn --check bus.toml", "bus.toml"),
        ("powerlink cn --check bus.toml --node 3", "bus.toml"),
        ("stream add streams.toml --node /nowhere/sx.sock", "streams.toml"),
        ("stream change streams.toml --node /nowhere/sx.sock", "streams.toml"),
        ("stream prove --file streams.toml --node /nowhere/sx.sock", "streams.toml"),
        ("lab shell lab.toml -- true", "lab.toml"),
    ] {
        let path = files.path(file);
        let refusal = format!("configuration file {path:?} is refused: ");
        let refused = |cause: &str| {
            let CommandOutput { code, out, err } = files.run(line);
            assert_eq!((code, out.as_str()), (2, ""), "{line}: {err}");
            assert!(err.contains(&refusal) && err.contains(cause), "{line}: {err}");
        };
        chown(&path, Some(65534), None).expect("another owner");
        refused("belongs to user 65534; copy it to a directory of root");
        chown(&path, Some(0), None).expect("the former owner");
        // As a file with an access control list that grants write permission shows.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("another mode");
        refused("(mode 0664); chmod go-w ");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("the former mode");
        // A guard would run until it is interrupted.
        if !line.starts_with("irq") {
            let CommandOutput { err, .. } = files.run(line);
            assert!(!err.contains("is refused"), "{line}: {err}");
        }
    }
}

#[test]
fn a_check_warns_of_files_that_another_user_could_have_written() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let files = Files::new("trust-check");
    for (line, file) in
        [("run --check node.toml", "node.toml"), ("irq guard --dry-run guard.toml", "guard.toml")]
    {
        let path = files.path(file);
        chown(&path, Some(65534), None).expect("another owner");
        let CommandOutput { code, err, .. } = files.run(line);
        let warning = format!(
            "onbeat: warning: a run would fail: configuration file {path:?} is refused: {path:?} \
             belongs to user 65534"
        );
        assert!(err.contains(&warning), "{line}: {err}");
        // There is no interface sx0 to preview.
        assert!(code == 0 || line.starts_with("irq"), "{line}: {err}");
        chown(&path, Some(0), None).expect("the former owner");
        let CommandOutput { err, .. } = files.run(line);
        assert!(!err.contains("is refused"), "{line}: {err}");
    }
}

/// A project of a configuration tool: both of its files, by options and by a network file.
#[test]
fn files_of_a_project_are_checked_as_well() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let files = Files::new("trust-project");
    let (cdc, xap) = (files.path("mnobd.cdc"), files.path("xap.xml"));
    // 1F81/01 = 0x80000007: one node without process data.
    let node = [1, 0, 0, 0, 0x81, 0x1f, 1, 4, 0, 0, 0, 7, 0, 0, 0x80];
    fs::write(&cdc, node).expect("a file");
    fs::write(&xap, "<a><ProcessImage type=\"input\"/></a>").expect("a file");
    let text = "[managing]\ncdc = \"mnobd.cdc\"\nxap = \"xap.xml\"\n";
    fs::write(files.path("bus.toml"), text).expect("a file");
    let options = format!("powerlink mn --cdc {} --xap {}", cdc.display(), xap.display());
    for line in [options, "powerlink mn bus.toml".to_owned()] {
        let check = || files.run(&format!("{line} --check"));
        let CommandOutput { code, err, .. } = check();
        assert_eq!((code, err.as_str()), (0, ""), "{line}");
        for file in [&cdc, &xap] {
            chown(file, Some(65534), None).expect("another owner");
            let refusal = format!("configuration file {file:?} is refused: ");
            let CommandOutput { code, err, .. } = check();
            assert!(code == 2 && err.contains(&refusal), "{err}");
            let CommandOutput { code, err, .. } = files.run(&format!("{line} --seconds 1"));
            assert!(code == 2 && err.contains(&refusal), "{err}");
            chown(file, Some(0), None).expect("the former owner");
        }
        let CommandOutput { code, err, .. } = files.run(&format!("{line} --seconds 1"));
        assert!(code == 2 && err.contains("has no interface"), "{err}");
    }
}

/// Device descriptions and concise DCFs configure nodes.
#[test]
fn files_named_by_a_network_file_are_checked_as_well() {
    if !require_all(&[Feature::Root]) {
        return;
    }
    let files = Files::new("trust-network");
    let xdd = files.path("io.xdd");
    fs::copy(root().join("examples/powerlink/digital-io.xdd"), &xdd).expect("a copy");
    let concise = files.path("io.cdc");
    // No entries.
    fs::write(&concise, [0; 4]).expect("a file");
    let text = format!("{NETWORK}xdd = \"io.xdd\"\ncdc = \"io.cdc\"\n");
    fs::write(files.path("bus.toml"), text).expect("a file");
    let check = || files.run("powerlink cn --check bus.toml --node 3");
    let CommandOutput { code, err, .. } = check();
    assert_eq!((code, err.as_str()), (0, ""));
    for file in [&xdd, &concise] {
        chown(file, Some(65534), None).expect("another owner");
        let refusal = format!("configuration file {file:?} is refused: ");
        let CommandOutput { code, err, .. } = check();
        assert!(code == 2 && err.contains(&refusal), "{err}");
        let CommandOutput { code, err, .. } =
            files.run("powerlink cn bus.toml --node 3 --seconds 1");
        assert!(code == 2 && err.contains(&refusal), "{err}");
        chown(file, Some(0), None).expect("the former owner");
    }
    // The store, which only this node reads.
    let store = files.path("io.store");
    fs::write(&store, [0; 4]).expect("a file");
    let text = format!("{NETWORK}store = \"io.store\"\n");
    fs::write(files.path("bus.toml"), text).expect("a file");
    let CommandOutput { code, err, .. } = check();
    assert_eq!((code, err.as_str()), (0, ""));
    fs::set_permissions(&store, fs::Permissions::from_mode(0o646)).expect("another mode");
    let CommandOutput { code, out, err } = check();
    assert!(code == 2 && out.is_empty(), "{out}{err}");
    assert!(err.contains("other users can write to") && err.contains("mode 0646"), "{err}");
}

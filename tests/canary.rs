//! Root runs commands whose configuration keys and options name files and directories of others, on
//! file systems of several kinds. Whatever the commands print, nothing there changes.

mod common;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};

use common::{PORTS, can_run, one_node, replicate, run, run_in};
use onbeat_lab::World;

const OTHER_USER: u32 = 65534;

/// A tree that is not to change, and is removed with the test where it outlives the mounts.
struct Canary(PathBuf);

impl Canary {
    /// Directories with the names that a node uses, and files where the file system has any.
    fn plant(root: PathBuf, files: bool) -> Self {
        for directory in ["links", "tables", "own/deep", "links/0-path1", "tables/node", "empty"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        if files {
            for file in ["file", "own/deep/file", "links/1-path2", "tables/members"] {
                fs::write(root.join(file), format!("canary {file}")).expect("a file");
            }
            symlink("own", root.join("link")).expect("a link");
        }
        Self(root)
    }

    /// Each path with what shows a change.
    fn listing(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.0.clone()];
        while let Some(path) = left.pop() {
            let of = fs::symlink_metadata(&path).expect("an entry");
            let text = if of.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            found.insert(
                path.clone(),
                format!("{:o} {} {} {text:?}", of.mode(), of.uid(), of.ino()),
            );
            if of.is_dir() {
                let entries = fs::read_dir(&path).expect("a directory");
                left.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
        }
        found
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A world with its own /run (tmpfs) and BPF file system, and a canary on each kind of file system.
fn world(test: &str) -> (World, [Canary; 3]) {
    let world = World::build(&one_node(PORTS)).expect("the network");
    let temporary =
        std::env::temp_dir().join(format!("onbeat-canary-{}-{test}", std::process::id()));
    let canaries = [
        Canary::plant(temporary, true),
        Canary::plant("/run/canary".into(), true),
        // The whole of it: an own pin directory is not below.
        Canary::plant("/sys/fs/bpf".into(), false),
    ];
    (world, canaries)
}

fn configuration(pin: &Path) -> PathBuf {
    let file = PathBuf::from("/run/canary.toml");
    let stream = replicate("axis", "01:00:5e:00:00:01", 100);
    let text = format!("[node]\nname = \"a\"\npin = {pin:?}\n{PORTS}{stream}");
    fs::write(&file, text).expect("a file");
    file
}

#[test]
fn a_pin_directory_of_others_is_refused_by_every_command() {
    if !can_run() {
        return;
    }
    let (world, canaries) = world("pin");
    let namespace = world.namespace("a").expect("the node's namespace");
    let ordinary =
        ["", "own", "own/deep", "empty", "file", "link/deep", "own/../own", "new", "own/new"];
    for canary in &canaries {
        // In a BPF file system an empty directory, or a new one, is as good as one of the node's own.
        let in_bpf = canary.0.starts_with("/sys/fs/bpf");
        let places =
            if in_bpf { &["", "own", "links", "tables", "own/../own"][..] } else { &ordinary };
        for place in places {
            let pin = canary.0.join(place);
            let file = configuration(&pin);
            let file = file.to_str().expect("text");
            let mut lines = vec![vec!["run"], vec!["run", "--replace"], vec!["down"]];
            if !in_bpf {
                lines.extend([vec!["run", "--backend", "packet"], vec!["run", "--backend", "xsk"]]);
                lines.push(vec!["run", "--check"]);
            }
            // In user space nothing is pinned, and there is nothing yet to judge.
            lines.retain(|line| {
                !place.contains("new") || line.len() == 1 || line.contains(&"--replace")
            });
            let before = canary.listing();
            for line in lines {
                let line = [&line[..], &[file]].concat();
                let ran = run_in(namespace, &line);
                assert_eq!(ran.code, 2, "{line:?} with {pin:?}: {ran:?}");
                assert!(ran.err.contains("pin") || line[0] == "down", "{line:?}: {ran:?}");
                assert_eq!(canary.listing(), before, "{line:?} with {pin:?}: {ran:?}");
            }
        }
    }
    assert_eq!(world.handle("a").unwrap().link("path1").unwrap().mtu, 1500);
}

/// Options that name output files, and `store` of a POWERLINK node.
#[test]
fn outputs_are_not_written_where_another_user_leads_them() {
    if !can_run() {
        return;
    }
    let (world, canaries) = world("outputs");
    let capture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../delay/tests/data/nanoseconds.pcap");
    let capture = capture.to_str().expect("text");
    for canary in &canaries[..2] {
        let shared = canary.0.join("shared");
        fs::create_dir(&shared).expect("a directory");
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("a mode");
        let planted = |name: &str, target: &Path| {
            symlink(target, shared.join(name)).expect("a link");
            lchown(shared.join(name), Some(OTHER_USER), None).expect("another owner");
        };
        planted("to-file", &canary.0.join("file"));
        planted("to-new", &canary.0.join("new"));
        planted("way", &canary.0);
        fs::write(shared.join("his"), "his").expect("a file");
        chown(shared.join("his"), Some(OTHER_USER), None).expect("another owner");
        let before = canary.listing();
        for name in ["to-file", "to-new", "way/file", "way/new", "his"] {
            let output = shared.join(name);
            let output = output.to_str().expect("text");
            for line in [
                &["delay", "match", capture, capture, "--csv", output][..],
                &["delay", "match", capture, capture, "--parquet", output],
                &["delay", "match", capture, capture, "--html", output],
                &["delay", "calibrate", "match", capture, capture, "--output", output],
                &["irq", "record", "--output", output, "--for", "10ms"],
            ] {
                let ran = run(line);
                assert_eq!(canary.listing(), before, "{line:?}: {ran:?}");
                // A correction is written only where there is one.
                assert!(ran.code == 2 || line.contains(&"calibrate"), "{line:?}: {ran:?}");
                assert!(ran.err.contains("another user") || ran.code != 2, "{line:?}: {ran:?}");
            }
        }
        for name in ["file", "own/deep/file", "shared/to-file", "shared/his", "own"] {
            let file = Path::new("/run/canary-powerlink.toml");
            let example = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../examples/powerlink/one-node.toml");
            let text = fs::read_to_string(example).expect("an example");
            let store = format!("store = {:?}\n", canary.0.join(name));
            let text = text.replacen("[[node]]\n", &format!("[[node]]\n{store}"), 1);
            assert!(text.contains(&store), "{text}");
            fs::write(file, text).expect("a file");
            let namespace = world.namespace("a").expect("the node's namespace");
            let line = [
                "powerlink",
                "cn",
                file.to_str().expect("text"),
                "--interface",
                "path1",
                "--node",
                "1",
            ];
            let ran = run_in(namespace, &line);
            assert_eq!(ran.code, 2, "{line:?}: {ran:?}");
            assert!(ran.err.contains("store "), "{ran:?}");
            assert_eq!(canary.listing(), before, "{line:?}: {ran:?}");
        }
    }
}

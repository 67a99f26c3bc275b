//! Root runs commands whose configuration keys and options name files and directories of other users,
//! on file systems of several kinds. No command may change anything there.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use crate::common::delay::{Directory, result};
use crate::common::{
    GROUP, PORTS, VLAN, build, can_run, one_node, program, replicate, run, run_in,
};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use onbeat_lab::World;
use onbeat_lab::scenario::{RunSettings, chaos};

const OTHER_USER: u32 = 65534;

/// A tree that must not change, removed with the test if it outlives the mounts.
struct Canary {
    root: PathBuf,
    /// A socket of another program that listens.
    _sockets: Option<(UnixListener, UnixDatagram)>,
}

impl Canary {
    /// Creates directories with the names that a node uses, and files if the file system supports them.
    fn plant(root: PathBuf, files: bool) -> Self {
        for directory in ["links", "tables", "own/deep", "links/0-path1", "tables/node", "empty"] {
            fs::create_dir_all(root.join(directory)).expect("a directory");
        }
        if files {
            for file in ["file", "own/deep/file", "links/1-path2", "tables/members"] {
                fs::write(root.join(file), format!("canary {file}")).expect("a file");
            }
            symlink("own", root.join("link")).expect("a link");
            fs::hard_link(root.join("own/deep/file"), root.join("hard")).expect("a hard link");
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            mknod(&root.join("fifo"), SFlag::S_IFIFO, mode, 0).expect("a FIFO");
            mknod(&root.join("null"), SFlag::S_IFCHR, mode, makedev(1, 3)).expect("a device node");
        }
        let sockets = files.then(|| {
            let listener = UnixListener::bind(root.join("socket")).expect("a socket");
            (listener, UnixDatagram::bind(root.join("datagrams")).expect("a socket"))
        });
        Self { root, _sockets: sockets }
    }

    /// All paths, each with its metadata and content.
    fn listing(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut left = vec![self.root.clone()];
        while let Some(path) = left.pop() {
            let of = fs::symlink_metadata(&path).expect("an entry");
            let text = if of.is_file() { fs::read(&path).unwrap_or_default() } else { Vec::new() };
            found.insert(
                path.clone(),
                format!(
                    "{:o} {} {} {} {:x} {text:?}",
                    of.mode(),
                    of.uid(),
                    of.ino(),
                    of.nlink(),
                    of.rdev()
                ),
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
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A world with its own /run (tmpfs) and BPF file system, and a canary on each kind of file system.
fn world(test: &str) -> (World, [Canary; 3]) {
    let world = build(&one_node(PORTS));
    let temporary =
        std::env::temp_dir().join(format!("onbeat-canary-{}-{test}", std::process::id()));
    let canaries = [
        Canary::plant(temporary, true),
        Canary::plant("/run/canary".into(), true),
        // The whole BPF file system: its own pin directory would not be inside another one.
        Canary::plant("/sys/fs/bpf".into(), false),
    ];
    (world, canaries)
}

/// A node whose configuration names a path.
fn configuration(key: &str, path: &Path) -> String {
    let file = "/run/canary.toml";
    let stream = replicate("axis", GROUP, VLAN);
    let text = format!("[node]\nname = \"a\"\n{key} = {path:?}\n{PORTS}{stream}");
    fs::write(file, text).expect("a file");
    file.to_owned()
}

/// The first line of `onbeat down` for a pin directory at this place of a canary.
fn down_refusal(place: &str, pin: &Path, in_bpf: bool) -> String {
    let text = pin.display();
    match place {
        "own/../own" => format!("onbeat: /run/canary.toml:3:7: node.pin: {pin:?} contains \"..\""),
        "" if in_bpf => {
            format!(
                "onbeat: /run/canary.toml:3:7: node.pin: {pin:?} is not below the root of a BPF file system"
            )
        }
        "new" | "own/new" => nothing_of_node(&text.to_string(), "/run/onbeat/a.sock"),
        _ if in_bpf => nothing_of_node(&text.to_string(), "/run/onbeat/a.sock"),
        "" | "own" | "own/deep" | "empty" => format!(
            "onbeat: pin directory {pin:?}: not in a BPF file system, so state cannot outlive the daemon; \
             set pin under [node] to a directory in one, or mount one: mount -t bpf bpf /sys/fs/bpf"
        ),
        _ => format!(
            "onbeat: pin directory {pin:?} leads through a symbolic link or a file; set pin under [node] \
             to a directory of its own in a BPF file system, such as /sys/fs/bpf/onbeat/NAME"
        ),
    }
}

fn nothing_of_node(pin: &str, control: &str) -> String {
    format!("onbeat: cannot find the node: no node \"a\" at {pin} or {control}")
}

#[test]
fn a_foreign_pin_directory_is_rejected_by_every_command() {
    if !can_run() {
        return;
    }
    let (world, canaries) = world("pin");
    let namespace = world.namespace("a").expect("the node's namespace");
    let ordinary = [
        "",
        "own",
        "own/deep",
        "empty",
        "file",
        "hard",
        "fifo",
        "socket",
        "null",
        "link/deep",
        "own/../own",
        "new",
        "own/new",
    ];
    for canary in &canaries {
        // In a BPF file system, an empty or new directory can be the node's own.
        let in_bpf = canary.root.starts_with("/sys/fs/bpf");
        let places =
            if in_bpf { &["", "own", "links", "tables", "own/../own"][..] } else { &ordinary };
        for place in places {
            let pin = canary.root.join(place);
            let file = configuration("pin", &pin);
            let mut lines = vec![vec!["run"], vec!["run", "--replace"], vec!["down"]];
            if !in_bpf {
                lines.extend([vec!["run", "--backend", "packet"], vec!["run", "--backend", "xsk"]]);
                lines.push(vec!["run", "--check"]);
            }
            // In user space nothing is pinned, and there is nothing to check.
            lines.retain(|line| {
                !place.contains("new") || line.len() == 1 || line.contains(&"--replace")
            });
            let before = canary.listing();
            for line in lines {
                let line = [&line[..], &[&file]].concat();
                let ran = run_in(namespace, &line);
                assert_eq!(ran.code, 2, "{line:?} with {pin:?}: {ran:?}");
                if line[0] == "down" {
                    let refusal = down_refusal(place, &pin, in_bpf);
                    assert_eq!(ran.err.lines().next(), Some(&refusal[..]), "{pin:?}");
                } else {
                    assert!(ran.err.contains("pin"), "{line:?}: {ran:?}");
                }
                assert_eq!(canary.listing(), before, "{line:?} with {pin:?}: {ran:?}");
            }
        }
    }
    assert_eq!(world.handle("a").unwrap().link("path1").unwrap().mtu, 1500);
}

/// A control socket replaces nothing: neither files nor sockets of other programs.
#[test]
fn a_foreign_control_path_is_rejected_by_every_command() {
    if !can_run() {
        return;
    }
    let (world, canaries) = world("control");
    let namespace = world.namespace("a").expect("the node's namespace");
    let occupied = "exists and is not a socket, or another program listens there";
    for canary in &canaries {
        let places = if canary.root.starts_with("/sys/fs/bpf") {
            &[("own", "other users can write to it"), ("own/new", "/sys/fs/bpf/own")][..]
        } else {
            &[
                ("own", occupied),
                ("file", occupied),
                ("hard", occupied),
                ("fifo", occupied),
                ("null", occupied),
                ("link", occupied),
                ("socket", occupied),
                ("datagrams", occupied),
                ("link/new", "is refused: it is a symbolic link"),
                ("file/new", "/file"),
            ]
        };
        for (place, cause) in places {
            let control = canary.root.join(place);
            let file = configuration("control", &control);
            let before = canary.listing();
            for line in
                [&["run"][..], &["run", "--replace"], &["run", "--backend", "packet"], &["down"]]
            {
                let line = [line, &[&file]].concat();
                let ran = run_in(namespace, &line);
                assert_eq!(ran.code, 2, "{line:?} with {control:?}: {ran:?}");
                if line[0] == "run" {
                    assert!(ran.err.contains(cause), "{line:?} with {control:?}: {ran:?}");
                } else if *cause == occupied {
                    let control = control.to_str().expect("text");
                    let refusal = nothing_of_node("/sys/fs/bpf/onbeat/a", control);
                    assert_eq!(ran.err.lines().next(), Some(&refusal[..]));
                }
                assert_eq!(canary.listing(), before, "{line:?} with {control:?}: {ran:?}");
            }
        }
    }
}

/// Options that name output files, and `store` of a POWERLINK node.
#[test]
fn outputs_are_not_written_through_links_of_another_user() {
    if !can_run() {
        return;
    }
    let (world, canaries) = world("outputs");
    // Delays that yield a correction, so that calibrate writes one.
    let inputs = Directory::new("canary");
    let packets = |delay_ns: i64| -> Vec<(i64, Vec<u8>)> {
        let frame = |number: u32| {
            let header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
            [&header[..], &number.to_be_bytes(), &[7; 42]].concat()
        };
        (0..1000).map(|n| (i64::from(n) * 100_000 + delay_ns, frame(n))).collect()
    };
    let arrivals = inputs.capture("in.pcap", &packets(0));
    let departures = inputs.capture("out.pcap", &packets(1000));
    let (arrivals, departures) = (&arrivals[..], &departures[..]);
    let written = inputs.path("correction.json");
    let calibrate = ["delay", "calibrate", "match", arrivals, departures, "--output", &written];
    assert_eq!(result(&calibrate).0, 0);
    assert!(Path::new(&written).exists());
    for canary in &canaries[..2] {
        let shared = canary.root.join("shared");
        fs::create_dir(&shared).expect("a directory");
        fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("a mode");
        let planted = |name: &str, target: &Path| {
            symlink(target, shared.join(name)).expect("a link");
            lchown(shared.join(name), Some(OTHER_USER), None).expect("another owner");
        };
        planted("to-file", &canary.root.join("file"));
        planted("to-new", &canary.root.join("new"));
        planted("way", &canary.root);
        fs::write(shared.join("his"), "his").expect("a file");
        chown(shared.join("his"), Some(OTHER_USER), None).expect("another owner");
        mknod(&shared.join("fifo"), SFlag::S_IFIFO, Mode::S_IRWXU, 0).expect("a FIFO");
        chown(shared.join("fifo"), Some(OTHER_USER), None).expect("another owner");
        let before = canary.listing();
        for name in ["to-file", "to-new", "way/file", "way/new", "his", "fifo"] {
            let output = shared.join(name);
            let output = output.to_str().expect("text");
            for line in [
                &["delay", "match", arrivals, departures, "--csv", output][..],
                &["delay", "match", arrivals, departures, "--parquet", output],
                &["delay", "match", arrivals, departures, "--html", output],
                &["delay", "calibrate", "match", arrivals, departures, "--output", output],
                &["irq", "record", "--output", output, "--for", "10ms"],
            ] {
                let ran = run(line);
                assert_eq!(canary.listing(), before, "{line:?}: {ran:?}");
                assert_eq!(ran.code, 2, "{line:?}: {ran:?}");
                let cause = if name == "fifo" { "no process reads" } else { "another user" };
                assert!(ran.err.contains(cause), "{line:?}: {ran:?}");
            }
        }
        for name in [
            "file",
            "hard",
            "own/deep/file",
            "shared/to-file",
            "shared/his",
            "own",
            "fifo",
            "socket",
            "null",
        ] {
            let file = Path::new("/run/canary-powerlink.toml");
            let example = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../examples/powerlink/one-node.toml");
            let text = fs::read_to_string(example).expect("an example");
            let store = format!("store = {:?}\n", canary.root.join(name));
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

/// `--captures` of the scenario "chaos", which is written to on a violation.
#[test]
fn captures_are_not_written_through_links_of_another_user() {
    if !can_run() {
        return;
    }
    // Not in a world: the scenario creates mounts of its own.
    let root = std::env::temp_dir().join(format!("onbeat-canary-{}-chaos", std::process::id()));
    let canary = Canary::plant(root, true);
    let shared = canary.root.join("shared");
    fs::create_dir(&shared).expect("a directory");
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).expect("a mode");
    symlink(canary.root.join("own"), shared.join("way")).expect("a link");
    lchown(shared.join("way"), Some(OTHER_USER), None).expect("another owner");
    let before = canary.listing();
    let common = RunSettings { quiet: true, json: true, ..RunSettings::new(program()) };
    let error = chaos::without_elimination(shared.join("way"), &common);
    let error = error.expect_err("the directory is rejected").to_string();
    assert!(error.contains("another user"), "{error}");
    assert_eq!(canary.listing(), before, "{error}");
}

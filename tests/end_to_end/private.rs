//! Locks, journals and control sockets of root: no other user can hold or plant them, and planted files
//! neither delete nor change anything.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//! ```

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{
    CommandOutput, GROUP, PORTS, VLAN, assert_gone, build, can_run, log, one_node, program,
    replicate, run_in, start,
};
use onbeat_lab::World;
use onbeat_netdev::{Bridge, VethEnd};
use onbeat_testing::UnprivilegedProcess;

const JOURNAL: &str = "/run/onbeat/a.sock.node-journal";
const MTU: u32 = 1500;

fn config() -> String {
    format!("{PORTS}{}", replicate("axis", GROUP, VLAN))
}

fn mtu(world: &World) -> u32 {
    world.handle("a").unwrap().link("path1").unwrap().mtu
}

fn down(world: &World, arguments: &[&str]) -> CommandOutput {
    run_in(world.namespace("a").unwrap(), &[&["down"], arguments].concat())
}

/// Everything below a directory, itself included.
fn all_below(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|entry| all_below(&entry.unwrap().path(), found));
    }
}

/// An unprivileged process attacks every path of /run/onbeat. It keeps the locks that it gets.
fn attack() -> Vec<UnprivilegedProcess> {
    let mut paths = Vec::new();
    all_below(Path::new("/run/onbeat"), &mut paths);
    assert!(paths.len() > 3, "{paths:?}");
    let plant = "ln -sfn /etc/passwd \"$0\" || echo '{}' > \"$0\" || ln -s /etc/passwd \"$0.new\"";
    for path in &paths {
        assert!(!UnprivilegedProcess::run(plant, path), "planted at {path:?}");
    }
    paths.iter().filter_map(|path| UnprivilegedProcess::hold(path)).collect()
}

#[test]
fn an_unprivileged_process_blocks_no_command_before_or_after_kill_9() {
    if !can_run() {
        return;
    }
    let mut world = start(&one_node(&config()));
    let guard = "/run/onbeat/lab/guard.toml";
    fs::write(guard, "[guard]\ninterfaces = [\"host\"]\n").unwrap();
    let here = |arguments: &[&str]| run_in(world.namespace("a").unwrap(), arguments);
    // Creates the directories of both.
    let commands: [&[&str]; 3] = [
        &["doctor", "--fix", "host", "--only", "offloads"],
        &["doctor", "--restore"],
        &["irq", "guard", "--restore"],
    ];
    for command in commands {
        assert_ne!(here(command).code, 2, "{:?}", here(command));
    }
    let _before = attack();
    world.daemon("a").unwrap().kill().unwrap();
    let _after = attack();
    let here = |arguments: &[&str]| run_in(world.namespace("a").unwrap(), arguments);
    for command in commands {
        assert_ne!(here(command).code, 2, "{:?}", here(command));
    }
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}"));
    world.daemon("a").unwrap().kill().unwrap();
    let _again = attack();
    let ran = down(&world, &["a"]);
    assert_eq!((ran.code, mtu(&world)), (0, MTU), "{ran:?}");
    assert_gone("a");
}

#[test]
fn an_invalid_journal_has_a_remedy() {
    if !can_run() {
        return;
    }
    let mut world = start(&one_node(&config()));
    world.daemon("a").unwrap().kill().unwrap();
    let valid = fs::read_to_string(JOURNAL).unwrap();
    assert_eq!(fs::metadata(JOURNAL).unwrap().permissions().mode() & 0o777, 0o600);
    let of_others = |text: &str| {
        fs::write(JOURNAL, text).unwrap();
        fs::set_permissions(JOURNAL, fs::Permissions::from_mode(0o666)).unwrap();
    };
    let plants: [&dyn Fn(); 5] = [
        &|| fs::write(JOURNAL, "").unwrap(),
        &|| fs::write(JOURNAL, &valid[..valid.len() / 2]).unwrap(),
        &|| of_others(&valid),
        &|| {
            fs::write("/run/onbeat/canary", &valid).unwrap();
            symlink("canary", JOURNAL).unwrap();
        },
        &|| fs::write(JOURNAL, valid.replace("1500", "7")).unwrap(),
    ];
    for plant in plants {
        let _ = fs::remove_file(JOURNAL);
        plant();
        for command in [&["down", "a"][..], &["run", "/run/onbeat/lab/a.toml"]] {
            let refused = run_in(world.namespace("a").unwrap(), command);
            assert_eq!((refused.code, mtu(&world)), (2, 1506), "{refused:?}");
            let named = refused.err.contains("onbeat down") && refused.err.contains(" --forget");
            assert!(named, "{refused:?}");
        }
    }
    assert_eq!(fs::read_to_string("/run/onbeat/canary").unwrap(), valid, "the link was followed");
    let ran = down(&world, &["a", "--forget"]);
    assert_eq!((ran.code, mtu(&world)), (0, 1506), "{ran:?}");
    assert!(ran.err.contains("none of its settings restored"), "{ran:?}");
    assert!(!Path::new(JOURNAL).exists() && !Path::new("/sys/fs/bpf/onbeat/a").exists());
}

/// A journal of the former version had its content only, and the mode of the umask.
#[test]
fn a_journal_of_the_former_version_is_restored() {
    if !can_run() {
        return;
    }
    let mut world = start(&one_node(&config()));
    world.daemon("a").unwrap().kill().unwrap();
    let text = r#"{"created":[],"promiscuous":[],"mtu":{"path1":1500},"features":{}}"#;
    let former = "/run/onbeat/a.journal.json";
    fs::remove_file(JOURNAL).unwrap();
    fs::write(former, text).unwrap();
    for path in ["/run/onbeat/a.sock.lock", former] {
        fs::write("/run/onbeat/a.sock.lock", "1").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions("/run/onbeat", fs::Permissions::from_mode(0o755)).unwrap();
    let _holder = UnprivilegedProcess::hold(Path::new("/run/onbeat/a.sock.lock")).unwrap();
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}: {}", log("a")));
    let mode = fs::metadata("/run/onbeat").unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    world.daemon("a").unwrap().interrupt().unwrap();
    assert_eq!(mtu(&world), MTU);
    assert_gone("a");
}

#[test]
fn interfaces_in_a_journal_are_removed_only_if_a_node_created_them() {
    if !can_run() {
        return;
    }
    let world = build(&one_node(&config()));
    let handle = world.handle("a").unwrap();
    handle.create_bridge(&Bridge::new("precious")).unwrap();
    let index = handle.index("path1").unwrap();
    let namespace = handle.namespace().inode();
    let journal = |created: &str, identity: &str| {
        let text = format!(
            r#"{{"created":["{created}"],"promiscuous":[],"mtu":{{}},"features":{{}},"identity":{{{identity}}}}}"#
        );
        fs::write(JOURNAL, text).unwrap();
        fs::set_permissions(JOURNAL, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let elsewhere = format!(
        r#""precious":{{"namespace":{namespace},"index":{}}}"#,
        handle.index("precious").unwrap()
    );
    for (created, identity, why) in [
        ("precious", "", "it is not a veth that a node created"),
        // A veth whose peer is not a node's.
        ("path1", "", "it is not a veth that a node created"),
        ("precious", &elsewhere, "it is not a veth that a node created"),
        ("path1", r#""path1":{"namespace":1,"index":1}"#, "in network namespace net:[1]"),
    ] {
        journal(created, identity);
        for _ in 0..2 {
            let ran = down(&world, &["a"]);
            assert_eq!(ran.code, 1, "{ran:?}");
            assert!(ran.err.contains(why) && ran.err.contains("--forget"), "{ran:?}");
        }
        let ran = down(&world, &["a", "--forget"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(why), "{ran:?}");
        assert_eq!(down(&world, &["a"]).code, 2, "nothing is left of it");
    }
    // It is removed, and another interface has its name.
    journal("path1", &format!(r#""path1":{{"namespace":{namespace},"index":9999}}"#));
    assert_eq!(down(&world, &["a"]).code, 0);
    assert_eq!(handle.index("path1").unwrap(), index);
    handle.link("precious").unwrap();
}

#[test]
fn a_control_path_writable_by_others_is_rejected_by_every_command() {
    if !can_run() {
        return;
    }
    let world = build(&one_node(&config()));
    let directory = "/run/onbeat/lab";
    symlink(directory, format!("{directory}/link")).unwrap();
    let file = format!("{directory}/own.toml");
    for (control, why, remedy) in [
        ("/tmp/a.sock".to_owned(), "other users can write to it (mode 1777)", "use a directory"),
        (format!("{directory}/link/a.sock"), "it is a symbolic link", "write the path"),
        (format!("{directory}/../a.sock"), "it contains \"..\"", "write the path without"),
    ] {
        fs::write(&file, format!("[node]\nname = \"a\"\ncontrol = {control:?}\n{}", config()))
            .unwrap();
        for command in [&["run", "--check", &file][..], &["run", &file], &["down", &file]] {
            let ran = run_in(world.namespace("a").unwrap(), command);
            assert_eq!(ran.code, 2, "{command:?}: {ran:?}");
            assert!(ran.err.contains(why) && ran.err.contains(remedy), "{command:?}: {ran:?}");
            let place = format!("{file}:3:11: node.control: ");
            assert_eq!(ran.err.contains(&place), command[1] == "--check", "{command:?}: {ran:?}");
        }
        assert_eq!(mtu(&world), MTU);
        assert_gone("a");
    }
    assert!(!Path::new("/tmp/a.sock").exists());
}

/// As in `ip netns exec`, where /proc/1/root leads to no BPF file system with the pins: the data plane
/// stays, with everything that it needs.
#[test]
fn down_fails_if_the_pins_of_a_running_data_plane_are_unreachable() {
    if !can_run() {
        return;
    }
    let mut world = start(&one_node(&config()));
    world.daemon("a").unwrap().kill().unwrap();
    for argument in ["a", "/run/onbeat/lab/a.toml"] {
        let mut command = Command::new("unshare");
        let mounts = "umount -l /sys && mount -t sysfs sysfs /sys && exec \"$0\" down \"$1\"";
        command.args(["--mount", "sh", "-c", mounts]).arg(program()).arg(argument);
        let namespace = world.namespace("a").unwrap();
        let ran: CommandOutput = namespace.start_in(&mut command).output().unwrap().into();
        assert_eq!((ran.code, ran.out.as_str(), mtu(&world)), (1, "", 1506), "{ran:?}");
        let named = ran.err.contains("the data plane still runs on path1, path2");
        assert!(named && ran.err.contains("nsenter --net="), "{ran:?}");
        assert!(ran.err.contains(&format!("onbeat down {argument}")), "{ran:?}");
        assert_eq!(world.handle("a").unwrap().link("path1").unwrap().xdp.len(), 1);
    }
    let ran = down(&world, &["a"]);
    assert_eq!((ran.code, ran.out.as_str(), mtu(&world)), (0, "a is down\n", MTU), "{ran:?}");
    assert_gone("a");
}

/// The pin directory of another node is rejected by every back end, whether the daemon of that node
/// runs or not.
#[test]
fn the_pin_directory_of_another_node_is_rejected_by_every_command() {
    if !can_run() {
        return;
    }
    let mut world = start(&one_node(&config()));
    let interfaces = world.handle("a").unwrap();
    interfaces.create_veth(&VethEnd::new("nx0"), &VethEnd::new("nx1")).unwrap();
    let second = "/run/onbeat/lab/second.toml";
    let pin = "/sys/fs/bpf/onbeat/a";
    let text = format!(
        "[node]\nname = \"second\"\npin = {pin:?}\n[[port]]\nname = \"p\"\ninterface = \"nx0\"\n"
    );
    fs::write(second, text).unwrap();
    // Those of ports have numbers.
    let links = || {
        let names =
            fs::read_dir(format!("{pin}/links")).unwrap().map(|link| link.unwrap().file_name());
        names.filter(|name| name.as_encoded_bytes()[0].is_ascii_digit()).count()
    };
    for killed in [false, true] {
        if killed {
            world.daemon("a").unwrap().kill().unwrap();
        }
        for command in
            [&["run", second][..], &["run", second, "--backend", "packet"], &["down", second]]
        {
            let ran = run_in(world.namespace("a").unwrap(), command);
            assert_eq!((ran.code, links()), (2, 3), "{command:?}: {ran:?}");
            let owner = "belongs to the node with control socket \"/run/onbeat/a.sock\"";
            assert!(ran.err.contains(owner), "{command:?}: {ran:?}");
            assert_eq!(world.handle("a").unwrap().link("path1").unwrap().xdp.len(), 1);
            assert_gone("second");
        }
    }
    // The former version recorded no node: the owner takes over the directory, and records itself.
    fs::remove_file(format!("{pin}/node")).unwrap();
    let ran = run_in(world.namespace("a").unwrap(), &["down", second]);
    assert!(ran.code == 2 && ran.err.contains("by the former version"), "{ran:?}");
    world.start("a", program()).unwrap_or_else(|error| panic!("{error}: {}", log("a")));
    assert_eq!(fs::read_link(format!("{pin}/node")).unwrap(), Path::new("/run/onbeat/a.sock"));
    assert_eq!(down(&world, &["a"]).code, 0);
    assert_gone("a");
}

//! Life cycle of a node with the program: start, show, reload, stop, takeover, down.
//!
//! ```text
//!   p0 --- eth0 [ relay ] eth1 --- p1
//!                         eth2 --- p2
//! ```

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::{onbeat, run};
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use onbeat_netdev::{Ethtool, Handle, Namespace, PrivateMounts, VethEnd};
use onbeat_node::control::{NodeStatus, PortMode};
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all, root};

const BOUND: Duration = Duration::from_secs(60);

/// `onbeat run`, killed if the test fails.
struct Daemon(Child);

impl Daemon {
    /// Starts it, and waits until it is ready.
    fn start(file: &Path, directory: &TemporaryDirectory) -> Daemon {
        let path = directory.file("notify");
        let _ = std::fs::remove_file(&path);
        let notify = UnixDatagram::bind(&path).expect("a socket");
        let log = std::fs::File::create(directory.file("log")).expect("a log");
        let mut command = onbeat();
        command.arg("run").arg(file).env("NOTIFY_SOCKET", &path);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let mut daemon = Daemon(child);
        let mut message = [0; 4096];
        let log = || std::fs::read_to_string(directory.file("log")).unwrap_or_default();
        let end = Instant::now() + BOUND;
        notify.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        loop {
            if notify.recv(&mut message).is_ok_and(|_| message.starts_with(b"READY=1")) {
                return daemon;
            }
            let ended = daemon.0.try_wait().expect("its state");
            assert!(ended.is_none(), "it exited: {ended:?}\n{}", log());
            assert!(Instant::now() < end, "it is not ready\n{}", log());
        }
    }

    fn stop(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it is there");
        let end = Instant::now() + BOUND;
        loop {
            if let Some(status) = self.0.try_wait().expect("its state") {
                return status;
            }
            assert!(Instant::now() < end, "it still runs after {signal}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Mounts of this thread and its children alone, with a /run and a BPF file system of their own.
fn private_mounts() -> PrivateMounts {
    let mounts = PrivateMounts::enter().expect("mounts of its own");
    for (kind, at) in [("tmpfs", "/run"), ("sysfs", "/sys"), ("bpf", "/sys/fs/bpf")] {
        mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>).expect(at);
    }
    mounts
}

fn good(line: &[&str]) -> String {
    let CommandOutput { code, out, err } = run(line);
    assert_eq!((code, err.as_str()), (0, ""), "{line:?}: {out}");
    out
}

fn bad(line: &[&str]) -> String {
    let CommandOutput { code, out, err } = run(line);
    assert_eq!((code, out.as_str()), (2, ""), "{line:?}: {err}");
    assert!(err.starts_with("onbeat: "), "{line:?}: {err}");
    err
}

/// Each command that requires the daemon names the data plane that still runs.
fn without_daemon() {
    for line in [
        &["show"][..],
        &["show", "relay", "--json"],
        &["show", "relay", "--events"],
        &["reset", "back"],
        &["reload", "relay"],
        &["stream", "remove", "back", "--node", "relay"],
    ] {
        assert_eq!(
            bad(line),
            "onbeat: the data plane of node \"relay\" runs without its daemon; take it over with: onbeat \
             run FILE, or remove it with: onbeat down relay\n",
            "{line:?}"
        );
    }
}

/// The interfaces of the example, with the file in a directory.
fn relay(directory: &TemporaryDirectory) -> (Handle, PathBuf) {
    let handle = Handle::open().expect("rtnetlink");
    let ethtool = Ethtool::open().expect("ethtool");
    for (end, other) in [("eth0", "p0"), ("eth1", "p1"), ("eth2", "p2")] {
        handle.create_veth(&VethEnd::new(end), &VethEnd::new(other)).expect("a veth pair");
        handle.set_up(end).expect("an interface that is up");
        handle.set_up(other).expect("an interface that is up");
        // Without GRO a veth receives nothing from native programs, and generic mode cannot make
        // replicas that differ.
        ethtool.set_features(other, &[("gro", true)]).expect("GRO");
    }
    let file = directory.file("relay.toml");
    std::fs::copy(root().join("examples/relay-two-paths.toml"), &file).expect("a copy");
    (handle, file)
}

fn life_cycle(directory: &TemporaryDirectory) {
    let _mounts = private_mounts();
    let (handle, file) = relay(directory);
    let path = file.to_str().expect("a path that is text");

    // The MTU of 1500 leaves no room for the tag.
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("mtu = 1506", "")).expect("another file");
    let refused = bad(&["run", "--check", path]);
    assert!(refused.contains("set mtu = 1506 on port \"path1\""), "{refused}");
    assert_eq!(bad(&["run", path]), refused);
    std::fs::write(&file, text).expect("the file");

    let daemon = Daemon::start(&file, directory);
    let table = good(&["show"]);
    assert!(table.starts_with("node relay  ") && table.contains("\nthere "), "{table}");
    let status = || -> NodeStatus {
        serde_json::from_str(&good(&["show", "relay", "--json"])).expect("the state")
    };
    let at_first = status();
    assert!(at_first.ports.iter().all(|port| port.mode != PortMode::Detached), "{at_first:?}");
    assert_eq!(good(&["reset", "back"]), "stream \"back\" is reset\n");
    let resets = |status: &NodeStatus| {
        let stream = status.streams.iter().find(|stream| stream.name == "back");
        stream.and_then(|stream| stream.recovery.as_ref()).map(|recovery| recovery.counters.resets)
    };
    assert_eq!(resets(&status()), resets(&at_first).map(|resets| resets + 1));
    bad(&["reset", "forth"]);
    // Two daemons would both change the tables.
    let refused = bad(&["run", path]);
    assert!(refused.contains("relay.sock"), "{refused}");

    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("\"back\"", "\"home\"")).expect("another file");
    good(&["reload"]);
    assert!(good(&["show"]).contains("\nhome "));
    std::fs::write(&file, text.replace("\"back\"", "back")).expect("a broken file");
    assert!(bad(&["reload"]).contains("relay.toml:"));
    assert!(good(&["show"]).contains("\nhome "), "the configuration is unchanged");

    assert_eq!(daemon.stop(Signal::SIGTERM).code(), Some(0));
    without_daemon();
    std::fs::write(&file, text.replace("\"back\"", "\"home\"")).expect("the file");
    let daemon = Daemon::start(&file, directory);
    assert!(good(&["show"]).contains("\nhome "), "taken over");
    // Its socket stays.
    daemon.stop(Signal::SIGKILL);
    without_daemon();
    assert_eq!(bad(&["show", "/run/onbeat/relay.sock"]), bad(&["show"]));
    assert_eq!(good(&["down", "relay"]), "relay is down\n");
    bad(&["down", "relay"]);
    assert!(bad(&["show", "relay"]).starts_with("onbeat: no node \"relay\" is running"));

    let daemon = Daemon::start(&file, directory);
    let pid = Pid::from_raw(daemon.0.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(bad(&["show"]).contains(&format!(
        "is stopped by a signal and cannot respond; continue it with: kill -CONT {pid}"
    )));
    kill(pid, Signal::SIGCONT).unwrap();
    good(&["show"]);
    assert_eq!(daemon.stop(Signal::SIGINT).code(), Some(0), "Ctrl-C");
    bad(&["down", path]);

    let mut daemon = Daemon::start(&file, directory);
    assert_eq!(good(&["down", path]), format!("{path} is down\n"));
    let end = Instant::now() + BOUND;
    while daemon.0.try_wait().expect("its state").is_none() {
        assert!(Instant::now() < end, "the daemon runs after down");
        std::thread::sleep(Duration::from_millis(5));
    }
    for port in ["eth0", "eth1", "eth2"] {
        // The kernel removes a program some time after its last owner has exited.
        let link = handle
            .wait_for(port, "without a program", BOUND, |link| link.xdp.is_empty())
            .unwrap_or_else(|error| panic!("a program stays: {error}"));
        assert_eq!(link.mtu, 1500, "restored: {link:?}");
    }
}

/// The effect of a restart, by a check of the file.
fn effect(path: &str) -> Option<String> {
    let summary = good(&["run", "--check", path]);
    summary.lines().find_map(|line| line.strip_prefix("  a restart ")).map(str::to_owned)
}

fn restarts(directory: &TemporaryDirectory) {
    let _mounts = private_mounts();
    let (handle, file) = relay(directory);
    let path = file.to_str().expect("a path that is text");
    let text = std::fs::read_to_string(&file).expect("the file");
    let has = |expected: &str| {
        let effect = effect(path).unwrap_or_default();
        assert!(effect.starts_with(expected), "{effect:?} instead of {expected:?}");
    };
    assert_eq!(effect(path), None);
    let daemon = Daemon::start(&file, directory);
    has("loses no frame: ");
    std::fs::write(&file, format!("{text}\n# changed\n")).expect("another file");
    has("changes the node: its file");
    std::fs::write(&file, text.replace("[node]", "[node]\nbackend = \"packet\"")).expect("a file");
    has("loses frames: ");
    std::fs::write(&file, &text).expect("the file");
    good(&["stream", "remove", "back", "--node", "relay"]);
    has("changes the node: streams ");
    good(&["reload", "relay"]);
    has("loses no frame: ");
    // The node, which runs, has lost an interface.
    let rename = |from, to| handle.rename(from, to).expect("another name");
    rename("eth2", "away");
    has("leaves out ports whose interfaces do not exist");
    rename("away", "eth2");
    has("loses no frame: ");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).expect("a mode");
    let CommandOutput { code, out, .. } = run(&["run", "--check", path]);
    assert!(code == 0 && out.contains("  a restart fails: another user "), "{out}");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("a mode");

    assert_eq!(daemon.stop(Signal::SIGTERM).code(), Some(0));
    assert_eq!(effect(path), None);
    // As of another version: tables of other sizes.
    let table = |name: &str| Path::new("/sys/fs/bpf/onbeat/relay/tables").join(name);
    let swap = || {
        for (from, to) in [("members", "aside"), ("splits", "members"), ("aside", "splits")] {
            std::fs::rename(table(from), table(to)).expect("a pin");
        }
    };
    swap();
    let refused = bad(&["run", "--check", path]);
    assert!(refused.contains("pinned state of another version or size"), "{refused}");
    assert!(refused.contains("remove it with onbeat down"), "{refused}");
    assert_eq!(bad(&["run", path]), refused);
    // A service must not be started again and again.
    let mut service = onbeat();
    service.args(["run", path]).env("NOTIFY_SOCKET", directory.file("notify"));
    let service: CommandOutput = service.output().expect("it runs").into();
    assert_eq!((service.code, service.err), (78, refused));
    swap();
    drop(Daemon::start(&file, directory));
    good(&["down", "relay"]);
}

#[test]
fn a_check_reports_the_effect_of_a_restart() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf]) {
        return;
    }
    let directory = TemporaryDirectory::new("restart");
    let namespace = Namespace::with_loopback().expect("a namespace");
    namespace.run(|| restarts(&directory)).expect("a thread in it");
}

#[test]
fn a_node_starts_reloads_stops_and_is_removed() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Btf]) {
        return;
    }
    let directory = TemporaryDirectory::new("run");
    let namespace = Namespace::with_loopback().expect("a namespace");
    namespace.run(|| life_cycle(&directory)).expect("a thread in it");
}

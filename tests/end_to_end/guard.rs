//! `onbeat irq guard` and a node's `[guard]`, by the program itself.
//!
//! ```text
//!   talker eth0 ------ eth0 listener     guarded; a process of a real-time priority waits there
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{CommandOutput, build, can_run, machine, program, run_in, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::{Topology, World};
use onbeat_netdev::{Ethtool, Namespace, napi};
use onbeat_realtime::Profile;
use onbeat_testing::{Feature, require};
use serde_json::Value;

const CONFIG: &str = "[guard]\ninterfaces = [\"eth0\"]\ninterval-ms = 10\nhold-ms = 0\n";

fn possible() -> bool {
    can_run() && require(Feature::Kernel(6, 8))
}

/// Two hosts; the listener's interface has NAPI.
struct Hosts {
    world: World,
    directory: PathBuf,
}

impl Hosts {
    fn new() -> Self {
        machine::exclusive();
        let mut network = Topology::default();
        network.host("talker", 0, 0).host("listener", 1, 0);
        network.link("cable", "talker:eth0", "listener:eth0");
        let world = build(&network);
        let handle = world.handle("listener").unwrap();
        let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
        ethtool.set_features("eth0", &[("rx-gro", true)]).unwrap();
        handle.add_address("eth0", "192.0.2.2".parse().unwrap(), 24).unwrap();
        // In the world's own /run.
        Self { world, directory: "/run/onbeat/lab".into() }
    }

    fn listener(&self) -> &Namespace {
        self.world.namespace("listener").unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.directory.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn irq(&self, arguments: &[&str]) -> CommandOutput {
        run_in(self.listener(), &[&["irq", "guard"], arguments].concat())
    }

    fn start(&self, arguments: &[&str]) -> Guard {
        let mut command = Command::new(program());
        command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped());
        Guard(self.listener().start_in(&mut command).spawn().unwrap())
    }

    /// The NAPI thread, if there is one.
    fn thread(&self) -> Option<u32> {
        let handle = self.world.handle("listener").unwrap();
        let instances = napi::instances(handle, "eth0").unwrap().expect("Linux 6.8");
        instances.iter().find_map(|instance| instance.pid)
    }

    fn priority(&self) -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.thread()?)).ok()?;
        // The first field after the name has number 3.
        stat.rsplit_once(") ")?.1.split(' ').nth(40 - 3)?.parse().ok()
    }

    fn journal(&self) -> PathBuf {
        format!("/run/onbeat/guard/{}/journal.json", self.listener().inode()).into()
    }

    /// Whether no state of a guard is left, including its directory.
    fn is_clean(&self) -> bool {
        !self.journal().parent().unwrap().exists()
    }
}

/// A guard that is killed with its test.
struct Guard(Child);

impl Guard {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Makes a thread of SCHED_FIFO 40 wait for packets of the listener's eth0 while `f` runs.
fn while_waiting(hosts: &Hosts, f: impl FnOnce()) {
    let socket = hosts.listener().run(|| UdpSocket::bind("192.0.2.2:9000").unwrap()).unwrap();
    let _realtime = Profile::default().scheduled("fifo 40".parse().unwrap()).enter().unwrap();
    f();
    drop(socket);
}

#[test]
fn a_guard_runs_until_sigint_and_restores_all_settings() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    let file = hosts.file("guard.toml", CONFIG);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut guard = hosts.start(&["irq", "guard", &file, "--json"]);
        while_waiting(&hosts, || wait_for("priority 40", || hosts.priority() == Some(40)));
        wait_for("normal priority", || hosts.priority() == Some(0));
        assert!(hosts.journal().exists());
        let second = hosts.irq(&[&file]);
        let busy = format!("process {} (", guard.0.id());
        assert!(second.code == 2 && second.err.contains(&busy), "{second:?}");
        guard.signal(signal);
        let code = guard.0.wait().unwrap().code();
        assert_eq!((code, hosts.thread()), (Some(0), None), "{signal}");
        assert!(hosts.is_clean());
        let lines = BufReader::new(guard.0.stdout.take().unwrap()).lines();
        let events: Vec<Value> =
            lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        assert_eq!(events[0]["event"], "attached", "{events:?}");
        let last = events.last().unwrap();
        assert_eq!((&last["event"], &last["failed"]), (&"restored".into(), &0.into()));
        let raised =
            |event: &Value| event["event"] == "priority-changed" && event["to"] == "real-time 40";
        let raised = events.iter().find(|event| raised(event));
        let waiter = &raised.unwrap_or_else(|| panic!("{events:?}"))["waiter"];
        assert_eq!(waiter["pid"], std::process::id());
    }
}

#[test]
fn after_kill_9_restore_or_the_next_guard_restores_all_settings() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    let file = hosts.file("guard.toml", CONFIG);
    let killed = || {
        let mut guard = hosts.start(&["irq", "guard", &file]);
        while_waiting(&hosts, || {
            wait_for("priority 40", || hosts.priority() == Some(40));
            guard.0.kill().unwrap();
            guard.0.wait().unwrap();
        });
        assert_eq!(hosts.priority(), Some(40), "no process has restored it");
        assert!(hosts.journal().exists());
    };
    killed();
    let thread = hosts.thread().unwrap();
    let restored = hosts.irq(&["--restore", "--json"]);
    let json: Value = serde_json::from_str(&restored.out).unwrap();
    assert_eq!((restored.code, &json["ok"]), (0, &true.into()), "{restored:?}");
    let ids: Vec<&str> =
        json["restored"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, ["napi-priority", "threaded-napi"]);
    assert_eq!(hosts.thread(), None, "thread {thread}");
    assert!(hosts.is_clean());
    assert_eq!(hosts.irq(&["--restore"]).out, "nothing to restore\n");

    killed();
    let guard = hosts.start(&["irq", "guard", &file]);
    wait_for("the floor", || hosts.priority() == Some(0));
    guard.signal(Signal::SIGTERM);
    wait_for("softirq", || hosts.thread().is_none() && hosts.is_clean());
}

#[test]
fn a_dry_run_prints_the_changes_and_applies_none() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    let file = hosts.file("guard.toml", CONFIG);
    while_waiting(&hosts, || {
        let ran = hosts.irq(&[&file, "--dry-run"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        for part in [
            "would    eth0: reception in a dedicated thread (threaded NAPI): 0 -> 1",
            "would    eth0: normal -> real-time 40, ",
        ] {
            assert!(ran.out.contains(part), "{part}: {ran:?}");
        }
        let json: Value =
            serde_json::from_str(&hosts.irq(&[&file, "--dry-run", "--json"]).out).unwrap();
        assert_eq!(json["changes"][0]["id"], "threaded-napi", "{json}");
        assert_eq!(json["events"][0]["to"], "real-time 40", "{json}");
    });
    assert_eq!(hosts.thread(), None);
    assert!(hosts.is_clean());
}

/// The socket is named as `ss` prints it.
#[test]
fn a_socket_of_ss_is_explained() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    let budget = "[[guard.budget]]\ncommand = \"another\"\nus-per-second = 1000\n[[guard.budget]]\nus-per-second = 2000\n";
    let file = hosts.file("guard.toml", &format!("{CONFIG}{budget}"));
    while_waiting(&hosts, || {
        let mut ss = Command::new("ss");
        ss.args(["-uanHe", "sport", "=", ":9000"]);
        let listed = hosts.listener().start_in(&mut ss).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let words: Vec<&str> = listed.split_whitespace().collect();
        let with = |prefix| words.iter().find(|word| word.starts_with(prefix)).unwrap();
        let address = words.iter().find(|word| word.ends_with(":9000")).unwrap();
        for name in [format!("udp:{address}").as_str(), with("ino:"), with("sk:")] {
            let ran = hosts.irq(&[&file, "--explain", name]);
            let pid = std::process::id();
            assert_eq!(ran.code, 0, "{name}: {ran:?}");
            for part in [
                format!("socket   udp 192.0.2.2:9000 ({} {})", with("ino:"), with("sk:")),
                format!(": its processes wait for eth0; open in process {pid}\n"),
                format!("process {pid} ("),
                "budget   2000 us per second, by [[guard.budget]] 2\n".to_owned(),
                " waits at real-time 40".to_owned(),
                "eth0: no NAPI threads now; real-time 40 for thread ".to_owned(),
            ] {
                assert!(ran.out.contains(&part), "{name}: {part}: {ran:?}");
            }
            let ran = hosts.irq(&[&file, "--explain", name, "--json"]);
            let json: Value = serde_json::from_str(&ran.out).unwrap();
            assert_eq!(json["sockets"][0]["interfaces"][0], "eth0", "{json}");
            assert_eq!(json["processes"][0]["budget"], 2, "{json}");
        }
    });
    let ran = hosts.irq(&[&file, "--explain", "udp:192.0.2.2:9000"]);
    assert!(ran.code == 2 && ran.err.contains("no process has a socket"), "{ran:?}");
    assert!(hosts.is_clean());
}

#[test]
fn a_guard_that_cannot_start_reports_the_cause() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    for (name, text, expected) in [
        ("no-table.toml", "[node]\nname = \"a\"\n", "guard is missing"),
        ("no-such.toml", "[guard]\ninterfaces = [\"eth7\"]\n", "interface \"eth7\" not found"),
        (
            "floor.toml",
            "[guard]\ninterfaces = [\"eth0\"]\nfloor = \"fifo 0\"\n",
            "invalid priority",
        ),
        ("lo.toml", "[guard]\ninterfaces = [\"lo\"]\n", "interface \"lo\" cannot be guarded"),
    ] {
        let file = hosts.file(name, text);
        let ran = hosts.irq(&[&file]);
        assert!(ran.code == 2 && ran.err.contains(expected), "{name}: {ran:?}");
        assert!(hosts.is_clean(), "{name}");
    }
}

/// The guard runs with the node, and stops with it.
#[test]
fn a_node_guards_while_it_runs() {
    if !possible() {
        return;
    }
    let hosts = Hosts::new();
    let node = "[node]\nbackend = \"packet\"\n[[port]]\nname = \"p\"\ninterface = \"eth0\"\n";
    let file = hosts.file("guarded.toml", &format!("{node}{CONFIG}"));
    let mut guard = hosts.start(&["run", &file]);
    while_waiting(&hosts, || wait_for("priority 40", || hosts.priority() == Some(40)));
    guard.signal(Signal::SIGTERM);
    assert!(guard.0.wait().unwrap().success());
    assert_eq!(hosts.thread(), None);
    assert!(hosts.is_clean());

    // An error of the guard prevents the node from starting; an interface that is absent does not.
    let file = hosts.file("wrong.toml", &format!("{node}[guard]\ninterfaces = [\"lo\"]\n"));
    let ran = run_in(hosts.listener(), &["run", &file]);
    assert!(ran.code == 2 && ran.err.contains("interface \"lo\" cannot be guarded"), "{ran:?}");
    let file = hosts.file("absent.toml", &format!("{node}[guard]\ninterfaces = [\"eth7\"]\n"));
    let mut waits = hosts.start(&["run", &file]);
    wait_for("a node that waits for the interface of its guard", || {
        run_in(hosts.listener(), &["show", "absent"]).code == 0
    });
    waits.signal(Signal::SIGTERM);
    assert!(waits.0.wait().unwrap().success());
}

//! `onbeat doctor --fix`, `--hold` and `--restore`, on hosts made of files and on a veth.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::onbeat;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use onbeat_netdev::{Ethtool, PrivateMounts, napi};
use onbeat_testing::documents::check_documented_keys;
use onbeat_testing::{CommandOutput, Feature, TemporaryDirectory, require_all, veth_with_napi};

const THROTTLING: &str = "proc/sys/kernel/sched_rt_runtime_us";
const JOURNAL: &str = "run/onbeat/realtime/journal.json";

/// A host made of files: two CPUs with reduced frequency, an interface with two interrupts.
struct Host(TemporaryDirectory);

impl Host {
    fn new(name: &str) -> Host {
        let host = Host(TemporaryDirectory::new(name));
        for (path, text) in FILES {
            host.write(path, text);
        }
        fs::create_dir_all(host.path("sys/class/net/eth9/device/msi_irqs/40")).unwrap();
        host
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.file(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap().trim().to_owned()
    }

    fn all(&self) -> Vec<String> {
        FILES.iter().map(|(path, _)| self.read(path)).collect()
    }

    fn doctor(&self, arguments: &[&str]) -> Command {
        let mut command = onbeat();
        command.arg("doctor").arg("--root").arg(self.path("")).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.doctor(arguments).output().unwrap().into()
    }
}

const FILES: [(&str, &str); 6] = [
    ("sys/devices/system/cpu/online", "0-1"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil"),
    (THROTTLING, "950000"),
    ("proc/irq/40/smp_affinity_list", "0-1"),
    ("proc/irq/41/smp_affinity_list", "0"),
];
const INTERRUPTS: &str = " 41:   1  0  PCI-MSI 1-edge  eth9-TxRx-0\n";
const BEFORE: [&str; 6] = ["0-1", "powersave", "schedutil", "950000", "0-1", "0"];
const FIXED: [&str; 6] = ["0-1", "performance", "performance", "-1", "1", "1"];

fn json(ran: &CommandOutput) -> serde_json::Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn a_host_is_fixed_and_restored() {
    let host = Host::new("fix");
    host.write("proc/interrupts", INTERRUPTS);
    let dry = host.run(&["--fix", "--dry-run", "eth9", "--cpu", "1"]);
    assert_eq!((dry.code, host.all()), (0, BEFORE.map(str::to_owned).to_vec()), "{dry:?}");
    assert!(
        dry.out.contains("would    CPU frequency governor: powersave -> performance"),
        "{dry:?}"
    );
    assert!(!dry.out.contains("restore with"), "{dry:?}");

    let ran = host.run(&["--fix", "eth9", "--cpu", "1"]);
    assert_eq!((ran.code, host.all()), (0, FIXED.map(str::to_owned).to_vec()), "{ran:?}");
    for line in [
        "changed  throttling of real-time tasks: 950000 -> -1",
        "changed  eth9: CPUs of its interrupts: 0-1 -> 1",
        "/proc/irq/41/smp_affinity_list",
        "restore with: onbeat doctor --restore",
    ] {
        assert!(ran.out.contains(line), "{line}: {ran:?}");
    }
    let again = json(&host.run(&["--fix", "eth9", "--cpu", "1", "--json"]));
    assert_eq!(
        (&again["ok"], &again["changes"], &again["undo"]),
        (&true.into(), &serde_json::json!([]), &serde_json::Value::Null)
    );

    let restored = json(&host.run(&["--restore", "--json"]));
    assert_eq!(restored["restored"].as_array().unwrap().len(), 5, "{restored}");
    check_documented_keys("Restored settings", &restored);
    check_documented_keys("Restored setting", &restored["restored"][0]);
    assert_eq!((&restored["ok"], host.all()), (&true.into(), BEFORE.map(str::to_owned).to_vec()));
    let nothing = host.run(&["--restore"]);
    assert_eq!((nothing.code, nothing.out.as_str()), (0, "nothing to restore\n"));
    assert!(!host.path("run/onbeat/realtime").exists());
}

#[test]
fn json_lists_each_change_with_its_cost() {
    let host = Host::new("json");
    let ran = json(&host.run(&["--fix", "--only", "rt-throttling", "--json"]));
    let change = &ran["changes"][0];
    check_documented_keys("Changes of doctor", &ran);
    check_documented_keys("Change", change);
    assert_eq!(ran["changes"].as_array().unwrap().len(), 1, "{ran}");
    for (key, value) in [
        ("id", "rt-throttling"),
        ("where", "/proc/sys/kernel/sched_rt_runtime_us"),
        ("before", "950000"),
        ("after", "-1"),
        ("outcome", "changed"),
    ] {
        assert_eq!(change[key], value, "{ran}");
    }
    assert!(change["cost"].as_str().is_some_and(|cost| !cost.is_empty()), "{ran}");
    assert_eq!(ran["undo"], "onbeat doctor --restore");
}

/// A change that fails: the write succeeds without an effect.
#[test]
fn a_failed_change_restores_all_unless_keep_going_is_set() {
    let host = Host::new("fail");
    // Writes are discarded, as by a driver that accepts no value.
    let stubborn = host.path(THROTTLING);
    fs::remove_file(&stubborn).unwrap();
    std::os::unix::fs::symlink("/dev/null", &stubborn).unwrap();
    let governors = || -> Vec<String> { host.all()[1..3].to_vec() };

    let ran = host.run(&["--fix"]);
    assert_eq!(
        (ran.code, governors()),
        (1, vec!["powersave".into(), "schedutil".into()]),
        "{ran:?}"
    );
    assert!(ran.out.contains("undone   CPU frequency governor"), "{ran:?}");
    assert!(ran.out.contains("FAILED   throttling of real-time tasks"), "{ran:?}");
    assert!(ran.out.contains("-1 was written without an error, but the value is"), "{ran:?}");
    assert!(!host.path(JOURNAL).exists());

    let ran = host.run(&["--fix", "--keep-going"]);
    assert_eq!((ran.code, governors()), (1, vec!["performance".to_owned(); 2]), "{ran:?}");
    assert_eq!(host.run(&["--restore"]).code, 0);
    assert_eq!(governors(), ["powersave", "schedutil"]);
}

/// The throttling file is a pipe: the program blocks between its changes until this test reads.
#[test]
fn restore_after_kill_9_between_two_changes_restores_all() {
    let host = Host::new("kill");
    host.write("proc/interrupts", INTERRUPTS);
    let pipe = host.path(THROTTLING);
    fs::remove_file(&pipe).unwrap();
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let mut killed = ChildGuard(host.doctor(&["--fix", "eth9", "--cpu", "1"]).spawn().unwrap());
    // The program reads the settings,
    OpenOptions::new().write(true).open(&pipe).unwrap().write_all(b"950000").unwrap();
    // and opens the pipe for writing at that change.
    let open = OpenOptions::new().read(true).open(&pipe).unwrap();
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    drop(open);
    fs::remove_file(&pipe).unwrap();
    host.write(THROTTLING, "950000");
    let now = host.all();
    assert_eq!(now[1..5], ["performance", "performance", "950000", "0-1"], "in the middle");
    assert!(host.path(JOURNAL).exists());

    let ran = host.run(&["--restore"]);
    assert_eq!((ran.code, host.all()), (0, BEFORE.map(str::to_owned).to_vec()), "{ran:?}");
    assert!(!host.path(JOURNAL).exists());
}

/// A child that does not outlive its test.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn settings_are_held_while_a_command_runs() {
    let host = Host::new("hold");
    host.write("dev/cpu_dma_latency", "");
    let throttling = host.path(THROTTLING);
    let run = |code: &str| {
        let script = format!("cat {}; exit {code}", throttling.display());
        host.run(&["--fix", "--hold", "--latency-us", "7", "--", "sh", "-c", &script])
    };
    for (code, expected) in [("0", 0), ("3", 1)] {
        let ran = run(code);
        assert_eq!((ran.code, host.read(THROTTLING)), (expected, "950000".into()), "{ran:?}");
        assert!(ran.out.ends_with("\n-1"), "{ran:?}");
        assert!(ran.out.contains("\nrestored on exit; "), "{ran:?}");
        assert!(!ran.out.contains("until the next boot"), "{ran:?}");
        assert!(!host.path(JOURNAL).exists());
    }
    assert_eq!(fs::read(host.path("dev/cpu_dma_latency")).unwrap(), 7_i32.to_ne_bytes());
    let ran = host.run(&["--fix", "--hold", "--", "no-such-program"]);
    assert_eq!((ran.code, host.read(THROTTLING)), (2, "950000".into()), "{ran:?}");
    assert!(ran.err.contains("cannot start \"no-such-program\""), "{ran:?}");
}

#[test]
fn the_end_of_a_session_restores_all() {
    let host = Host::new("session");
    host.write("dev/cpu_dma_latency", "");
    for (signal, command) in [
        (Signal::SIGINT, &[][..]),
        (Signal::SIGTERM, &[]),
        // The command receives the signal, and the session ends after it.
        (Signal::SIGTERM, &["--", "sh", "-c", "echo holding; exec sleep 1000"]),
    ] {
        let mut doctor = host.doctor(&["--fix", "--hold"]);
        doctor.args(command).stdout(Stdio::piped());
        let mut session = ChildGuard(doctor.spawn().unwrap());
        wait_for(session.0.stdout.as_mut().unwrap(), "holding");
        assert_eq!(host.read(THROTTLING), "-1");
        let refused = host.run(&["--restore"]);
        assert_eq!((refused.code, host.read(THROTTLING)), (2, "-1".into()), "{refused:?}");
        let pid = session.0.id();
        let holds = refused.err.contains(&format!("process {pid} ("));
        assert!(holds && refused.err.contains("--fix --hold"), "{refused:?}");

        kill(Pid::from_raw(session.0.id() as i32), signal).unwrap();
        let status = session.0.wait().unwrap();
        assert_eq!(status.code(), Some(i32::from(!command.is_empty())), "{signal} {command:?}");
        assert_eq!(host.read(THROTTLING), "950000");
        assert!(!host.path(JOURNAL).exists());
    }
}

/// Reads until the text came.
fn wait_for(out: &mut impl Read, text: &str) {
    let (mut seen, mut octet) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&seen).contains(text) {
        assert_eq!(out.read(&mut octet).unwrap(), 1, "{:?}", String::from_utf8_lossy(&seen));
        seen.push(octet[0]);
    }
}

/// In a network namespace with a veth pair, with a /run of its own; nothing of the host.
#[test]
fn a_veth_is_fixed_and_restored_by_the_program() {
    if !require_all(&[Feature::Root, Feature::Veth, Feature::Kernel(6, 8)]) {
        return;
    }
    const ONLY: &str =
        "offloads,coalescing,energy-efficient,threaded-napi,napi-priority,napi-affinity";
    let handle = veth_with_napi();
    let ethtool = Ethtool::in_namespace(handle.namespace()).unwrap();
    let before = ethtool.features("rt0").unwrap();

    let in_namespace = || {
        let _mounts = PrivateMounts::enter().unwrap();
        mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        let doctor = |arguments: &[&str]| -> CommandOutput {
            onbeat().arg("doctor").args(arguments).output().unwrap().into()
        };
        let ran = doctor(&["--fix", "rt0", "--cpu", "0", "--only", ONLY, "--json"]);
        let report = json(&ran);
        assert_eq!((ran.code, &report["ok"]), (0, &true.into()), "{report}");
        let changes = report["changes"].as_array().unwrap();
        for id in ["offloads", "threaded-napi", "napi-priority"] {
            let change = changes.iter().find(|change| change["id"] == id);
            assert_eq!(change.unwrap_or_else(|| panic!("{id}: {report}"))["outcome"], "changed");
        }
        let threads: Vec<u32> = napi::instances(&handle, "rt0")
            .unwrap()
            .unwrap()
            .iter()
            .filter_map(|one| one.pid)
            .collect();
        for pid in &threads {
            assert_eq!(scheduled(*pid), ("50".into(), "1".into()), "priority, SCHED_FIFO");
        }
        assert!(!threads.is_empty());
        assert!(Path::new("/run/onbeat/realtime/journal.json").exists());

        let ran = doctor(&["--restore"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let left = napi::instances(&handle, "rt0").unwrap().unwrap();
        assert!(left.iter().all(|one| one.pid.is_none()), "{left:?}");
        assert!(!Path::new("/run/onbeat/realtime/journal.json").exists());
    };
    handle.namespace().run(in_namespace).unwrap();
    assert_eq!(ethtool.features("rt0").unwrap(), before);
}

/// The messages about damaged journals of claims and taps name this command.
#[test]
fn damaged_journals_of_interfaces_are_discarded() {
    const DAMAGED: [&str; 2] = ["run/onbeat/claims/eth0.json", "run/onbeat/taps/77/eth1.json"];
    let host = Host::new("interfaces");
    for path in DAMAGED {
        host.write(path, "{");
    }
    host.write("run/onbeat/claims/note.txt", "stays");
    let ran = host.run(&["--restore", "--forget"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for path in DAMAGED {
        let aside = host.path(&format!("{path}.damaged"));
        assert!(!host.path(path).exists() && aside.exists(), "{path}: {ran:?}");
        assert!(ran.err.contains(&format!("{aside:?}")), "{ran:?}");
    }
    assert_eq!(host.read("run/onbeat/claims/note.txt"), "stays");
    let again = host.run(&["--restore", "--forget"]);
    assert_eq!((again.code, again.err.as_str()), (0, ""), "{again:?}");
}

/// Real-time priority and policy of a thread, as /proc has them.
fn scheduled(pid: u32) -> (String, String) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The fields behind the name: the first is number 3, the state.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[40 - 3].to_owned(), fields[41 - 3].to_owned())
}

#[test]
fn a_fix_that_cannot_start_reports_the_cause() {
    let host = Host::new("cannot");
    for (arguments, expected) in [
        (&["--fix", "eth7"][..], "interface \"eth7\" not found; interfaces here: eth9"),
        (&["--fix", "--hold"], "dev/cpu_dma_latency at 0 us: No such file"),
    ] {
        let ran = host.run(arguments);
        assert_eq!((ran.code, host.all()[1].as_str()), (2, "powersave"), "{ran:?}");
        assert!(ran.err.contains(expected), "{ran:?}");
    }
    let ran = host.run(&["--fix", "eth9", "--cpu", "5", "--only", "irq-affinity"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("CANNOT   CPUs 5 are not all online; online CPUs: 0-1"), "{ran:?}");
    host.write(JOURNAL, "{");
    let ran = host.run(&["--restore"]);
    let expected = "cannot be used: it is not a journal";
    assert!(ran.code == 2 && ran.err.contains(expected), "{ran:?}");
}

//! The systemd unit and its drop-ins: valid, as the program describes them, and sufficient for each feature.

mod sandbox;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use onbeat_node::service::{DROP_INS, DropIn, EXIT_CONFIG};
use onbeat_testing::{
    CommandOutput, Feature, TemporaryDirectory, command, require, require_that, root,
};

use crate::common::program;
use sandbox::{Network, Sandbox, Service, ServiceExit};

/// A unit or drop-in: key and value of each line, in order.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn read(path: &Path) -> Unit {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let line = |line: &str| {
            let (key, value) = line.split_once('=')?;
            (!line.starts_with('#')).then(|| (key.to_owned(), value.to_owned()))
        };
        Unit(text.lines().filter_map(line).collect())
    }

    fn values(&self, key: &str) -> Vec<&str> {
        let of_key = self.0.iter().filter(|(known, _)| known == key);
        of_key.map(|(_, value)| value.as_str()).collect()
    }
}

fn unit() -> Unit {
    Unit::read(&root().join("packaging/onbeat@.service"))
}

fn drop_in(file: &str) -> Unit {
    Unit::read(&root().join("packaging/systemd").join(file))
}

/// The limits that the kernel enforces of a unit with these drop-ins.
fn sandbox(drop_ins: &[&str]) -> Sandbox {
    let mut unit = unit();
    for file in drop_ins {
        unit.0.extend(drop_in(file).0);
    }
    let words = |key| -> BTreeSet<String> {
        unit.values(key).iter().flat_map(|value| value.split(' ')).map(str::to_owned).collect()
    };
    assert_eq!(unit.values("NoNewPrivileges"), ["yes"]);
    assert_eq!(unit.values("PrivateDevices"), ["yes"]);
    let devices = words("BindPaths").into_iter().filter(|path| path.contains("/dev/"));
    let devices = devices.map(|path| path.trim_start_matches('-').into());
    let paths = |key, writable| {
        words(key).into_iter().map(move |path| (PathBuf::from(path), writable)).collect::<Vec<_>>()
    };
    Sandbox {
        paths: [paths("ReadOnlyPaths", false), paths("ReadWritePaths", true)].concat(),
        capabilities: words("CapabilityBoundingSet"),
        memory_limit: unit.values("LimitMEMLOCK").last().map(|value| (*value).to_owned()),
        priority_limit: unit.values("LimitRTPRIO").last().map(|value| (*value).to_owned()),
        devices: devices.collect(),
    }
}

#[test]
fn the_drop_ins_are_those_of_the_program() {
    let files = fs::read_dir(root().join("packaging/systemd")).expect("packaging/systemd");
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, DROP_INS.iter().map(|drop_in| drop_in.file.to_owned()).collect());
    for known in DROP_INS {
        let settings = drop_in(known.file).0;
        let settings: Vec<(&str, &str)> =
            settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(settings, known.settings, "{}", known.file);
    }
}

#[test]
fn systemd_analyze_accepts_the_units_without_privileges() {
    let tool = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !require_that(tool, "systemd-analyze (apt-get install systemd)") {
        return;
    }
    let units = TemporaryDirectory::new("metrics-units");
    let names = [
        "onbeat-metrics.service",
        "onbeat-metrics.socket",
        "onbeat-hook@.service",
        "onbeat-fleet-agent@.service",
    ];
    for name in names {
        let text = fs::read_to_string(root().join("packaging").join(name)).unwrap();
        // Not of an installed program.
        let text = text.replace("/usr/bin/onbeat", program().to_str().unwrap());
        fs::write(units.file(name), text).unwrap();
    }
    let mut analyze = Command::new("systemd-analyze");
    analyze.env("SYSTEMD_UNIT_PATH", format!("{}:", units.path().display()));
    analyze.args(["verify", "--man=no"]).arg(units.file("onbeat-metrics.socket"));
    analyze.arg(units.file("onbeat-hook@.service")).arg(units.file("onbeat-fleet-agent@.service"));
    let ran: CommandOutput = analyze.output().unwrap().into();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
}

#[test]
fn the_unit_does_not_restart_after_permanent_errors() {
    let unit = unit();
    assert_eq!(unit.values("RestartPreventExitStatus"), [EXIT_CONFIG.to_string()]);
    assert_eq!(unit.values("Restart"), ["always"]);
    // Each would be restarted without end: systemd reads the status of the main process alone.
    for (key, _) in &unit.0 {
        assert!(!["ExecStartPre", "ExecStartPost"].contains(&key.as_str()), "{key}");
    }
}

/// Some settings of the kernel start a program as root (core_pattern), and the manager executes what a process of
/// user 0 requests on its socket. tests/soak/units tries both.
#[test]
fn the_unit_has_no_settings_of_the_kernel_and_no_sockets_of_other_services() {
    let unit = unit();
    assert_eq!(unit.values("ReadOnlyPaths"), ["/proc /sys /etc/onbeat"]);
    assert_eq!(unit.values("ReadWritePaths"), ["/sys/fs/bpf"]);
    assert_eq!(unit.values("TemporaryFileSystem"), ["/run:ro"]);
    let paths = "/run/onbeat -/run/onbeat-readers -/run/onbeat-managers /run/systemd/notify -/run/systemd/journal/socket";
    assert_eq!(unit.values("BindPaths"), [paths]);
    assert_eq!(unit.values("BindReadOnlyPaths"), ["-/run/udev -/run/ptp"]);
    // systemd 257 makes /sys writable with it.
    assert!(unit.values("ProtectControlGroups").is_empty());
}

/// With each drop-in alone and with all.
#[test]
fn systemd_analyze_reports_no_error() {
    let tool = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !require_that(tool, "systemd-analyze (apt-get install systemd)") {
        return;
    }
    let all: Vec<&str> = DROP_INS.iter().map(|drop_in| drop_in.file).collect();
    let each = all.iter().map(|file| vec![*file]);
    for drop_ins in [vec![], all.clone()].into_iter().chain(each) {
        let units = TemporaryDirectory::new("units");
        let file = |name: &str| units.file(name);
        let text = fs::read_to_string(root().join("packaging/onbeat@.service")).unwrap();
        let text = text.replace("/usr/bin/onbeat", program().to_str().unwrap());
        fs::write(file("onbeat@bridge.service"), text).unwrap();
        fs::create_dir(file("onbeat@.service.d")).unwrap();
        for name in &drop_ins {
            let from = root().join("packaging/systemd").join(name);
            fs::copy(from, file("onbeat@.service.d").join(name)).unwrap();
        }
        let analyze = |arguments: &[&str]| {
            let mut command = Command::new("systemd-analyze");
            command.env("SYSTEMD_UNIT_PATH", format!("{}:", file("").display()));
            let done = command.args(arguments).arg(file("onbeat@bridge.service")).output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success() && said.is_empty(), "{drop_ins:?}: {said}");
        };
        analyze(&["verify", "--man=no"]);
        // Of 10, where 10 is a unit without any restriction.
        analyze(&["security", "--offline=yes", "--no-pager", "--threshold=35"]);
    }
}

/// `text` describes the `[node]` table and what follows; the ports and a stream are added.
fn configuration(text: &str) -> String {
    format!(
        r#"{text}
[[port]]
name = "talker"
interface = "talker"
[[port]]
name = "path1"
interface = "path1"
[[stream]]
name = "axis"
member = [{{ port = "talker", identify = {{ type = "null", destination = "01:00:5e:00:02:00" }} }}]
egress = [{{ port = "path1", tag = "none" }}]
"#
    )
}

const REALTIME: &str = "[node]\nbackend = \"packet\"\n\
    realtime = { scheduling = \"fifo 49\", cpus = \"0\", lock-memory = true, dma-latency-us = 0 }";
const XSK: &str = "[node]\nbackend = \"xsk\"";
const GUARD: &str = "[node]\nbackend = \"packet\"\n[guard]\ninterfaces = [\"path1\"]\ncpus = \"0\"";
const BUDGET: &str = "[node]\nbackend = \"packet\"\n[guard]\ninterfaces = [\"path1\"]\n\
    [[guard.budget]]\ncommand = \"iperf3\"\nus-per-second = 100000";

/// Runs a configuration with the unit and these drop-ins, until it is ready or exits.
fn start(name: &str, text: &str, drop_ins: &[&str]) -> Result<(), ServiceExit> {
    let directory = TemporaryDirectory::new(&format!("service-{name}"));
    let file = directory.file(format!("{name}.toml"));
    fs::write(&file, configuration(text)).expect("a configuration");
    let network = Network::new();
    let service = Service::start(&network, &sandbox(drop_ins), &file, &directory);
    service.ready_then_stop()
}

fn can_run() -> bool {
    let tools = ["setpriv", "prlimit"];
    let tools = tools.iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    require(Feature::Root) && require(Feature::Veth) && require_that(tools, "setpriv (util-linux)")
}

#[test]
fn the_unit_suffices_for_the_kernel_data_plane_and_packet_sockets() {
    if !can_run() || !require(Feature::Btf) {
        return;
    }
    for (name, text) in [("unit-xdp", ""), ("unit-packet", "[node]\nbackend = \"packet\"")] {
        start(name, text, &[]).unwrap_or_else(|ended| panic!("{name}: {ended:?}"));
    }
}

/// Checks that a feature starts with its drop-in. Without it, the message names the drop-in and its feature, and
/// the exit status prevents systemd from restarting the service.
fn requires(name: &str, text: &str, file: &str, feature: &str) {
    start(name, text, &[file]).unwrap_or_else(|ended| panic!("{name} with {file}: {ended:?}"));
    let ServiceExit { code, err } = start(name, text, &[]).expect_err("without the drop-in");
    assert_eq!(code, Some(i32::from(EXIT_CONFIG)), "{err}");
    let remedy = format!("onbeat@{name}.service requires the drop-in {file} ({feature}); ");
    assert!(err.contains(&remedy), "{err}");
}

#[test]
fn xsk_requires_its_drop_in() {
    if can_run() && require(Feature::Btf) {
        requires("unit-xsk", XSK, "xsk.conf", "backend = \"xsk\"");
    }
}

#[test]
fn realtime_requires_its_drop_in() {
    let device = Path::new("/dev/cpu_dma_latency").exists();
    if can_run() && require_that(device, "/dev/cpu_dma_latency (CONFIG_CPU_IDLE)") {
        requires("unit-realtime", REALTIME, "realtime.conf", "node.realtime");
    }
}

#[test]
fn the_guard_requires_its_drop_in() {
    if can_run() && require(Feature::Btf) {
        requires("unit-guard", GUARD, "guard.conf", "[guard]");
        requires("unit-budget", BUDGET, "guard.conf", "[guard]");
    }
}

#[test]
fn a_refused_file_causes_no_restart() {
    if !can_run() {
        return;
    }
    let ended = start("unit-faulty", "[nod]", &[]).expect_err("it has a fault");
    assert_eq!(ended.code, Some(i32::from(EXIT_CONFIG)), "{ended:?}");
    // The other half of its pair may come.
    let half = "[[port]]\nname = \"half\"\ninterface = \"lo\"\ncreate = \"veth\"";
    let ended = start("unit-half", half, &[]).expect_err("lo-frer does not exist");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    // It runs with the other interfaces.
    let absent = "[[port]]\nname = \"absent\"\ninterface = \"absent\"";
    start("unit-absent", absent, &[]).expect("the others are there");
}

#[test]
fn a_check_names_the_drop_ins_that_a_file_requires() {
    // Installed in a prefix that is no single word of a shell.
    let directory = TemporaryDirectory::new("service-check");
    let prefix = directory.file("it's a prefix");
    let installed = prefix.join("bin/onbeat");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::copy(program(), &installed).unwrap();
    let file = directory.file("unit-check.toml");
    let check = |text: &str| -> CommandOutput {
        fs::write(&file, configuration(text)).unwrap();
        let ran = command(&installed).args(["run", "--check"]).arg(&file).output().unwrap();
        let ran = CommandOutput::from(ran);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{text}");
        ran
    };
    assert!(!check("").out.contains("drop-in"));
    let all = format!("{XSK}\n[guard]\ninterfaces = [\"path1\"]");
    let out = check(&all).out;
    for line in ["xsk.conf, for backend = \"xsk\"", "guard.conf, for [guard]"] {
        assert!(out.contains(&format!("\n  systemd drop-in {line}\n")), "{out}");
    }
    assert!(out.contains("share/onbeat/systemd\" has no such files"), "{out}");
    let shared = prefix.join("share/onbeat/systemd");
    fs::create_dir_all(&shared).unwrap();
    for DropIn { file, .. } in DROP_INS {
        fs::copy(root().join("packaging/systemd").join(file), shared.join(file)).unwrap();
    }
    let out = check(&all).out;
    // The command line, with another directory of units.
    let (_, commands) = out.split_once("install them: ").expect(&out);
    let units = directory.file("units");
    let commands = commands.trim_end().replace("/etc/systemd/system", units.to_str().unwrap());
    let commands = commands.strip_suffix(" && systemctl daemon-reload").expect(&out);
    assert!(Command::new("sh").args(["-c", commands]).status().unwrap().success(), "{commands}");
    for name in ["xsk.conf", "guard.conf"] {
        let link = fs::read_link(units.join("onbeat@unit-check.service.d").join(name)).unwrap();
        assert_eq!(link, shared.join(name));
    }
}

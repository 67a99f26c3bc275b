//! The clock of the host: ptp4l of linuxptp, whose frames pass through a port of a node, as pmc and `onbeat` read it.
//!
//! ```text
//!   host eth0 --- host [ a ] path1 (ptp4l: slave) --- eth0 path1 (ptp4l: master)
//!                            path2 --- eth0 path2
//! ```
//!
//! Both have software time stamps of one clock, which they have no right to set. The node protects all frames of its host but
//! those of PTP: a message of one path is wrong on the other.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_host::ptp::{PtpState, PtpStatus};
use onbeat_lab::World;
use onbeat_lab::world::die_with_parent;
use onbeat_node::metrics::{Collector, exposition};
use onbeat_testing::{TemporaryDirectory, require_that};
use serde_json::Value;

use crate::common::{
    Capture, FrameText, GROUP, Injector, PORTS, VLAN, can_run, one_node, replicate, run, show,
    start, wait_for,
};

const PTP: u16 = 0x88f7;
const OTHER: &str = "01:00:5e:00:00:02";

const SOCKET: &str = "/run/ptp4l";

/// Layer 2, a servo that locks by its second sample, and one Sync message in two seconds.
const CONFIG: &str = "[global]\nnetwork_transport L2\ntime_stamping software\npi_proportional_const 0.7\n\
                      pi_integral_const 0.3\nlogSyncInterval 1\nlogAnnounceInterval -2\n";

/// All frames of the host are numbered, and leave on both paths.
const ALL: &str = r#"
[[stream]]
name = "all"
generate = true
member = [{ port = "host", identify = { type = "all" } }]
egress = [{ port = "path1", tag = "r-tag" }, { port = "path2", tag = "r-tag" }]
"#;

/// The EtherType of a frame, and whether an R-TAG precedes it.
fn ether_type(frame: &[u8]) -> (bool, u16) {
    let at = |octet: usize| u16::from_be_bytes([frame[octet], frame[octet + 1]]);
    match at(12) {
        0xf1c1 => (true, at(18)),
        other => (false, other),
    }
}

pub(crate) fn has_ptp4l() -> bool {
    ["ptp4l", "pmc"].iter().all(|tool| Command::new(tool).arg("-v").output().is_ok())
}

/// A running ptp4l.
pub(crate) struct Ptp4l(Child);

impl Ptp4l {
    pub(crate) fn start(
        world: &World,
        (namespace, interface): (&str, &str),
        (directory, name): (&TemporaryDirectory, &str),
        more: &str,
    ) -> Self {
        let file = |extension: &str| directory.file(format!("{name}.{extension}"));
        fs::write(file("cfg"), format!("{CONFIG}{more}")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-sys_time", "--inh-caps=-sys_time", "ptp4l", "-m", "-f"]);
        command.arg(file("cfg")).args(["-i", interface]).stdin(Stdio::null());
        command.stdout(fs::File::create(file("log")).unwrap()).stderr(Stdio::null());
        die_with_parent(&mut command);
        Self(world.namespace(namespace).unwrap().start_in(&mut command).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Ptp4l {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line of what pmc prints of the slave.
fn pmc(data: &str, key: &str) -> String {
    let request = format!("GET {data}");
    let output = Command::new("pmc").args(["-u", "-b", "0", "-s", SOCKET, &request]).output();
    let output = String::from_utf8(output.unwrap().stdout).unwrap();
    let line = output.lines().find_map(|line| line.trim().strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key} in {output:?}")).trim().to_owned()
}

fn clock() -> Option<PtpStatus> {
    show("a").ptp
}

fn state() -> Option<PtpState> {
    clock().map(|clock| clock.state)
}

/// The finding of doctor.
fn finding() -> Value {
    let report: Value = serde_json::from_str(&run(&["doctor", "--json"]).out).unwrap();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["id"] == "ptp").cloned().unwrap_or_default()
}

/// The clock in the conditions of a result, and the text of that result.
fn condition() -> (Value, String) {
    let arguments = ["delay", "echo", "--bind", "127.0.0.1", "--port", "48621", "--for", "1s"];
    let json: Value =
        serde_json::from_str(&run(&[&arguments[..], &["--json"]].concat()).out).unwrap();
    (json["conditions"]["ptp"].clone(), run(&arguments).out)
}

#[test]
fn the_clock_of_ptp4l_is_reported_as_pmc_prints_it() {
    if !can_run()
        || !require_that(has_ptp4l(), "ptp4l and pmc (apt-get install linuxptp)")
        || !require_that(!fs::exists(SOCKET).unwrap(), "a host without a ptp4l of its own")
    {
        return;
    }
    let node = "[node]\nreaders = \"nogroup\"\n";
    let streams = format!("{}{ALL}", replicate("axis", GROUP, VLAN));
    let world = start(&one_node(&format!("{node}{PORTS}{streams}")));
    assert_eq!((clock(), finding()), (None, Value::Null));
    assert!(condition().0.is_null() && !condition().1.contains("PTP"));

    let directory = TemporaryDirectory::new("ptp4l");
    let mut paths = ["path1", "path2"].map(|path| Capture::open(&world, path, "eth0"));
    // It announces itself to the node as master.
    let more = format!("uds_address {}\n", directory.file("host").display());
    let _of_host = Ptp4l::start(&world, ("host", "eth0"), (&directory, "of-host"), &more);
    let own = directory.file("socket").display().to_string();
    let more = format!("priority1 10\nuds_address {own}\n");
    let master = Ptp4l::start(&world, ("path1", "eth0"), (&directory, "master"), &more);
    let more = format!("slaveOnly 1\nuds_address {SOCKET}\n");
    let slave = Ptp4l::start(&world, ("a", "path1"), (&directory, "slave"), &more);

    // All samples are within the limit, or one is not: software time stamps on a busy host.
    let is_judged = |clock: &PtpStatus| match clock.state {
        PtpState::Locked => clock.worst_offset_ns.is_some_and(|worst| worst <= 10_000),
        _ => clock.cause.as_ref().is_some_and(|cause| cause.contains("an offset exceeds 10000 ns")),
    };
    wait_for("a judgment by offsets", || clock().as_ref().is_some_and(is_judged));
    let read = clock().unwrap();
    assert_eq!((read.interface.as_deref(), read.hardware), (Some("path1"), Some(false)));
    assert_eq!(read.interface, Some(pmc("PORT_PROPERTIES_NP", "interface")));
    assert_eq!(pmc("PORT_PROPERTIES_NP", "timestamping"), "SOFTWARE");
    assert_eq!(pmc("PORT_DATA_SET", "portState"), "SLAVE");
    assert_eq!(read.grandmaster, Some(pmc("TIME_STATUS_NP", "gmIdentity")));
    assert_eq!(read.phc_offset_ns, None);
    wait_for("the offset of the same Sync message", || {
        let offset = pmc("TIME_STATUS_NP", "master_offset").parse().ok();
        clock().is_some_and(|clock| clock.offset_ns.is_some() && clock.offset_ns == offset)
    });
    wait_for("the path delay of the same message", || {
        let delay = pmc("CURRENT_DATA_SET", "meanPathDelay");
        clock().and_then(|clock| clock.path_delay_ns).is_some_and(|ns| delay == format!("{ns}.0"))
    });
    // Whatever else the host sends leaves on both paths.
    wait_for("the silence after the start ends", || {
        show("a").wildcards.iter().all(|wildcard| wildcard.silence_ms.is_none())
    });
    Injector::open(&world, "host", "eth0").send(&FrameText::new(OTHER, &[], None).octets());
    for (path, ptp) in paths.iter_mut().zip([true, false]) {
        let experiment = (true, u16::from_be_bytes(FrameText::ETHERTYPE));
        wait_for("the copy of a frame", || {
            path.take().iter().any(|frame| ether_type(frame) == experiment)
        });
        let seen = path.take();
        assert!(seen.iter().all(|frame| ether_type(frame) != (true, PTP)), "a numbered message");
        assert_eq!(seen.iter().any(|frame| ether_type(frame) == (false, PTP)), ptp);
    }
    let line = run(&["show", "a"]).out;
    let grandmaster = pmc("TIME_STATUS_NP", "gmIdentity");
    assert!(line.contains("\nPTP ") && line.contains("by path1 (software time stamps)"), "{line}");
    let found = finding();
    assert!(
        found["value"].as_str().unwrap().contains("by path1 (software time stamps)"),
        "{found}"
    );
    let page = exposition(&Collector::new(Vec::new(), 0).collect());
    for metric in ["onbeat_ptp_offset_seconds", "onbeat_ptp_path_delay_seconds"] {
        assert!(page.contains(&format!("\n{metric}{{node=\"a\"}} ")), "{metric}: {page}");
    }
    assert!(page.contains("onbeat_ptp_state{node=\"a\",state=\"silent\"} 0\n"), "{page}");

    // Results of delays have it, as far as a busy host lets the clock be locked.
    let (clock_of_result, text) = condition();
    assert!(clock_of_result["samples"].as_u64() >= Some(2), "{clock_of_result}");
    let offset = clock_of_result["worst_offset_ns"].as_u64().expect("an offset");
    let (is_locked, cause) = (&clock_of_result["locked"], &clock_of_result["cause"]);
    assert_eq!(*is_locked, offset <= 10_000 && cause.is_null(), "{clock_of_result}");
    assert_eq!(clock_of_result["state"] == "locked", *is_locked == true, "{clock_of_result}");
    assert!(text.contains("clock by PTP") && text.contains("during the measurement"), "{text}");

    let hooks = run(&["delay", "hooks", "lo", "--for", "1s", "--json"]).out;
    let hooks: Value = serde_json::from_str(&hooks).expect("a result");
    assert!(hooks["conditions"]["ptp"]["samples"].as_u64() >= Some(2), "{hooks}");

    // A ptp4l that stops disturbs no command, and is silent until it continues.
    slave.signal(Signal::SIGSTOP);
    wait_for("its silence", || state() == Some(PtpState::Silent));
    assert_eq!(finding()["level"], "warn");
    assert_eq!(
        (&condition().0["state"], &condition().0["locked"]),
        (&"silent".into(), &false.into())
    );
    assert!(run(&["show", "a"]).out.contains("PTP silent: ptp4l does not respond"));
    slave.signal(Signal::SIGCONT);
    wait_for("its response", || state().is_some_and(|state| state != PtpState::Silent));
    // Its master is gone: no port follows one.
    drop(master);
    wait_for("the loss of the master", || {
        clock().and_then(|clock| clock.cause).is_some_and(|cause| cause.contains("no port follows"))
    });
    assert!(!run(&["show", "a"]).out.contains(&grandmaster));
    assert_eq!(finding()["level"], "warn");

    // A killed one leaves its socket.
    drop(slave);
    assert!(fs::exists(SOCKET).unwrap());
    wait_for("its end", || state() == Some(PtpState::Silent));
    assert!(finding()["value"].as_str().unwrap().contains("Connection refused"));
    fs::remove_file(SOCKET).unwrap();
    wait_for("the end of its socket", || clock().is_none());
    assert_eq!(finding(), Value::Null);

    // Another ptp4l, by its socket.
    let file = "/run/onbeat/lab/a.toml";
    let text = fs::read_to_string(file).unwrap();
    let socket = directory.file("host").display().to_string();
    let key = format!("ptp-socket = {socket:?}\nreaders = ");
    fs::write(file, text.replacen("readers = ", &key, 1)).unwrap();
    let reloaded = run(&["reload", "a"]);
    assert_eq!((reloaded.code, reloaded.err.as_str()), (0, ""));
    wait_for("the clock of the host", || state() == Some(PtpState::Grandmaster));
    fs::write(file, text).unwrap();
    assert_eq!(run(&["reload", "a"]).code, 0);
    assert_eq!(clock(), None);
    assert!(!fs::exists("/run/onbeat/a.sock.ptp").unwrap());
}

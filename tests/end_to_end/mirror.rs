//! `onbeat delay mirror`, live: an interface that receives mirrored packets of both sides of a hop.
//!
//! ```text
//!   sender eth0 ---- eth0 [ router ] eth1 ---- eth0 receiver
//!                      |  tc mirred    |
//!                      +---- mon ------+
//!                            |
//!                    watcher mon: onbeat, tcpdump
//! ```

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::common::delay::{Directory, Router, can_capture, packets, result, tap, value};
use crate::common::{BOUND, CommandOutput, program, run, run_in, wait_for};
use nix::sys::signal::{self, kill};
use nix::unistd::Pid;
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::require_that;
use serde_json::Value;

/// Datagrams that are compared one by one.
const PACKETS: u32 = 500;

/// Runs `tc` in a namespace; returns its success.
fn tc(host: &Handle, line: &str) -> bool {
    let mut tc = Command::new("tc");
    tc.args(line.split_whitespace()).stderr(Stdio::null());
    host.namespace().start_in(&mut tc).status().is_ok_and(|status| status.success())
}

/// A router, with a watcher of the packets that it receives and sends.
struct MirroredRouter {
    router: Router,
    watcher: Handle,
    /// The router's own addresses, in the syntax of `--mac`.
    macs: String,
}

impl MirroredRouter {
    /// `None` if the kernel cannot mirror: the test reports it.
    fn new() -> Option<Self> {
        if !can_capture() {
            return None;
        }
        let router = Router::new();
        let watcher = Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap();
        let far = VethEnd::new("mon").namespace(router.handle.namespace());
        watcher.create_veth(&VethEnd::new("mon"), &far).unwrap();
        for host in [&watcher, &router.handle] {
            host.set_ipv6("mon", false).unwrap();
            host.set_up("mon").unwrap();
        }
        watcher.wait_carrier("mon", BOUND).unwrap();
        let mirrored = [("eth0", "ingress"), ("eth1", "egress")].iter().all(|(interface, side)| {
            let all = "protocol all u32 match u32 0 0 action mirred egress mirror dev mon";
            tc(&router.handle, &format!("qdisc add dev {interface} clsact"))
                && tc(&router.handle, &format!("filter add dev {interface} {side} {all}"))
        });
        if !require_that(mirrored, "tc with act_mirred and cls_u32") {
            return None;
        }
        let mac = |name| router.handle.link(name).unwrap().mac.unwrap().to_string();
        let macs = format!("{},{}", mac("eth0"), mac("eth1"));
        Some(Self { router, watcher, macs })
    }

    /// Starts the watcher; ready when its socket is bound.
    fn watch(&self, options: &[&str]) -> Child {
        // The fifth column is the interface; 0 before the bind.
        let sockets = || {
            let read = || fs::read_to_string("/proc/thread-self/net/packet").unwrap();
            let text = self.watcher.namespace().run(read).unwrap();
            let interfaces = text.lines().skip(1).map(|line| line.split_whitespace().nth(4));
            interfaces.filter(|interface| *interface != Some("0")).count()
        };
        let before = sockets();
        let mut onbeat = Command::new(program());
        onbeat.args(["delay", "mirror", "mon", "--mac", &self.macs, "--json", "--quiet"]);
        onbeat.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.watcher.namespace().start_in(&mut onbeat).spawn().unwrap();
        wait_for("the watcher's socket", || sockets() > before);
        child
    }
}

fn reported(child: Child) -> (i32, Value) {
    let ran: CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!(ran.err, "");
    (ran.code, serde_json::from_str(&ran.out).unwrap())
}

fn notes(found: &Value) -> String {
    found["notes"].to_string()
}

/// A capture of tcpdump on the same interface, matched offline, has identical delays.
#[test]
fn live_delays_equal_those_of_a_capture() {
    let Some(mirrored) = MirroredRouter::new() else { return };
    let directory = Directory::new("live");
    let (csv, capture) = (directory.path("live.csv"), directory.path("mon.pcap"));
    let watcher = mirrored.watch(&["--longest", "10s", "--csv", &csv]);
    let mut tcpdump = tap(&mirrored.watcher, "mon", &capture);
    wait_for("tcpdump", || {
        mirrored.router.pass(b"probe");
        fs::metadata(&capture).map_or(0, |file| file.len()) > 100
    });
    for number in 0..PACKETS {
        mirrored.router.pass(&number.to_be_bytes());
    }
    mirrored.router.pass(b"the last one");
    wait_for("the last packet, there and back", || {
        let text = fs::read(&capture).unwrap_or_default();
        text.windows(12).filter(|octets| octets == b"the last one").count() == 2
    });
    tcpdump.kill().unwrap();
    tcpdump.wait().unwrap();
    kill(Pid::from_raw(watcher.id() as i32), signal::SIGINT).unwrap();
    let (code, found) = reported(watcher);
    assert_eq!((code, packets(&found, "lost")), (0, 0), "{found:#}");
    assert!(value(&found, "delays") > f64::from(PACKETS));
    let said = notes(&found);
    assert!(said.contains("mon: stamped by the kernel, with CLOCK_MONOTONIC"), "{said}");
    assert!(said.contains("not by the NIC: "), "{said}");
    assert!(said.contains("the ring dropped no packet"), "{said}");

    let offline_csv = directory.path("offline.csv");
    let options = ["--mac", &mirrored.macs, "--longest", "10s", "--csv", &offline_csv];
    let (_, offline) = result(&[&["delay", "mirror", &capture][..], &options].concat());
    assert!(value(&offline, "delays") > f64::from(PACKETS), "{offline:#}");
    let delays = |path: &str| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let row = |line: &str| line.split_once(',').unwrap().1.to_owned();
        text.lines().skip(1).map(row).collect()
    };
    let last = |rows: &[String]| rows[rows.len() - PACKETS as usize..].to_vec();
    assert_eq!(last(&delays(&csv)), last(&delays(&offline_csv)));
}

#[test]
fn it_stops_after_a_number_and_after_a_time() {
    let Some(mirrored) = MirroredRouter::new() else { return };
    let watcher = mirrored.watch(&["--count", "200", "--longest", "100ms", "--stamps", "kernel"]);
    // No packet follows the last one: it is evaluated after the time.
    for number in 0..200_u32 {
        mirrored.router.pass(&number.to_be_bytes());
    }
    let (code, found) = reported(watcher);
    assert_eq!((code, value(&found, "delays")), (0, 200.0), "{found:#}");
    assert!(!notes(&found).contains("not by the NIC"), "NIC stamps were not requested");

    let (code, found) = reported(mirrored.watch(&["--for", "50ms"]));
    assert_eq!((code, packets(&found, "arrived")), (1, 0), "{found:#}");
    let cause = &found["causes"][0];
    assert_eq!(cause["name"], "empty capture", "{found:#}");
    assert!(
        cause["statement"].as_str().unwrap().contains("no packet passed through mon"),
        "{cause}"
    );
}

#[test]
fn an_interface_that_cannot_be_captured_is_named() {
    let Some(mirrored) = MirroredRouter::new() else { return };
    let watch = |options: &[&str]| {
        let ran = run_in(mirrored.watcher.namespace(), &[&["delay", "mirror"], options].concat());
        assert_eq!(ran.code, 2, "{options:?}: {}", ran.err);
        ran.err
    };
    let mac = &mirrored.macs[..];
    let error = watch(&["eth9", "--mac", mac]);
    assert!(
        error.contains("no such file") && error.contains("interfaces here: lo, mon"),
        "{error}"
    );
    let error = watch(&["mon", "--mac", mac, "--stamps", "nic"]);
    assert!(error.contains("ethtool -T"), "{error}");
    let error = watch(&["mon", "--direction", "--stamps", "nic"]);
    assert!(error.contains("let the kernel stamp both directions"), "{error}");
    let error = watch(&["mon", "--interface", "0,1"]);
    assert!(error.contains("requires a pcapng file"), "{error}");
}

/// dumpcap records the names of its interfaces.
#[test]
fn interfaces_of_a_capture_have_names() {
    let dumpcap = Command::new("dumpcap").arg("--version").output().is_ok();
    if !can_capture() || !require_that(dumpcap, "dumpcap") {
        return;
    }
    let (router, directory) = (Router::new(), Directory::new("names"));
    let capture = directory.path("both.pcapng");
    fs::write(&capture, "").unwrap();
    let mut dumpcap = Command::new("dumpcap");
    dumpcap.args(["-q", "-i", "eth0", "-i", "eth1", "-f", "udp", "-w", &capture]);
    dumpcap.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut dumpcap = router.handle.namespace().start_in(&mut dumpcap).spawn().unwrap();
    let seen = |payload: &[u8]| {
        let octets = fs::read(&capture).unwrap_or_default();
        octets.windows(payload.len()).filter(|octets| *octets == payload).count()
    };
    wait_for("dumpcap on both interfaces", || {
        router.pass(b"are you there?");
        seen(b"are you there?") >= 2
    });
    (0..100_u32).for_each(|number| router.pass(&number.to_be_bytes()));
    router.pass(b"the last one");
    wait_for("the last packet, in and out", || {
        router.pass(b"more, so that it is written");
        seen(b"the last one") == 2
    });
    kill(Pid::from_raw(dumpcap.id() as i32), signal::SIGINT).unwrap();
    dumpcap.wait().unwrap();

    let by = |sides: &str| {
        let (code, found) = result(&["delay", "mirror", &capture, "--interface", sides]);
        assert_eq!(code, 0, "{sides}: {found:#}");
        (packets(&found, "arrived"), packets(&found, "left"), value(&found, "mean delay").to_bits())
    };
    let named = by("eth0,eth1");
    assert!(named.0 >= 3 && named.1 >= 2, "{named:?}");
    assert_eq!(named, by("0,1"));
    let ran = run(&["delay", "mirror", &capture, "--interface", "eth0,eth7", "--quiet"]);
    assert_eq!(ran.code, 2);
    let there = "no interface eth7: it has 0 (eth0), 1 (eth1)";
    assert!(ran.err.contains(there), "{}", ran.err);
    let ran = run(&["delay", "mirror", &capture, "--interface", "0,1", "--quiet", "--for", "1s"]);
    assert!(ran.code == 2 && ran.err.contains("--for is for an interface"), "{}", ran.err);
}

//! `onbeat powerlink`: what is told of a bus.
//!
//! ```text
//!  captures of a real network, as files and live:   talker eth0 --- eth0 onbeat powerlink sniff
//! ```

mod common;

use std::process::Stdio;

use common::json::{can_validate, validate};
use common::{program, run, wait_for};
use onbeat_delay::capture::Reader;
use onbeat_lab::traffic::PacketSocket;
use onbeat_netdev::testing::{Feature, require_all};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use serde_json::Value;

/// A capture of a network of the reference stack.
fn capture(name: &str) -> String {
    format!("{}/../../vectors/powerlink/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// Exit code and result of a run with `--json`.
fn result(arguments: &[&str]) -> (i32, Value) {
    let ran = run(&[arguments, &["--json"]].concat());
    let found = serde_json::from_str(&ran.out);
    let found = found.unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err));
    if can_validate() {
        validate(&ran.out);
    }
    (ran.code, found)
}

/// A row of a table, by what its first cell is.
fn row<'a>(result: &'a Value, figure: &str, first: &str) -> &'a Vec<Value> {
    let rows = result["figures"][figure]["rows"].as_array().expect("a table");
    let found = rows.iter().find(|row| row[0] == first);
    found.and_then(Value::as_array).unwrap_or_else(|| panic!("{first} in {rows:?}"))
}

/// The numbers are tshark's (vectors/powerlink/observed.toml).
#[test]
fn a_capture_is_told() {
    let (code, found) = result(&["powerlink", "sniff", &capture("boot-1cn-mandatory")]);
    assert_eq!((code, &found["ok"]), (0, &true.into()));
    for (kind, frames) in [("SoC", 143), ("PReq", 134), ("PRes", 134), ("SoA", 2179), ("ASnd", 122)]
    {
        assert_eq!(row(&found, "frames", kind)[1], frames, "{kind}");
    }
    let node = row(&found, "nodes", "1");
    assert_eq!(
        node[1..5],
        ["02:45:50:4c:00:01".into(), "OPERATIONAL".into(), 134.into(), 0.into()]
    );
    let identity = row(&found, "identities", "1");
    assert_eq!((&identity[1], &identity[8]), (&"0x000f0191".into(), &"01-ffffffff".into()));
    let polls = &found["figures"]["response time"]["series"];
    let polls = polls.as_array().unwrap().iter().find(|series| series["name"] == "PRes of node 1");
    assert_eq!(polls.unwrap()["max"], 77_443);
    assert_eq!(found["figures"]["cycle"]["series"][0]["count"], 142);
}

/// In this one the node was reset while the managing node polled it.
#[test]
fn lost_polls_are_a_bad_answer() {
    let (code, found) = result(&["powerlink", "sniff", &capture("boot-1cn-stock")]);
    assert_eq!(code, 1);
    let check = &found["checks"][0];
    assert_eq!(check["name"], "polls without an answer in time");
    assert_eq!((&check["value"], &check["ok"]), (&2.into(), &false.into()));
}

#[test]
fn every_message_is_a_line() {
    let ran = run(&["powerlink", "sniff", &capture("boot-1cn-mandatory"), "--frames"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().filter(|line| line.contains(" -> ")).collect();
    assert_eq!(lines.len(), 2712);
    let start = lines.iter().find(|line| line.contains("NMTCommand StartNode")).unwrap();
    assert!(start.contains("240 -> 1 "), "{start}");
}

#[test]
fn what_is_no_bus_is_named() {
    let ran = run(&["powerlink", "sniff", "/no/such.pcap"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no capture of this name"), "{}", ran.err);
    let ran = run(&["powerlink", "sniff", &capture("boot-1cn-stock"), "--seconds", "1"]);
    assert!(ran.code == 2 && ran.err.contains("--seconds is for an interface"), "{}", ran.err);
}

/// The frames of a capture, sent again.
#[test]
fn a_live_bus_is_told() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    let [talker, listener] =
        [(); 2].map(|()| Handle::in_namespace(&Namespace::with_loopback().unwrap()).unwrap());
    let far = VethEnd::new("eth0").namespace(listener.namespace());
    talker.create_veth(&VethEnd::new("eth0"), &far).unwrap();
    for handle in [&talker, &listener] {
        handle.set_ipv6("eth0", false).unwrap();
        handle.set_up("eth0").unwrap();
    }
    talker.wait_carrier("eth0", common::BOUND).unwrap();
    let mut sniff = std::process::Command::new(program());
    sniff.args(["powerlink", "sniff", "eth0", "--json"]);
    sniff.stdin(Stdio::null()).stdout(Stdio::piped());
    let sniff = listener.namespace().start_in(&mut sniff).spawn().unwrap();
    // Its socket is there once the kernel lists it.
    let sockets = format!("/proc/{}/net/packet", sniff.id());
    wait_for("its socket", || {
        std::fs::read_to_string(&sockets).is_ok_and(|text| text.lines().count() > 1)
    });

    let socket = PacketSocket::sender(talker.namespace(), "eth0").unwrap();
    let file = std::fs::File::open(capture("boot-1cn-mandatory")).unwrap();
    let mut reader = Reader::new(file).unwrap();
    while let Some(packet) = reader.next_packet().unwrap() {
        socket.send(packet.octets).unwrap();
    }
    // What was sent is in its socket's buffer; Ctrl-C before it took all would lose some.
    let waiting = || {
        let text = std::fs::read_to_string(&sockets).unwrap();
        let line = text.lines().nth(1).expect("its socket").to_owned();
        line.split_whitespace().nth(6).expect("octets that wait").to_owned()
    };
    wait_for("all frames taken", || waiting() == "0");
    let pid = nix::unistd::Pid::from_raw(sniff.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = sniff.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert_eq!(row(&found, "frames", "SoA")[1], 2179);
    assert_eq!(row(&found, "nodes", "1")[3], 134);
}

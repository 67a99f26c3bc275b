//! Nodes of the program that are late, or may be.
//!
//! ```text
//!   onbeat powerlink mn "mn" ------------ "cn" onbeat powerlink cn
//! ```

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use onbeat_lab::traffic::Receiver;
use onbeat_realtime::clock::realtime_ns;
use onbeat_wire::powerlink::{Message, MessageType, NmtState};
use serde_json::Value;

use crate::common::powerlink::{NETWORK, Pair, end};
use crate::common::{TemporaryFile, can, program, wait_for};

/// How long the node is stopped after its poll arrived, in nanoseconds.
const STOPPED_NS: i64 = 50_000_000;

/// The time at which a frame of this type and state passed last.
fn seen(tap: &mut Receiver, kind: MessageType, state: Option<NmtState>) -> Option<i64> {
    let mut at_ns = None;
    let take = |frame: onbeat_netdev::ReceivedFrame<'_>| {
        let octets = frame.octets.get(14..).unwrap_or_default();
        let is_valid = Message::parse(octets).is_ok() && octets[0] == kind.0;
        if is_valid && state.is_none_or(|state| octets[3] == state.0) {
            at_ns = frame.realtime_ns.map(|ns| ns as i64);
        }
    };
    tap.receive(take).expect("frames");
    at_ns
}

fn max_ns(result: &Value, figure: &str, name: &str) -> i64 {
    let series = result["figures"][figure]["series"].as_array().expect("series");
    let found = series.iter().find(|series| series["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {series:?}"))["max"].as_i64().expect("a maximum")
}

/// The kernel's time stamps at the other end of the cable are the judge.
#[test]
fn a_stopped_node_reports_its_late_response() {
    if !can(&[]) {
        return;
    }
    // A timeout that the node meets although it is stopped. A mandatory node is configured before the long cycles.
    let text = NETWORK
        .replace("cycle-us = 20000", "cycle-us = 250000")
        .replace("pres-timeout-us = 15000", "pres-timeout-us = 200000\nmandatory = true");
    let (file, pair) = (TemporaryFile::with("late.toml", &text), Pair::new());
    let (mut responses, mut polls) = (pair.frames_of_controlled(), pair.frames_of_managing());
    let (controlled, managing) = (pair.controlled(&file), pair.managing(&file));
    let operational = Some(NmtState::OPERATIONAL);
    let mut response = || seen(&mut responses, MessageType::PRES, operational);
    wait_for("a response in OPERATIONAL", || response().is_some());

    let signal = |signal| kill(Pid::from_raw(controlled.id() as i32), signal).unwrap();
    signal(Signal::SIGSTOP);
    while polls.receive(|_| ()).expect("frames") > 0 {}
    let mut polled_ns = None;
    wait_for("a poll", || {
        polled_ns = seen(&mut polls, MessageType::PREQ, None);
        polled_ns.is_some()
    });
    let polled_ns = polled_ns.unwrap();
    wait_for("the delay", || realtime_ns() - polled_ns >= STOPPED_NS);
    signal(Signal::SIGCONT);
    let mut answered_ns = None;
    wait_for("the late response", || {
        answered_ns = response();
        answered_ns.is_some()
    });
    let delay_ns = answered_ns.unwrap() - polled_ns;

    end(managing);
    let (_, result) = end(controlled);
    for (figure, name) in
        [("response time", "PRes of node 1"), ("lateness", "frame handled after its reception")]
    {
        let max_ns = max_ns(&result, figure, name);
        assert!(max_ns >= STOPPED_NS, "{name}: {max_ns} ns, {delay_ns} ns at the other end");
    }
    let own_ns = max_ns(&result, "response time", "PRes of node 1");
    assert!(STOPPED_NS <= delay_ns && own_ns <= delay_ns, "{own_ns} ns, {delay_ns} ns");
}

/// Output on standard error of a node without CAP_SYS_NICE, and its result.
fn unprivileged(pair: &Pair, arguments: &[&str]) -> (String, Value) {
    let mut command = Command::new("prlimit");
    command.args(["--rtprio=0:0", "--", "setpriv", "--inh-caps=-all"]);
    command.args(["--bounding-set=-sys_nice", "--"]).arg(program()).arg("powerlink");
    command.args(arguments).args(["--seconds", "0.2", "--json", "--quiet"]);
    let handle = if arguments[0] == "mn" { &pair.mn } else { &pair.cn };
    command.stdin(Stdio::null());
    let output = handle.namespace().start_in(&mut command).output().unwrap();
    let result = serde_json::from_slice(&output.stdout);
    let errors = String::from_utf8(output.stderr).unwrap();
    (errors.clone(), result.unwrap_or_else(|error| panic!("{error}: {errors}")))
}

#[test]
fn a_node_without_a_permission_for_real_time_starts_with_a_warning() {
    let installed = |tool: &&str| Command::new(tool).arg("--version").output().is_ok();
    if !can(&[]) || !["prlimit", "setpriv"].iter().all(installed) {
        return;
    }
    let (file, pair) = (TemporaryFile::with("unprivileged.toml", NETWORK), Pair::new());
    for arguments in [&["cn", file.name(), "--node", "1"][..], &["mn", file.name()]] {
        let (errors, result) = unprivileged(&pair, arguments);
        assert_eq!(errors.matches("WARN").count(), 1, "{errors}");
        for part in ["may answer or send late", "fifo 49", "CAP_SYS_NICE", "ulimit -r"] {
            assert!(errors.contains(part), "{errors}");
        }
        let notes = result["notes"].as_array().expect("notes");
        let noted = |text: &str| notes.iter().any(|note| note.as_str().unwrap().contains(text));
        assert!(noted("no real-time scheduling") && noted("thread: other"), "{notes:?}");
    }
}

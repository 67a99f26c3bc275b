//! `onbeat powerlink`: reports on a bus.
//!
//! ```text
//!  captures of a real network, as files and live:   talker eth0 --- eth0 onbeat powerlink sniff
//!  nodes of the program:                            onbeat powerlink mn --- cn onbeat powerlink cn
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::common::json::{can_validate, validate};
use crate::common::powerlink::{NETWORK, Pair, end, row, start, start_and_read, wait_for_line};
use crate::common::{CommandOutput, TemporaryFile, can, can_run, program, run, run_in, wait_for};
use crate::prometheus::{Prometheus, dashboard_queries, has_prometheus, serve_files};
use onbeat_delay::capture::Reader;
use onbeat_lab::traffic::{Receiver, socket};
use onbeat_netdev::{Handle, Namespace, VethEnd};
use onbeat_testing::TemporaryDirectory;
use onbeat_wire::powerlink::{Body, CommandId, Message, NmtCommandId, NmtState, Sdo, Service};
use serde_json::Value;

/// A capture of a network of the reference stack.
fn capture(name: &str) -> String {
    format!("{}/../../vectors/powerlink/{name}.pcap", env!("CARGO_MANIFEST_DIR"))
}

/// Exit status and result of a run with `--json`.
fn result(arguments: &[&str]) -> (i32, Value) {
    let ran = run(&[arguments, &["--json"]].concat());
    let found = serde_json::from_str(&ran.out);
    let found = found.unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err));
    if can_validate() {
        validate(&ran.out);
    }
    (ran.code, found)
}

/// The expected numbers are tshark's (vectors/powerlink/observed.toml).
#[test]
fn a_capture_is_reported() {
    let (code, found) = result(&["powerlink", "sniff", &capture("boot-1cn-mandatory")]);
    assert_eq!((code, &found["ok"]), (0, &true.into()));
    for (kind, frames) in [("SoC", 143), ("PReq", 134), ("PRes", 134), ("SoA", 2179), ("ASnd", 122)]
    {
        assert_eq!(row(&found, "frames", kind)[1], frames, "{kind}");
    }
    let node = row(&found, "nodes", "1");
    let expected: [Value; 4] =
        ["02:45:50:4c:00:01".into(), "OPERATIONAL".into(), 134.into(), 0.into()];
    assert_eq!(node[1..5], expected);
    let identity = row(&found, "identities", "1");
    assert_eq!((&identity[1], &identity[8]), (&"0x000f0191".into(), &"01-ffffffff".into()));
    let polls = &found["figures"]["response time"]["series"];
    let polls = polls.as_array().unwrap().iter().find(|series| series["name"] == "PRes of node 1");
    assert_eq!(polls.unwrap()["max"], 77_443);
    assert_eq!(found["figures"]["cycle"]["series"][0]["count"], 142);
}

/// In this capture the node was reset while the managing node polled it.
#[test]
fn lost_polls_are_a_negative_result() {
    let (code, found) = result(&["powerlink", "sniff", &capture("boot-1cn-stock")]);
    assert_eq!(code, 1);
    let check = &found["checks"][0];
    assert_eq!(check["name"], "polls without a response in time");
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
fn invalid_inputs_are_named() {
    let ran = run(&["powerlink", "sniff", "/no/such.pcap"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("not a capture file"), "{}", ran.err);
    let ran = run(&["powerlink", "sniff", &capture("boot-1cn-stock"), "--seconds", "1"]);
    assert!(ran.code == 2 && ran.err.contains("--seconds applies to interfaces"), "{}", ran.err);
}

/// Replays the frames of a capture.
#[test]
fn a_live_bus_is_reported() {
    if !can(&[]) {
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
    talker.wait_carrier("eth0", crate::common::BOUND).unwrap();
    let mut sniff = Command::new(program());
    sniff.args(["powerlink", "sniff", "eth0", "--frames"]);
    sniff.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut sniff = listener.namespace().start_in(&mut sniff).spawn().unwrap();
    // Its socket receives once the kernel lists it with a protocol: all (0003).
    let sockets = format!("/proc/{}/net/packet", sniff.id());
    let receives = |line: &str| line.split_whitespace().nth(3) == Some("0003");
    wait_for("its socket", || {
        std::fs::read_to_string(&sockets).is_ok_and(|text| text.lines().any(receives))
    });

    let socket = socket::sender(talker.namespace(), "eth0").unwrap();
    let file = std::fs::File::open(capture("boot-1cn-mandatory")).unwrap();
    let mut reader = Reader::new(file).unwrap();
    let mut sent = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        socket.send(packet.octets).unwrap();
        sent += 1;
    }
    let mut lines = BufReader::new(sniff.stdout.take().unwrap()).lines();
    let reported =
        lines.by_ref().take(sent).map(Result::unwrap).filter(|line| line.contains(" -> "));
    assert_eq!(reported.count(), sent, "a line for each message");
    let pid = nix::unistd::Pid::from_raw(sniff.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let summary: Vec<String> = lines.map(Result::unwrap).collect();
    let frames = |kind: &str, count: &str| {
        let found = |line: &String| line.split_whitespace().eq([kind, count]);
        summary.iter().any(found)
    };
    assert!(frames("SoA", "2,179") && frames("PRes", "134"), "{summary:#?}");
    let code = sniff.wait().unwrap().code();
    assert_eq!(code, Some(0), "{summary:#?}");
}

/// Checks that the result names this node as hidden, and evaluates no poll.
fn names_as_hidden(output: &Output, node: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(found["figures"]["hidden nodes"]["rows"][0][0], node, "{text}");
    let checks = found["checks"].as_array().expect("checks");
    let polls = "polls without a response in time";
    assert!(checks.iter().all(|check| check["name"] != polls), "{text}");
    assert!(found["notes"].to_string().contains("bridge port"), "{text}");
    let cause = &found["causes"][0];
    assert_eq!(cause["name"], "hidden nodes", "{text}");
    assert!(cause["statement"].to_string().contains("mirror port"), "{text}");
}

/// Frames that a node sends bypass captures on its own interface; with an XDP program, so do received
/// frames. These are no lost polls.
fn frames_that_bypass_captures(backend: &str) {
    if !can_run() {
        return;
    }
    let file = TemporaryFile::with(&format!("hidden-{backend}.toml"), NETWORK);
    let pair = Pair::new();
    let mut tap = pair.frames_of_controlled();
    let node = ["powerlink", "cn", file.name(), "--node", "1", "--json", "--quiet"];
    let controlled = start(&pair.cn, &[&node[..], &["--backend", backend]].concat());
    let managing = pair.managing(&file);
    let (mut frames, mut responses) = (0, 0);
    let wanted = if backend == "xdp" { 0 } else { 10 };
    wait_for("frames of the controlled node", || {
        let mut count = |octets: &[u8]| {
            frames += 1;
            responses += u32::from(octets.get(14) == Some(&4));
        };
        tap.receive(|frame| count(frame.octets)).expect("frames");
        frames >= 10 && responses >= wanted
    });
    let sniff = |handle: &Handle, interface: &str| {
        let mut command = Command::new(program());
        command.args(["powerlink", "sniff", interface, "--seconds", "1", "--json", "--quiet"]);
        handle.namespace().start_in(&mut command).output().expect("sniff")
    };
    let own = sniff(&pair.cn, "cn");
    let other = sniff(&pair.mn, "mn");
    end(managing);
    end(controlled);
    if backend == "packet" {
        names_as_hidden(&own, "1");
    } else {
        let error = String::from_utf8_lossy(&own.stderr);
        assert_eq!(own.status.code(), Some(2), "{error}");
        assert!(error.contains("cn has an XDP program (id "), "{error}");
    }
    names_as_hidden(&other, "240");
}

#[test]
fn a_node_by_packet_sockets_is_not_judged_at_its_own_interface() {
    frames_that_bypass_captures("packet");
}

#[test]
fn a_node_by_xdp_is_not_judged_at_its_own_interface() {
    frames_that_bypass_captures("xdp");
}

#[test]
fn a_node_by_af_xdp_is_not_judged_at_its_own_interface() {
    frames_that_bypass_captures("xsk");
}

/// Two processes with only the file in common boot.
#[test]
fn the_program_boots_a_network() {
    if !can(&[]) {
        return;
    }
    let (file, pair) = (TemporaryFile::with("boots.toml", NETWORK), Pair::new());
    let mut tap = pair.frames_of_controlled();
    let (controlled, managing) = (pair.controlled(&file), pair.managing(&file));
    let mut operational = 0;
    wait_for("ten responses in OPERATIONAL", || {
        let count = |octets: &[u8]| match Message::parse(octets.get(14..).unwrap_or_default()) {
            Ok(Message { body: Body::Pres(pres), .. }) => pres.state == NmtState::OPERATIONAL,
            _ => false,
        };
        let taken = tap.receive(|frame| operational += u32::from(count(frame.octets)));
        taken.expect("frames");
        operational >= 10
    });
    let (code, found) = end(managing);
    end(controlled);
    assert_eq!(code, Some(0), "{found:#}");
    assert_eq!(row(&found, "nodes", "1")[2], "OPERATIONAL");
    let values = found["figures"]["values"]["rows"].as_array().unwrap();
    let back = values.iter().find(|row| row[1] == "back").expect("the value that comes back");
    assert!(back[5].as_u64().unwrap() > 0, "{values:?}");
    let events = found["figures"]["events"]["rows"].as_array().unwrap();
    assert!(events.iter().any(|row| row[1] == "node 1: operational"), "{events:?}");
}

/// The run prints what happens, and at its end the cause for each node.
#[test]
fn a_network_that_does_not_come_up_has_a_cause() {
    if !can(&[]) {
        return;
    }
    let text =
        NETWORK.replace("pres-timeout-us = 15000", "pres-timeout-us = 15000\nmandatory = true");
    let (file, pair) = (TemporaryFile::with("absent.toml", &text), Pair::new());
    let directory = TemporaryDirectory::new("powerlink-metrics");
    let metrics = directory.file("mn.prom");
    let textfile = metrics.to_str().unwrap();
    let managing =
        ["powerlink", "mn", file.name(), "--seconds", "3", "--json", "--textfile", textfile];
    let CommandOutput { code, out, err } = run_in(pair.mn.namespace(), &managing);
    let found: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(code, 1, "{found:#}");
    assert!(
        err.contains("node 240: NOT_ACTIVE -> PRE_OPERATIONAL_1: no other managing node"),
        "{err}"
    );
    let metrics = fs::read_to_string(&metrics).unwrap();
    for line in [
        "state{device=\"mn\",id=\"240\",state=\"pre_operational_1\"} 1",
        "in_target_state{device=\"mn\",id=\"240\"} 0",
        "peer_operational{device=\"mn\",id=\"240\",peer=\"1\"} 0",
    ] {
        assert!(metrics.contains(&format!("\nonbeat_powerlink_{line}\n")), "{line}: {metrics}");
    }
    let own = "node 240 is in PRE_OPERATIONAL_1, not in OPERATIONAL; last change: NOT_ACTIVE -> \
               PRE_OPERATIONAL_1: no other managing node; not all mandatory nodes are configured";
    let absent = "node 1 is in step \"identification\"; no IdentResponse: check that it runs, its id and its cable";
    let causes = found["causes"].as_array().unwrap().iter();
    let causes: Vec<&Value> = causes.map(|cause| &cause["statement"]).collect();
    assert_eq!(causes, [own, absent], "{found:#}");
    for cause in [own, absent] {
        assert!(err.contains(&format!("onbeat: {cause}\n")), "{err}");
    }

    let quiet = ["--seconds", "0.5", "--json", "--quiet"];
    let controlled = [&["powerlink", "cn", file.name(), "--node", "1"], &quiet[..]].concat();
    let CommandOutput { code, err, .. } = run_in(pair.cn.namespace(), &controlled);
    assert_eq!(code, 1, "{err}");
    let cause = "onbeat: node 1 is in NOT_ACTIVE, not in OPERATIONAL; last change: ";
    assert!(err.starts_with(cause), "{err}");
    assert!(err.contains("no SoC or SoA since then; check the cable"), "{err}");
    assert_eq!(err.lines().count(), 1, "without progress: {err}");
}

/// A Prometheus reads the file of a managing node: every query of the dashboard has data, and a node that dies fires an alert.
#[test]
fn the_metrics_of_a_bus_have_a_dashboard_and_alerts() {
    if !can(&[]) || !has_prometheus() {
        return;
    }
    let (file, pair) = (TemporaryFile::with("dashboard.toml", NETWORK), Pair::new());
    let directory = TemporaryDirectory::new("powerlink-dashboard");
    let metrics = directory.file("mn.prom");
    let textfile = ["--textfile", metrics.to_str().unwrap()];
    let mut controlled = pair.controlled(&file);
    let arguments = ["powerlink", "mn", file.name(), "--json", "--quiet"];
    let managing = start(&pair.mn, &[&arguments[..], &textfile].concat());
    let prometheus = Prometheus::start("prometheus-powerlink", serve_files(vec![metrics.clone()]));
    for query in dashboard_queries("onbeat-powerlink.json") {
        wait_for(&format!("data of {query}"), || !prometheus.query(&query).is_empty());
    }
    let operational = "onbeat_powerlink_peer_operational{peer=\"1\"} == 1";
    wait_for("the node is operational", || !prometheus.query(operational).is_empty());
    let of_peer = "device=\"mn\",id=\"240\",peer=\"1\"";
    let unanswered = || {
        let values = prometheus.values("onbeat_powerlink_peer_unanswered_polls_total{peer=\"1\"}");
        values.first().copied().unwrap_or_default()
    };
    // A busy machine delays some responses.
    let before = unanswered();
    controlled.kill().unwrap();
    controlled.wait().unwrap();
    wait_for("polls of a node that has died", || unanswered() >= before + 50.0);
    let series = "onbeat_powerlink_peer_unanswered_polls_total[1h]";
    prometheus.await_alert("OnbeatPowerlinkUnanswered", of_peer, series);
    let (code, found) = end(managing);
    assert!(code.is_some(), "{found:#}");
}

/// A refused object of the configuration is the cause, with its abort.
#[test]
fn a_refused_configuration_has_a_cause() {
    if !can(&[]) {
        return;
    }
    let (one, pair) = (TemporaryFile::with("has.toml", NETWORK), Pair::new());
    // The node has no second input.
    let inputs = "input = [{ name = \"second\", type = \"u16\" }, { name";
    let text = NETWORK.replace("input = [{ name", inputs);
    let file = TemporaryFile::with("refused.toml", &text);
    let controlled = pair.controlled(&one);
    let arguments = ["powerlink", "mn", file.name(), "--json"];
    let (managing, lines) = start_and_read(&pair.mn, &arguments);
    // Printed as it happens.
    let failed = "node 1 failed: configuration of object 1A00/00 refused, 0x06";
    wait_for_line(&lines, failed);
    let (code, found) = end(managing);
    end(controlled);
    assert_eq!(code, Some(1), "{found:#}");
    let causes = found["causes"].as_array().unwrap().iter();
    let mut causes = causes.filter_map(|cause| cause["statement"].as_str());
    let of_node = causes.find(|cause| cause.starts_with("node 1 is in step ")).expect("a cause");
    assert!(of_node.contains("configuration of object 1A00/00 refused, 0x06"), "{of_node}");
}

#[test]
fn a_managing_node_without_its_interface_has_a_result() {
    if !can(&[]) {
        return;
    }
    let (file, pair) = (TemporaryFile::with("removed.toml", NETWORK), Pair::new());
    let mut tap = pair.frames_of_managing();
    let mut managing = pair.managing(&file);
    wait_for("its frames", || {
        let mut frames = 0;
        tap.receive(|_| frames += 1).expect("frames");
        frames > 0
    });
    pair.mn.delete("mn").unwrap();
    wait_for("its exit", || managing.try_wait().unwrap().is_some());
    let output = managing.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).expect("a result");
    let cause = &found["causes"][0];
    assert_eq!(cause["name"], "interface removed", "{found:#}");
    assert!(
        cause["statement"].as_str().unwrap().contains("interface \"mn\" was removed"),
        "{cause}"
    );
}

/// It sends only when it is polled: its port detects the removal while it waits.
#[test]
fn a_controlled_node_without_its_interface_has_a_result() {
    if !can(&[]) {
        return;
    }
    for backend in ["packet", "xsk", "xdp"] {
        let name = format!("removed-cn-{backend}.toml");
        let (file, pair) = (TemporaryFile::with(&name, NETWORK), Pair::new());
        let arguments = ["powerlink", "cn", file.name(), "--node", "1", "--backend", backend];
        let (mut controlled, lines) =
            start_and_read(&pair.cn, &[&arguments[..], &["--json"]].concat());
        wait_for_line(&lines, "NOT_ACTIVE");
        pair.cn.delete("cn").unwrap();
        wait_for("its exit", || controlled.try_wait().unwrap().is_some());
        let output = controlled.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{backend}");
        let found: Value = serde_json::from_slice(&output.stdout).expect("a result");
        let causes = found["causes"].as_array().unwrap().iter();
        let mut causes = causes.filter(|cause| cause["name"] == "interface removed");
        let cause = causes.next().unwrap_or_else(|| panic!("{backend}: {found:#}"));
        let statement = cause["statement"].as_str().unwrap();
        assert!(statement.contains("interface \"cn\" was removed"), "{cause}");
    }
}

/// Frames on the cable during the configuration of a node.
#[derive(Default)]
struct Configuration {
    /// Index, subindex and value of each object that was written.
    written: BTreeMap<(u16, u8), Vec<u8>>,
    /// Result of each write: an abort code, or 0.
    answers: Vec<u32>,
    /// Commands to the node.
    commands: Vec<NmtCommandId>,
    /// Date and time of its configuration, as reported by the node.
    reported: Vec<(u32, u32)>,
    /// Responses to polls in OPERATIONAL.
    operational: u32,
}

impl Configuration {
    /// Observes until the node is in OPERATIONAL.
    fn watch(taps: &mut [Receiver; 2]) -> Self {
        let mut seen = Configuration::default();
        let [managing, controlled] = taps;
        wait_for("ten responses in OPERATIONAL", || {
            managing.receive(|frame| seen.of_managing(frame.octets)).expect("frames");
            controlled.receive(|frame| seen.of_controlled(frame.octets)).expect("frames");
            seen.operational >= 10
        });
        seen
    }

    fn of_managing(&mut self, octets: &[u8]) {
        let Ok(message) = Message::parse(octets.get(14..).unwrap_or_default()) else { return };
        match message.body {
            Body::Asnd(Service::NmtCommand(command)) => self.commands.push(command.command),
            Body::Asnd(Service::Sdo(Sdo { command: Some(command), .. })) => {
                let [low, high, sub, _, value @ ..] = command.payload else { return };
                assert_eq!(command.command, CommandId::WRITE_BY_INDEX);
                let object = (u16::from_le_bytes([*low, *high]), *sub);
                self.written.insert(object, value.to_vec());
            }
            _ => {}
        }
    }

    fn of_controlled(&mut self, octets: &[u8]) {
        let Ok(message) = Message::parse(octets.get(14..).unwrap_or_default()) else { return };
        match message.body {
            Body::Pres(pres) => {
                self.operational += u32::from(pres.state == NmtState::OPERATIONAL);
            }
            Body::Asnd(Service::IdentResponse(ident)) => {
                self.reported.push((ident.configuration_date, ident.configuration_time));
            }
            Body::Asnd(Service::Sdo(Sdo { command: Some(command), .. })) => {
                self.answers.push(command.abort_code().map_or(0, |abort| abort.0));
            }
            _ => {}
        }
    }

    /// The value of an object of four octets that was written.
    fn number(&self, index: u16, sub: u8) -> u32 {
        let value = self.written.get(&(index, sub)).expect("it was written");
        u32::from_le_bytes(value.as_slice().try_into().expect("four octets"))
    }
}

/// A node that reports another date and time than its file's is configured object by object, applies
/// the configuration and reports the new date; and again after the managing node's file changes.
#[test]
fn a_node_is_configured_over_the_bus() {
    if !can(&[]) {
        return;
    }
    let one = TemporaryFile::with("one.toml", NETWORK);
    let pair = Pair::new();
    let mut taps = [pair.frames_of_managing(), pair.frames_of_controlled()];
    let controlled = pair.controlled(&one);
    let mut before = (0, 0);
    for (name, threshold) in [("first.toml", 1000), ("second.toml", 999)] {
        let text = format!("loss-threshold = {threshold}");
        let file = TemporaryFile::with(name, NETWORK.replace("loss-threshold = 1000", &text));
        let managing = pair.managing(&file);
        let seen = Configuration::watch(&mut taps);
        let (code, found) = end(managing);
        assert_eq!(code, Some(0), "{found:#}");

        // After NMTResetNode it reports its factory configuration, independent of earlier
        // configurations.
        assert_eq!(seen.reported.first(), Some(&(0, 0)), "{:?}", seen.reported);
        let now = (seen.number(0x1020, 1), seen.number(0x1020, 2));
        assert_eq!(seen.reported.last(), Some(&now), "it reports the new configuration");
        assert_ne!(now, before);
        before = now;
        assert_eq!((seen.number(0x1006, 0), seen.number(0x1c0b, 3)), (20_000, 2 * threshold));
        assert_eq!(seen.written[&(0x1a00, 1)], [0, 0x60, 1, 0, 0, 0, 16, 0], "back, 16 bits");
        // A node may refuse restore and store commands only.
        let refused = seen.answers.iter().filter(|abort| **abort != 0);
        assert!(refused.clone().count() <= 2, "{:08x?}", seen.answers);
        assert!(refused.clone().all(|abort| *abort == 0x0602_0000), "{:08x?}", seen.answers);
        let place = |command| seen.commands.iter().rposition(|sent| *sent == command);
        let reset = place(NmtCommandId::RESET_CONFIGURATION);
        assert!(reset.is_some() && reset < place(NmtCommandId::START_NODE), "{:?}", seen.commands);
        let configured = format!("{}/{}", now.0, now.1);
        assert_eq!(row(&found, "identities", "1")[6], configured.as_str());
    }
    let (code, found) = end(controlled);
    assert!(code.is_some(), "{found:#}");
}

/// A node with a store is configured once: after power-off, it starts with the stored configuration.
#[test]
fn a_node_keeps_its_configuration() {
    if !can(&[]) {
        return;
    }
    let kept = TemporaryFile::new("kept.dcf");
    let text = NETWORK.replace("id = 1\n", &format!("id = 1\nstore = {:?}\n", kept.name()));
    assert_ne!(text, NETWORK);
    let (file, pair) = (TemporaryFile::with("keeps.toml", &text), Pair::new());
    let mut configured = (0, 0);
    for times in 0..2 {
        let mut taps = [pair.frames_of_managing(), pair.frames_of_controlled()];
        let (controlled, managing) = (pair.controlled(&file), pair.managing(&file));
        let seen = Configuration::watch(&mut taps);
        let (code, found) = end(managing);
        assert_eq!(code, Some(0), "{found:#}");
        let (_, found) = end(controlled);
        let notes = found["notes"].to_string();
        let resets = seen.commands.iter().filter(|command| **command == NmtCommandId::RESET_NODE);
        if times == 0 {
            assert_eq!(seen.answers.iter().find(|abort| **abort != 0), None, "nothing is refused");
            assert!(resets.count() >= 2, "for all, and for the defaults: {:?}", seen.commands);
            configured = (seen.number(0x1020, 1), seen.number(0x1020, 2));
            // Twice, unless the host was so busy that the node had to restart.
            assert!(notes.contains("written or removed "), "{notes}");
            assert!(!notes.contains("written or removed 0 times"), "{notes}");
        } else {
            assert!(seen.written.is_empty(), "{:04x?}", seen.written);
            assert_eq!(seen.reported.first(), Some(&configured));
            assert!(notes.contains("written or removed 0 times"), "{notes}");
        }
        assert!(std::fs::metadata(kept.path()).unwrap().len() > 1000);
    }
    // It rejects a file that is not its own.
    std::fs::write(kept.path(), "something else").unwrap();
    let mut command = Command::new(program());
    command.args(["powerlink", "cn", file.name(), "--node", "1", "--quiet"]);
    let output = pair.cn.namespace().start_in(&mut command).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(kept.name()) && error.contains("remove the file"), "{error}");
}

/// A node with objects of a device description, polled in every second cycle.
#[test]
fn a_described_node_has_its_slot() {
    if !can(&[]) {
        return;
    }
    let examples = format!("{}/../../examples/powerlink", env!("CARGO_MANIFEST_DIR"));
    let node = NETWORK.find("[[node]]").unwrap();
    let network = NETWORK[..node].replace("[managing]", "multiplexed-cycles = 2\n[managing]");
    let text = format!(
        r#"{network}
[[node]]
id = 1
interface = "cn"
multiplexed = 1
pres-timeout-us = 15000
xdd = "{examples}/digital-io.xdd"
input = [{{ name = "inputs", object = "6000/01", simulate = "copy" }}]
output = [{{ name = "lamps", object = "6200/01", simulate = "counter" }}]
parameter = [{{ object = "2000/00", octets = "14 00" }}]
"#
    );
    let (file, pair) = (TemporaryFile::with("described.toml", &text), Pair::new());
    let mut taps = [pair.frames_of_managing(), pair.frames_of_controlled()];
    let (controlled, managing) = (pair.controlled(&file), pair.managing(&file));
    let seen = Configuration::watch(&mut taps);
    let (code, found) = end(managing);
    end(controlled);
    assert_eq!(code, Some(0), "{found:#}");
    let (node, identity) = (row(&found, "nodes", "1"), row(&found, "identities", "1"));
    assert_eq!((&node[2], &node[8]), (&"OPERATIONAL".into(), &"1 of 2".into()), "{node:?}");
    assert_eq!((&identity[2], &identity[3]), (&"0x00000142".into(), &"0x00000007".into()));
    assert_eq!(seen.written[&(0x2000, 0)], [0x14, 0]);
    // Its description lacks these optional objects: each poll states the slot.
    let slots = [(0x1f98, 7), (0x1f9b, 1)];
    assert!(!slots.iter().any(|object| seen.written.contains_key(object)), "{:04x?}", seen.written);
}

#[test]
fn a_file_is_checked_before_interfaces_are_opened() {
    let file = format!("{}/../../examples/powerlink/drives.toml", env!("CARGO_MANIFEST_DIR"));
    let ran = run(&["powerlink", "mn", &file, "--check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = run(&["powerlink", "cn", &file, "--node", "3"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("node 3 not found; nodes here: 1, 2, 10"), "{}", ran.err);
    let ran = run(&["powerlink", "cn", &file, "--node", "1"]);
    assert!(ran.err.contains("node 1 has no interface"), "{}", ran.err);
}

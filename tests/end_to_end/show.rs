//! Every counter after a known sequence of frames, as JSON and in the tables, and the effect of a
//! reset.
//!
//! ```text
//!                "there": number, replicate -->
//!   host eth0 --- host [ a ] path1 --- eth0 path1
//!                            path2 --- eth0 path2
//!                <-- "back": recover
//! ```

use crate::common::{
    FrameText, Injector, PORTS, ResidentProcess, VLAN, build, can_run, input, one_node, port,
    program, replicate, run, show, stream, wait_for,
};
use onbeat_frer::counters::Counters;
use onbeat_lab::World;
use onbeat_node::control::{RecoveryStatus, StreamStatus};
use onbeat_testing::documents::check_documented_keys;
use serde_json::Value;

const THERE: &str = "01:00:5e:00:00:01";
const BACK: &str = "01:00:5e:00:00:02";

/// History length of the recovery function.
const HISTORY: u16 = 16;

fn config() -> String {
    let there = replicate("there", THERE, VLAN);
    format!(
        r#"{PORTS}{there}
[[stream]]
name = "back"
member = [
  {{ port = "path1", identify = {{ type = "null", destination = "{BACK}", vlan = 11 }} }},
  {{ port = "path2", identify = {{ type = "null", destination = "{BACK}", vlan = 12 }}, individual = {{ algorithm = "match", reset-timeout-ms = 0 }} }},
]
recover = {{ history-length = {HISTORY}, reset-timeout-ms = 0 }}
egress = [{{ port = "host", tag = "none", vlan = {VLAN} }}]
"#
    )
}

/// The far ends of the paths.
struct Paths<'a> {
    senders: [Injector; 2],
    sent: [u64; 2],
    world: &'a World,
}

impl<'a> Paths<'a> {
    fn open(world: &'a World) -> Self {
        let sender = |host| Injector::open(world, host, "eth0");
        Paths { senders: [sender("path1"), sender("path2")], sent: [0, 0], world }
    }

    fn send(&mut self, path: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        for frame in frames {
            self.senders[path].send(&frame);
            self.sent[path] += 1;
        }
        // The other path continues when these frames have been counted.
        let counted = || {
            let status = self.world.status("a").expect("the node");
            stream(&status, "back").members[path].input_packets
        };
        wait_for("the frames are counted", || counted() == self.sent[path]);
    }

    fn numbers(&mut self, path: usize, numbers: impl IntoIterator<Item = u16>) {
        let vlan = [11, 12][path];
        let frames = numbers.into_iter().map(|n| FrameText::new(BACK, &[vlan], Some(n)).octets());
        self.send(path, frames);
    }
}

/// Sends a sequence of frames with known numbers.
fn send_all(world: &World) {
    let mut paths = Paths::open(world);
    // 100 frames on both paths, but path 2 is cut for 20 of them.
    for first in (0..100).step_by(10) {
        paths.numbers(0, first..first + 10);
        if !(40..60).contains(&first) {
            paths.numbers(1, first..first + 10);
        }
    }
    // 5 numbers that arrive on no path, and 20 that move the history beyond them.
    paths.numbers(0, 105..125);
    // A late replica, its duplicate (removed by the individual function of its path), and a rogue one.
    paths.numbers(1, [124, 124, 1124]);
    // A frame without a number, and one truncated in its R-TAG.
    paths.send(0, [FrameText::new(BACK, &[11], None).octets()]);
    let whole = FrameText::new(BACK, &[11], Some(125)).octets();
    paths.send(0, [whole[..21].to_vec()]);
    // Frames without a stream.
    let foreign = FrameText::new("01:00:5e:00:00:09", &[11], Some(1)).octets();
    paths.senders[0].send(&foreign);
    wait_for("it is counted", || port(&show("a"), "path1").unmatched == 1);

    let device = Injector::open(world, "host", "eth0");
    (0..50).for_each(|_| device.send(&FrameText::new(THERE, &[VLAN], None).octets()));
    wait_for("they are counted", || input(stream(&show("a"), "there")) == 50);
}

/// The recovery function of "back" afterwards.
fn recovery() -> RecoveryStatus {
    RecoveryStatus {
        recov_seq_num: 124,
        take_any: false,
        counters: Counters {
            // 105 after 99.
            out_of_order: 1,
            rogue: 1,
            passed: 120,
            // 80 replicas, the late one, and the rogue one.
            discarded: 82,
            // 100 to 104, and the 15 numbers before the first one, which were never sent.
            lost: 5 + u64::from(HISTORY) - 1,
            lost_before_first: u64::from(HISTORY) - 1,
            tagless: 1,
            resets: 1,
            latent_error_resets: 0,
            contended: 0,
        },
        latent_errors: 0,
    }
}

/// The individual function of "back" on path 2: match recovery.
fn individual() -> RecoveryStatus {
    RecoveryStatus {
        recov_seq_num: 1124,
        // 60 after 39, 124 after 99, 1124 after 124.
        counters: Counters {
            out_of_order: 3,
            passed: 82,
            discarded: 1,
            resets: 1,
            ..Counters::default()
        },
        ..RecoveryStatus::default()
    }
}

fn check_json() {
    let printed = run(&["show", "a", "--json"]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&printed.out).expect("JSON");
    check_documented_keys("Node", &json);
    assert_eq!((&json["node"], &json["data_plane"]), (&"a".into(), &"xdp".into()));
    check_documented_keys("Memory", &json["memory"]);
    assert_eq!(json["memory"]["streams"], 4096);
    let ports = [
        // port, 9.3.1, 9.3.2, 10.9.1, 10.9.2, unmatched
        ("host", [50, 120, 120, 82, 0]),
        ("path1", [122, 50, 0, 0, 1]),
        ("path2", [83, 50, 0, 1, 0]),
    ];
    let keys = ["input_packets", "output_packets", "passed", "discard", "unmatched"];
    for ((name, values), found) in ports.iter().zip(json["ports"].as_array().expect("ports")) {
        check_documented_keys("Port", found);
        assert_eq!((&found["name"], &found["interface"]), (&(*name).into(), &(*name).into()));
        assert_eq!((&found["mode"], &found["link"]), (&"native".into(), &"up".into()));
        assert_eq!(keys.map(|key| found[key].as_u64()), values.map(Some), "{found}");
    }
    let streams = json["streams"].as_array().expect("streams");
    let names: Vec<_> = streams.iter().map(|stream| &stream["name"]).collect();
    assert_eq!(names, ["there", "back"]);
    for found in streams {
        check_documented_keys("Stream", found);
        for member in found["members"].as_array().expect("members") {
            check_documented_keys("Member", member);
            assert_eq!(member["identification"], "null");
        }
        for egress in found["egress"].as_array().expect("egress") {
            check_documented_keys("Egress", egress);
        }
    }
    check_documented_keys("Generation", &streams[0]["generation"]);
    check_documented_keys("Recovery", &streams[1]["recovery"]);
    check_documented_keys("Recovery", &streams[1]["members"][1]["individual"]);
}

fn check_counters() {
    let status = show("a");
    let there = stream(&status, "there");
    let generation = there.generation.as_ref().expect("it generates");
    assert_eq!((generation.gen_seq_num, generation.seq_gen_resets), (50, 1));
    assert_eq!((input(there), &there.recovery, there.seq_enc_errored), (50, &None, 0));
    let output: Vec<_> = there.egress.iter().map(|e| (e.port.as_str(), e.output_packets)).collect();
    assert_eq!(output, [("path1", 50), ("path2", 50)]);

    let back = stream(&status, "back");
    let inputs: Vec<_> = back.members.iter().map(|m| (m.port.as_str(), m.input_packets)).collect();
    assert_eq!(inputs, [("path1", 122), ("path2", 83)]);
    assert_eq!(back.members[0].individual, None);
    assert_eq!(back.members[1].individual, Some(individual()));
    assert_eq!(back.recovery, Some(recovery()));
    assert_eq!((&back.generation, back.seq_enc_errored), (&None, 1));
    assert_eq!((back.egress[0].port.as_str(), back.egress[0].output_packets), ("host", 120));

    // Every packet has one result: removed before the function, accepted or discarded by it, or without
    // a number.
    let (before, decided) =
        (individual().counters.discarded + back.seq_enc_errored, recovery().counters);
    assert_eq!(input(back), before + decided.passed + decided.discarded + decided.tagless);
}

/// The cells of the line that starts with this word.
fn cells(table: &str, first: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(first));
    let line = line.unwrap_or_else(|| panic!("no line {first} in {table}"));
    line.split_whitespace().map(str::to_owned).collect()
}

fn check_tables() {
    let table = run(&["show", "a"]).out;
    assert_eq!(
        cells(&table, "STREAM"),
        [
            "STREAM",
            "FUNCTION",
            "INPUT",
            "PASSED",
            "DISCARDED",
            "ROGUE",
            "LOST",
            "OUT-OF-ORDER",
            "TAGLESS",
            "RESETS",
            "OUTPUT"
        ]
    );
    let back = ["back", "recover", "205", "120", "82", "1", "5", "1", "1", "1", "120"];
    assert_eq!(cells(&table, "back"), back);
    let there = ["there", "generate", "50", "-", "-", "-", "-", "-", "-", "-", "100"];
    assert_eq!(cells(&table, "there"), there);
    let host = ["host", "host", "native", "up", "50", "120", "120", "82", "0"];
    assert_eq!(cells(&table, "host"), host);
    let path1 = ["path1", "path1", "native", "up", "122", "50", "0", "0", "1"];
    assert_eq!(cells(&table, "path1"), path1);

    let detail = run(&["show", "a", "--stream", "back"]).out;
    for part in [
        "path1 (null)  input 122",
        "path2 (null)  input 83",
        "individual recovery: at 1124  passed 82  discarded 1  rogue 0",
        "at 124  passed 120  discarded 82  rogue 1  lost 5  lost before the first packet 15",
        "out of order 1  tagless 1  resets 1",
        "host  output 120",
        "1 undecodable tags",
    ] {
        assert!(detail.contains(part), "{part} in\n{detail}");
    }
    let detail = run(&["show", "a", "--stream", "there"]).out;
    assert!(detail.contains("next 50  resets 1"), "{detail}");
}

fn check_resets() {
    let done = run(&["reset", "back", "--node", "a"]);
    assert_eq!((done.code, done.out.as_str()), (0, "stream \"back\" is reset\n"), "{done:?}");
    let reset = |before: RecoveryStatus| RecoveryStatus {
        recov_seq_num: u16::MAX,
        take_any: true,
        counters: Counters { resets: 2, ..before.counters },
        ..before
    };
    let status = show("a");
    let back = stream(&status, "back");
    assert_eq!(back.recovery, Some(reset(recovery())));
    assert_eq!(back.members[1].individual, Some(reset(individual())));
    let resets = |status: &StreamStatus| {
        let generation = status.generation.clone().expect("it generates");
        (generation.gen_seq_num, generation.seq_gen_resets)
    };
    assert_eq!(resets(stream(&status, "there")), (50, 1));

    assert_eq!(run(&["reset", "there", "--node", "a"]).code, 0);
    let status = show("a");
    assert_eq!(resets(stream(&status, "there")), (0, 2));
    assert_eq!(input(stream(&status, "there")), 50, "counters continue");
    assert_eq!(stream(&status, "back").recovery, Some(reset(recovery())));
}

fn check_unknown_names() {
    for line in [
        &["reset", "axis", "--node", "a"][..],
        &["show", "a", "--stream", "axis"],
        &["show", "a", "--stream", "axis", "--json"],
    ] {
        let ran = run(line);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{line:?}: {ran:?}");
        for named in ["axis", "there", "back"] {
            assert!(ran.err.contains(named), "{named} in {}", ran.err);
        }
    }
    let ran = run(&["show", "b"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("\"b\"") && ran.err.contains(": a"), "{}", ran.err);
}

#[test]
fn every_counter_matches_the_frames() {
    if !can_run() {
        return;
    }
    let mut world = build(&one_node(&config()));
    // Otherwise it would be unknown whether the host completes checksums, which would be shown.
    let _resident = ResidentProcess::start(&world, "host");
    world.start_all(program()).unwrap_or_else(|error| panic!("{error}"));
    send_all(&world);
    check_json();
    check_counters();
    check_tables();
    check_resets();
    check_unknown_names();
}

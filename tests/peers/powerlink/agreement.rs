//! tshark and `onbeat powerlink sniff` read every capture alike: the fields of each message, and the bus as a whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use onbeat_delay::capture::Reader;
use onbeat_testing::powerlink::Case;
use onbeat_testing::root;
use onbeat_wire::powerlink::{Message, NmtState};
use serde_json::Value;
use toml::Table;

use super::bus::output;
use crate::common::powerlink::row;
use crate::common::program;

/// States that a frame can report.
const STATES: [NmtState; 10] = [
    NmtState::INITIALISING,
    NmtState::RESET_APPLICATION,
    NmtState::RESET_COMMUNICATION,
    NmtState::RESET_CONFIGURATION,
    NmtState::NOT_ACTIVE,
    NmtState::PRE_OPERATIONAL_1,
    NmtState::PRE_OPERATIONAL_2,
    NmtState::READY_TO_OPERATE,
    NmtState::OPERATIONAL,
    NmtState::STOPPED,
];

pub(super) fn check() {
    let entries = fs::read_dir(output()).expect("captures");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut captures: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "pcap")).collect();
    captures.sort();
    let mut frames = 0;
    for capture in &captures {
        frames += check_lines(capture);
        check_bus(capture);
    }
    let messages = check_fields(&captures);
    let captures = captures.len();
    println!("{captures} captures, {frames} frames, {messages} distinct messages: tshark agrees");
}

/// Runs a script of vectors/powerlink with captures; returns its output.
fn script(name: &str, captures: &[PathBuf]) -> String {
    let script = root().join("vectors/powerlink").join(name);
    let ran = Command::new(&script).args(captures).stderr(Stdio::inherit()).output();
    let ran = ran.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(ran.status.success(), "{}", script.display());
    String::from_utf8(ran.stdout).expect("text")
}

/// Compares every field of every distinct message; returns the number of messages.
fn check_fields(captures: &[PathBuf]) -> usize {
    let text = script("generate", captures);
    let cases = text.split("\n[[case]]\n").skip(1);
    let check = |case: &str| {
        let case = case.replace("[case.fields]", "[fields]");
        let case: Case = toml::from_str(&case).unwrap_or_else(|error| panic!("{error}: {case}"));
        case.check();
    };
    cases.map(check).count()
}

/// Each line of `sniff --frames` is the message that [`check_fields`] compares; returns the number of messages.
fn check_lines(capture: &Path) -> u64 {
    let mut sniff = Command::new(program());
    sniff.args(["powerlink", "sniff", "--frames"]).arg(capture).stdout(Stdio::piped());
    let mut sniff = sniff.spawn().expect("sniff");
    let lines = BufReader::new(sniff.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let mut reader = Reader::new(BufReader::new(File::open(capture).expect("a capture"))).unwrap();
    let (mut number, mut messages) = (0, 0);
    while let Some(packet) = reader.next_packet().expect("a packet") {
        number += 1;
        if packet.octets.get(12..14) != Some(&[0x88, 0xab]) {
            continue;
        }
        messages += 1;
        let message = Message::parse(&packet.octets[14..])
            .unwrap_or_else(|error| panic!("{capture:?}, frame {number}: {error}"));
        let line = lines.next().unwrap_or_default();
        assert!(line.ends_with(&format!("  {message}")), "{capture:?}, frame {number}: {line}");
    }
    // The result follows.
    lines.for_each(drop);
    sniff.wait().expect("its exit status");
    messages
}

fn number(table: &Table, key: &str) -> u64 {
    table[key].as_integer().and_then(|value| value.try_into().ok()).expect("a number")
}

/// Compares counts, times and states of the bus.
fn check_bus(capture: &PathBuf) {
    let expected: Table =
        toml::from_str(&script("observe", std::slice::from_ref(capture))).unwrap();
    let (name, expected) = expected.iter().next().expect("a capture");
    let expected = expected.as_table().expect("a table");
    let mut sniff = Command::new(program());
    sniff.args(["powerlink", "sniff", "--json"]).arg(capture);
    let found: Value = serde_json::from_slice(&sniff.output().expect("sniff").stdout).unwrap();
    let figures = &found["figures"];

    for (kind, key) in
        [("SoC", "soc"), ("PReq", "preq"), ("PRes", "pres"), ("SoA", "soa"), ("ASnd", "asnd")]
    {
        assert_eq!(row(&found, "frames", kind)[1], number(expected, key), "{name}: {kind}");
    }
    assert_eq!(row(&found, "frames", "malformed")[1], 0, "{name}");
    let series = |figure: &str, prefix: &str| {
        let all = figures[figure]["series"].as_array().into_iter().flatten();
        let of = |series: &&Value| series["name"].as_str().is_some_and(|n| n.starts_with(prefix));
        let counted = all.filter(of).filter(|series| series["count"] != 0);
        counted.fold((0, u64::MAX, 0), |(count, least, greatest), series| {
            let number = |key: &str| series[key].as_u64().expect("a number");
            (count + number("count"), least.min(number("min")), greatest.max(number("max")))
        })
    };
    for (key, figure, prefix) in [
        ("cycles-ns", "cycle", "SoC to SoC"),
        ("polls-ns", "response time", "PRes of "),
        ("idents-ns", "response time", "response to IdentRequest"),
    ] {
        let spread = expected[key].as_table().expect("a table");
        let [count, least, greatest] = ["count", "min", "max"].map(|key| number(spread, key));
        let least = if count == 0 { u64::MAX } else { least };
        assert_eq!(series(figure, prefix), (count, least, greatest), "{name}: {key}");
    }
    let nodes = figures["nodes"]["rows"].as_array().expect("nodes");
    let unanswered: u64 = nodes.iter().map(|row| row[4].as_u64().expect("a number")).sum();
    assert_eq!(unanswered, number(expected, "unanswered-polls"), "{name}: polls");

    let numbers: BTreeMap<String, u8> =
        STATES.iter().map(|state| (state.to_string(), state.0)).collect();
    let changes = figures["states"]["rows"].as_array().expect("states");
    let states = changes.iter().filter(|row| row[2] != "");
    let states = states.map(|row| {
        let text = |place: usize| row[place].as_str().expect("text");
        let state = numbers.get(text(3)).unwrap_or_else(|| panic!("{name}: {}", row[3]));
        [text(1).parse::<i64>().expect("a node"), i64::from(*state)]
    });
    let reported = expected["states"].as_array().expect("states").iter().map(|pair| {
        let pair = pair.as_array().expect("a pair");
        [&pair[0], &pair[1]].map(|value| value.as_integer().expect("a number"))
    });
    assert_eq!(states.collect::<Vec<_>>(), reported.collect::<Vec<_>>(), "{name}: states");
}

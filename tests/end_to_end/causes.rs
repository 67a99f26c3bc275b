//! `onbeat delay`: each cause of unmatched packets by itself, with its remedy.
//!
//! ```text
//!  captures made here, and cut, shifted by editcap: 10.9.1.2 --- [ router ] --- 10.9.2.2
//!  a real router:  sender eth0 --- eth0 [ router ] eth1 --- eth0 receiver, which answers
//!                                   | tcpdump     | tcpdump
//! ```

use std::fs::{self, File};
use std::process::{Command, Stdio};

use crate::common::delay::{self, Directory, Router, can_capture, packets};
use crate::common::{BOUND, can, program, run, run_in};
use onbeat_testing::{Feature, require_that};
use serde_json::Value;

const START: i64 = 1_767_323_045_000_000_000;
const PACKETS: u32 = 300;

/// A captured packet: time and octets.
type CapturedPacket = (i64, Vec<u8>);

/// A UDP frame from one network of the router to the other, before or behind it; in a VLAN.
fn frame(number: u32, backward: bool, behind: bool, vlan: Option<u16>) -> Vec<u8> {
    let [from, to] = if backward { [2, 1] } else { [1, 2] };
    let station = |net| [2, 0, 0, 0, net, 2];
    let router = |net| [2, 0, 0, 0, net, 1];
    let (destination, source) =
        if behind { (station(to), router(to)) } else { (router(from), station(from)) };
    let mut octets = [destination, source].concat();
    octets.extend(vlan.iter().flat_map(|vid| [[0x81, 0], vid.to_be_bytes()].concat()));
    octets.extend([8, 0, 0x45, 0, 0, 128]);
    octets.extend((number as u16).to_be_bytes());
    octets.extend([0x40, 0, if behind { 63 } else { 64 }, 17, 0, 0, 10, 9, from, 2, 10, 9, to, 2]);
    octets.extend([0x13, 0x88, 0x13, 0x89, 0, 108, 0, 0]);
    let contents =
        (u64::from(number) << 1 | u64::from(backward)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    octets.extend(contents.to_be_bytes().repeat(100_usize.div_ceil(8)).iter().take(100));
    octets
}

fn time(number: u32) -> i64 {
    START + i64::from(number) * 1_000_000
}

/// One side of the hop, in one direction.
fn side(
    numbers: std::ops::Range<u32>,
    backward: bool,
    behind: bool,
    vlan: Option<u16>,
) -> Vec<CapturedPacket> {
    let delay_ns = if behind { 20_000 } else { 0 };
    numbers.map(|n| (time(n) + delay_ns, frame(n, backward, behind, vlan))).collect()
}

/// Arrivals and departures in this direction, and in the other.
fn both_directions(vlans: [Option<u16>; 2]) -> [Vec<CapturedPacket>; 2] {
    [0, 1].map(|at| {
        let there = side(0..PACKETS, false, at == 1, vlans[at]);
        let back = side(0..PACKETS / 2, true, at == 0, vlans[at]);
        let back = back.into_iter().map(|(time_ns, octets)| (time_ns + 300_000, octets));
        let mut all: Vec<_> = there.into_iter().chain(back).collect();
        all.sort_by_key(|(time_ns, _)| *time_ns);
        all
    })
}

/// Shifts the second half back by 90 ms, as by a clock step.
fn set_back(capture: &mut [CapturedPacket]) {
    let middle = time(PACKETS / 2);
    for (time_ns, _) in capture {
        *time_ns -= if *time_ns >= middle { 90_000_000 } else { 0 };
    }
}

/// Exit status and result of a command.
fn result(arguments: &[&str]) -> (i32, Value) {
    let ran = run(&[arguments, &["--json", "--quiet"]].concat());
    assert_eq!(ran.err, "", "{arguments:?}");
    (ran.code, serde_json::from_str(&ran.out).unwrap())
}

/// The names of the causes of a result, and their statements.
fn causes(found: &Value) -> (Vec<&str>, String) {
    let causes = found["causes"].as_array().unwrap_or_else(|| panic!("{found:#}"));
    let names = causes.iter().map(|cause| cause["name"].as_str().unwrap()).collect();
    let statements: Vec<_> =
        causes.iter().map(|cause| cause["statement"].as_str().unwrap()).collect();
    (names, statements.join("; "))
}

/// Matches, and runs the command that the cause prints.
fn remedied(name: &str, arguments: &[&str]) -> (i32, Value) {
    let (code, found) = result(arguments);
    let (names, statement) = causes(&found);
    assert_eq!((code, names), (1, vec![name]), "{statement}");
    let command = statement.split('`').find_map(|part| part.strip_prefix("onbeat "));
    let words: Vec<&str> = command.unwrap_or_else(|| panic!("{statement}")).split(' ').collect();
    result(&words)
}

fn editcap(arguments: &[&str]) {
    let status = Command::new("editcap").args(arguments).stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "editcap {arguments:?}");
}

fn has_editcap() -> bool {
    require_that(Command::new("editcap").arg("--version").output().is_ok(), "editcap")
}

struct Hop {
    directory: Directory,
    arrivals: String,
    departures: String,
}

impl Hop {
    fn new(name: &str) -> Self {
        let directory = Directory::new(name);
        let arrivals = directory.capture("in.pcap", &side(0..PACKETS, false, false, None));
        let departures = directory.capture("out.pcap", &side(0..PACKETS, false, true, None));
        Self { directory, arrivals, departures }
    }

    /// Checks the single cause of a failed match.
    fn fails(&self, arguments: &[&str], name: &str, part: &str) {
        let (code, found) = result(&[&["delay", "match"], arguments].concat());
        let (names, statement) = causes(&found);
        assert_eq!((code, names), (1, vec![name]), "{arguments:?}: {statement}");
        assert!(statement.contains(part), "{arguments:?}: {statement}");
        assert_eq!(found["ok"], false);
    }
}

#[test]
fn a_valid_match_has_no_cause() {
    let hop = Hop::new("whole");
    let (code, found) = delay::result(&["delay", "match", &hop.arrivals, &hop.departures]);
    assert_eq!((code, causes(&found).0), (0, vec![]));
    let checks: Vec<_> = found["checks"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(checks.len(), 3, "{checks:?}");
    assert_eq!(checks[1], "packets matched");
}

#[test]
fn each_cause_is_named_alone() {
    let hop = Hop::new("alone");
    let (directory, arrivals, departures) =
        (&hop.directory, &hop.arrivals[..], &hop.departures[..]);
    let empty = directory.capture("empty.pcap", &[]);
    hop.fails(&[arrivals, &empty], "empty capture", "empty.pcap holds no packet");
    hop.fails(&[&empty, &empty], "empty capture", "neither capture");
    hop.fails(&[arrivals, arrivals], "one capture in both roles", "300 of 300");
    let other: Vec<_> = side(1000..1300, false, true, None);
    let other = other
        .into_iter()
        .map(|(time_ns, octets)| (time_ns - 1_000_000_000, octets))
        .collect::<Vec<_>>();
    let other = directory.capture("other.pcap", &other);
    hop.fails(&[arrivals, &other], "different traffic", "300 arrivals and 300 departures");
    let later = directory.capture("later.pcap", &side(1000..1300, false, true, None));
    hop.fails(&[arrivals, &later], "no overlap in time", "701 ms apart");
    let few = directory.capture("few.pcap", &side(0..60, false, true, None));
    hop.fails(&[arrivals, &few], "too few packets", "60 packets matched, 100 required");
    let (code, found) = result(&["delay", "match", arrivals, &few, "--min-matched", "60"]);
    assert_eq!((code, causes(&found).0), (0, vec![]));
    hop.fails(&[arrivals, departures, "--filter", "tcp"], "nothing selected", "both sides");
    let out = [arrivals, departures, "--filter-out", "src net 10.9.7.0/24"];
    hop.fails(&out, "nothing selected", "none of the 300 packets of the departures");
    let (code, _) = result(&["delay", "match", arrivals, departures, "--filter", "udp port 5001"]);
    assert_eq!(code, 0);
    let ran = run(&["delay", "match", arrivals, departures, "--filter", "udp and and"]);
    assert!(ran.code == 2 && ran.err.contains("syntax error"), "{}", ran.err);
    let ports: Vec<_> = (1..=3000).map(|port| port.to_string()).collect();
    let many = format!("port {}", ports.join(" or "));
    let ran = run(&["delay", "match", arrivals, departures, "--filter-in", &many]);
    assert!(ran.code == 2 && ran.err.starts_with("onbeat: --filter-in "), "{}", ran.err);
    assert!(ran.err.contains("3000 terms, more than the limit of 128"), "{}", ran.err);
    // The table for people names the cause as well.
    let ran = run(&["delay", "match", arrivals, arrivals, "--quiet"]);
    assert!(ran.code == 1 && ran.out.contains("one capture in both roles: "), "{}", ran.out);
}

/// Each of these matches packets, but measures no delay.
#[test]
fn matches_without_a_measurement_fail() {
    let hop = Hop::new("unmeasured");
    let (directory, arrivals) = (&hop.directory, &hop.arrivals[..]);
    // Identical packets, with a delay of many intervals.
    let alike = |behind, delay_ns: i64| {
        let one = frame(0, false, behind, None);
        (0..PACKETS).map(|n| (time(n) + delay_ns, one.clone())).collect::<Vec<_>>()
    };
    let [waiting, later] = [(false, 0), (true, 50_300_000)].map(|(behind, delay_ns)| {
        directory.capture(&format!("alike{behind}.pcap"), &alike(behind, delay_ns))
    });
    hop.fails(&[&waiting, &later], "packets alike", "300 of 300 packets matched");
    let few = ["--octets", "20"];
    let different = directory.capture("late.pcap", &{
        let behind = side(0..PACKETS, false, true, None).into_iter();
        behind.map(|(time_ns, octets)| (time_ns + 50_000_000, octets)).collect::<Vec<_>>()
    });
    let numbered = |path: &str| {
        let same = |(time_ns, mut octets): CapturedPacket| {
            octets[18..20].fill(0);
            (time_ns, octets)
        };
        let behind = path.contains("behind");
        let delay_ns = if behind { 50_000_000 } else { 0 };
        let packets = side(0..PACKETS, false, behind, None).into_iter().map(same);
        directory.capture(path, &packets.map(|(t, o)| (t + delay_ns, o)).collect::<Vec<_>>())
    };
    let [before, behind] = ["before.pcap", "behind.pcap"].map(numbered);
    hop.fails(
        &[&[&before[..], &behind], &few[..]].concat(),
        "packets alike",
        "compare more than 20 octets",
    );
    let (code, _) = result(&["delay", "match", arrivals, &different]);
    assert_eq!(code, 0);

    // The same point of the network on both sides.
    let part = |numbers| directory.capture("part.pcap", &side(numbers, false, false, None));
    for numbers in [0..PACKETS - 1, 10..PACKETS + 3] {
        hop.fails(&[arrivals, &part(numbers)], "one capture in both roles", "same time stamps");
    }
    let filters = ["--filter-in", "udp", "--filter-out", "udp and ip[5] & 1 = 1"];
    let selected = [&[arrivals, arrivals], &filters[..]].concat();
    hop.fails(&selected, "one capture in both roles", "150 of 150");
    let far: Vec<_> = alike(false, 0).into_iter().zip(0..).collect();
    let far: Vec<_> =
        far.into_iter().map(|((t, octets), n)| (t + n * 2_000_000_000, octets)).collect();
    let far = directory.capture("far.pcap", &far);
    hop.fails(&[&far, &far], "equal time stamps", "300 of 300 packets matched");

    // Clocks that have stopped.
    for time_ns in [0, START] {
        let stopped = [false, true].map(|behind| {
            let packets = side(0..PACKETS, false, behind, None).into_iter();
            let packets: Vec<_> = packets.map(|(_, octets)| (time_ns, octets)).collect();
            directory.capture(&format!("stopped{behind}.pcap"), &packets)
        });
        hop.fails(&[&stopped[0], &stopped[1]], "constant time stamps", "a clock that runs");
    }
    let vlans = [Some(101), Some(102)];
    let mut equal = [0, 1].map(|at| side(0..PACKETS, false, at == 1, vlans[at])).concat();
    equal.iter_mut().enumerate().for_each(|(place, packet)| {
        packet.0 = time(place as u32 % PACKETS);
    });
    equal.sort_by_key(|(time_ns, _)| *time_ns);
    let equal = directory.capture("equal.pcap", &equal);
    let (code, found) = result(&["delay", "mirror", &equal, "--vlan", "101,102"]);
    assert_eq!((code, causes(&found).0), (1, vec!["equal time stamps"]), "{found:#}");

    // A step shorter than the pause between packets: time stamps do not go backwards.
    let is_there = |number: &u32| !(160..260).contains(number);
    let numbers = || (0..PACKETS).filter(is_there);
    let gap: Vec<_> = numbers().map(|n| (time(n), frame(n, false, false, None))).collect();
    let gap = directory.capture("gap.pcap", &gap);
    for (name, by_ns) in [("back.pcap", -90_000_000), ("forward.pcap", 5_000_000_000)] {
        let departures = numbers().map(|n| {
            let set_ns = if n < 160 { 0 } else { by_ns };
            (time(n) + 20_000 + i64::from(n) % 50 + set_ns, frame(n, false, true, None))
        });
        let departures = directory.capture(name, &departures.collect::<Vec<_>>());
        let (code, found) = remedied("clock step", &["delay", "match", &gap, &departures]);
        assert_eq!((code, causes(&found).0), (0, vec![]), "{name}: {found:#}");
        assert_eq!(packets(&found, "lost"), 0, "{name}");
    }
}

/// Contents repeat after 500 ms, and packets take 800 ms: if the capture of arrivals starts later than
/// that of departures, the captures match with an offset of one period.
#[test]
fn contents_that_repeat_do_not_match_off_by_a_period() {
    let hop = Hop::new("period");
    let capture = |name: &str, behind: bool, delay_ns: i64, of: &dyn Fn(i64) -> bool| {
        let packets = (0..2000).map(|n| (time(n) + delay_ns, frame(n % 500, false, behind, None)));
        let captured: Vec<_> = packets.filter(|(time_ns, _)| of(*time_ns - START)).collect();
        hop.directory.capture(name, &captured)
    };
    const MS: i64 = 1_000_000;
    let all = |_: i64| true;
    let departures = capture("all-out.pcap", true, 800 * MS, &all);
    let late = capture("late-in.pcap", false, 0, &|at_ns| at_ns >= 500 * MS);
    hop.fails(&[&late, &departures], "packets alike", "1,500 of 1,500 packets matched");
    // Both captures end at the same time, so that there are no extra departures.
    let late = capture("later-in.pcap", false, 0, &|at_ns| at_ns >= 700 * MS);
    let cut = capture("cut-out.pcap", true, 800 * MS, &|at_ns| at_ns < 2000 * MS);
    hop.fails(&[&late, &cut], "packets alike", "1,000 of 1,000 packets matched");
    // Whole captures match by order.
    let arrivals = capture("all-in.pcap", false, 0, &all);
    let departures = capture("soon-out.pcap", true, 300 * MS, &all);
    let (code, found) = result(&["delay", "match", &arrivals, &departures]);
    assert_eq!((code, causes(&found).0), (0, vec![]));
    assert_eq!(packets(&found, "matched by order among identical packets"), 1500);
}

/// Captures of `tcpdump` and of `tcpdump --time-stamp-precision=nano`.
#[test]
fn one_point_is_recognized_at_another_resolution() {
    let hop = Hop::new("resolution");
    let capture = |name: &str, behind: bool, resolution_ns: i64| {
        let jitter_ns = |n: u32| i64::from(n * 7919 % 1_000_000);
        let packets = (0..PACKETS).map(|n| {
            (
                (time(n) + jitter_ns(n)) / resolution_ns * resolution_ns,
                frame(n, false, behind, None),
            )
        });
        hop.directory.capture(name, &packets.collect::<Vec<_>>())
    };
    let [coarse, fine, behind] = [("us", false, 1000), ("ns", false, 1), ("behind", true, 1)]
        .map(|(name, behind, resolution_ns)| capture(name, behind, resolution_ns));
    hop.fails(&[&coarse, &fine], "one capture in both roles", "300 of 300");
    hop.fails(&[&fine, &coarse], "one capture in both roles", "within the coarser resolution");
    // Frames of another link, or of a hop that is faster than the clock's resolution.
    hop.fails(&[&coarse, &behind], "equal time stamps", "300 of 300 packets matched");
}

/// The printed command yields a measurement.
#[test]
fn each_remedy_yields_a_measurement() {
    let hop = Hop::new("remedy");
    let (directory, arrivals, departures) =
        (&hop.directory, &hop.arrivals[..], &hop.departures[..]);
    let swapped = remedied("swapped captures", &["delay", "match", departures, arrivals]);
    let translated: Vec<_> = side(0..PACKETS, false, true, None)
        .into_iter()
        .map(|(time_ns, mut octets)| {
            octets[26..30].copy_from_slice(&[192, 0, 2, 9]);
            (time_ns, octets)
        })
        .collect();
    let translated = directory.capture("nat.pcap", &translated);
    let translated = remedied("translated addresses", &["delay", "match", arrivals, &translated]);
    let mut found = vec![swapped, translated];
    if has_editcap() {
        let cut = directory.path("cut.pcap");
        editcap(&["-F", "nsecpcap", "-s", "68", departures, &cut]);
        found.push(remedied("cut packets", &["delay", "match", arrivals, &cut]));
        let shifted = directory.path("shifted.pcap");
        editcap(&["-F", "nsecpcap", "-t", "3600", departures, &shifted]);
        found.push(remedied("clocks apart", &["delay", "match", arrivals, &shifted]));
        // Both causes at the same time are both named.
        let both = directory.path("both.pcap");
        editcap(&["-F", "nsecpcap", "-s", "68", "-t", "-3600", departures, &both]);
        let (code, outcome) = result(&["delay", "match", arrivals, &both]);
        assert_eq!((code, causes(&outcome).0), (1, vec!["cut packets", "clocks apart"]));
    }
    for (code, outcome) in found {
        assert_eq!((code, causes(&outcome).0), (0, vec![]), "{outcome:#}");
        assert_eq!(packets(&outcome, "matched uniquely"), u64::from(PACKETS));
    }
}

/// Each of several causes prints the command with all remedies, including those already applied.
#[test]
fn a_remedy_covers_all_causes() {
    let hop = Hop::new("several");
    let (directory, arrivals) = (&hop.directory, &hop.arrivals[..]);
    let translated = |shift_ns: i64| -> Vec<CapturedPacket> {
        let departures = side(0..PACKETS, false, true, None).into_iter();
        let translate = |(time_ns, mut octets): CapturedPacket| {
            octets[26..30].copy_from_slice(&[192, 0, 2, 9]);
            (time_ns + shift_ns, octets)
        };
        departures.map(translate).collect()
    };
    let nat = directory.capture("nat.pcap", &translated(0));
    let later = directory.capture("later.pcap", &translated(5_000_000_000));
    let mut cases = vec![
        (vec![&nat[..], arrivals], vec!["translated addresses", "swapped captures"]),
        (vec![arrivals, &later], vec!["translated addresses", "clocks apart"]),
        (vec![arrivals, &later, "--two-clocks"], vec!["translated addresses"]),
        (vec![arrivals, &nat, "--octets", "46"], vec!["translated addresses"]),
    ];
    let cut = directory.path("cut.pcap");
    if has_editcap() {
        editcap(&["-F", "nsecpcap", "-s", "54", &nat, &cut]);
        cases.extend([
            (vec![arrivals, &cut[..]], vec!["cut packets", "translated addresses"]),
            (vec![arrivals, &cut, "--octets", "40"], vec!["translated addresses"]),
            (vec![arrivals, &cut, "--nat"], vec!["cut packets"]),
        ]);
    }
    for (arguments, expected) in cases {
        let (code, found) = result(&[&["delay", "match"], &arguments[..]].concat());
        let (names, statements) = causes(&found);
        assert_eq!((code, names), (1, expected.clone()), "{arguments:?}: {statements}");
        let commands: Vec<&str> =
            statements.split('`').filter_map(|part| part.strip_prefix("onbeat ")).collect();
        assert_eq!(commands.len(), expected.len(), "{statements}");
        for command in commands {
            let (code, found) = result(&command.split(' ').collect::<Vec<_>>());
            assert_eq!((code, causes(&found).0), (0, vec![]), "{command}: {found:#}");
            let matched = packets(&found, "matched uniquely");
            assert_eq!(matched, u64::from(PACKETS), "{command}");
        }
    }
}

#[test]
fn forwarded_packets_are_no_replies() {
    let hop = Hop::new("forwarded");
    let (code, found) =
        remedied("no replies", &["delay", "match", &hop.arrivals, &hop.departures, "--reply"]);
    assert_eq!((code, causes(&found).0), (0, vec![]), "{found:#}");
}

#[test]
fn captures_of_both_directions_and_of_a_clock_set_back_match() {
    let directory = Directory::new("remedied");
    let [arrivals, departures] = both_directions([None, None]);
    let paths = [("in.pcap", arrivals), ("out.pcap", departures)]
        .map(|(name, capture)| directory.capture(name, &capture));
    let csv = directory.path("delays.csv");
    for options in [&[][..], &["--csv", &csv]] {
        let (code, found) = result(&[&["delay", "match", &paths[0], &paths[1]], options].concat());
        let (names, statement) = causes(&found);
        assert_eq!((code, names), (0, vec!["both directions"]), "{statement}");
        assert!(
            statement.contains("300 compared") && statement.contains("150 in reverse"),
            "{statement}"
        );
        assert_eq!(packets(&found, "matched uniquely"), u64::from(PACKETS));
        assert_eq!(packets(&found, "lost") + packets(&found, "departed without an arrival"), 0);
    }
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 1 + PACKETS as usize);
    // Standard input is read only once: the cause is named, and a filter is the remedy.
    for (options, expected) in [
        (&[][..], (1, vec!["both directions"])),
        (&["--filter", "src net 10.9.1.0/24"], (0, vec![])),
    ] {
        let mut onbeat = Command::new(program());
        onbeat.args(["delay", "match", "-", &paths[1], "--json", "--quiet"]).args(options);
        let output = onbeat.stdin(File::open(&paths[0]).unwrap()).output().unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code().unwrap(), causes(&found).0), expected, "{found:#}");
    }

    let sides = [false, true].map(|behind| {
        let mut capture = side(0..PACKETS, false, behind, None);
        set_back(&mut capture);
        directory.capture(if behind { "b.pcap" } else { "a.pcap" }, &capture)
    });
    let (code, found) = delay::result(&["delay", "match", &sides[0], &sides[1]]);
    let (names, statement) = causes(&found);
    assert_eq!((code, names), (0, vec!["clock set back"]), "{statement}");
    assert_eq!(packets(&found, "matched uniquely"), u64::from(PACKETS));

    // Ten packets late at intervals: 10 ms.
    let mut late = side(0..PACKETS, false, false, None);
    for place in (0..late.len() - 10).step_by(7) {
        let packet = late.remove(place);
        late.insert(place + 10, packet);
    }
    let late = directory.capture("late.pcap", &late);
    let departures = directory.capture("ordered.pcap", &side(0..PACKETS, false, true, None));
    let (code, found) = result(&["delay", "match", &late, &departures]);
    assert_eq!((code, causes(&found).0), (0, vec!["disorder"]), "{found:#}");
    assert_eq!(packets(&found, "matched uniquely"), u64::from(PACKETS));
}

#[test]
fn causes_in_a_mirrored_capture() {
    let directory = Directory::new("mirrored");
    let mirrored = |name: &str, sides: [Vec<CapturedPacket>; 2]| {
        let mut all = sides.concat();
        all.sort_by_key(|(time_ns, _)| *time_ns);
        directory.capture(name, &all)
    };
    let vlans = [Some(101), Some(102)];
    let sides = || [0, 1].map(|at| side(0..PACKETS, false, at == 1, vlans[at]));
    let whole = mirrored("whole.pcap", sides());
    let both = mirrored("both.pcap", both_directions(vlans));
    let mut late = sides().concat();
    late.sort_by_key(|(time_ns, _)| *time_ns);
    set_back(&mut late);
    let late = directory.capture("back.pcap", &late);
    let empty = directory.capture("empty.pcap", &[]);
    for (capture, vlan, expected) in [
        (&whole, "101,102", (0, vec![])),
        (&both, "101,102", (0, vec!["both directions"])),
        (&late, "101,102", (0, vec!["clock set back"])),
        (&whole, "102,101", (1, vec!["swapped captures"])),
        (&whole, "101,103", (1, vec!["nothing selected"])),
        (&empty, "101,102", (1, vec!["empty capture"])),
    ] {
        let (code, found) = result(&["delay", "mirror", capture, "--vlan", vlan]);
        let (names, statement) = causes(&found);
        assert_eq!((code, names), expected, "{capture}: {statement}");
        if code == 0 {
            let matched = packets(&found, "matched uniquely");
            assert_eq!(matched, u64::from(PACKETS), "{capture}");
        }
    }
    if has_editcap() {
        let cut = directory.path("cut.pcap");
        editcap(&["-F", "nsecpcap", "-s", "72", &whole, &cut]);
        let (code, found) = result(&["delay", "mirror", &cut, "--vlan", "101,102"]);
        let (names, statement) = causes(&found);
        assert_eq!((code, names), (1, vec!["cut packets"]), "{statement}");
        assert!(statement.contains("--octets 54"), "{statement}");
    }
}

/// tcpdump on both sides of a router, while packets pass in both directions.
#[test]
fn a_router_with_traffic_in_both_directions() {
    if !can_capture() {
        return;
    }
    let directory = Directory::new("ways");
    let router = Router::new();
    let there = router.reader.local_addr().unwrap();
    router.writer.set_read_timeout(Some(BOUND)).unwrap();
    let paths = router.captured_while(&directory, || {
        for number in 0..PACKETS {
            router.pass(&number.to_be_bytes());
            let back = [&number.to_be_bytes()[..], b"back"].concat();
            router.reader.send_to(&back, router.writer.local_addr().unwrap()).unwrap();
            let (_, from) = router.writer.recv_from(&mut [0; 16]).unwrap();
            assert_eq!(from, there);
        }
    });
    let (code, found) = result(&["delay", "match", &paths[0], &paths[1]]);
    let (names, statement) = causes(&found);
    assert_eq!((code, names), (0, vec!["both directions"]), "{statement}");
    let matched = packets(&found, "matched uniquely");
    assert!(matched > u64::from(PACKETS), "{found:#}");
    let filter = ["--filter", "src net 10.9.1.0/24"];
    let (code, found) = result(&[&["delay", "match", &paths[0], &paths[1]][..], &filter].concat());
    assert_eq!((code, causes(&found).0), (0, vec![]));
    assert_eq!(packets(&found, "matched uniquely"), matched);
}

#[test]
fn hooks_without_packets_yield_no_measurement() {
    if !can(&[Feature::Btf, Feature::Kernel(6, 3)]) {
        return;
    }
    let router = Router::new();
    let hooks = |options: &[&str]| {
        let line = [&["delay", "hooks", "eth0", "--json", "--quiet", "--for", "20ms"], options];
        let ran = run_in(router.handle.namespace(), &line.concat());
        let found: Value = serde_json::from_str(&ran.out).unwrap();
        let (names, statement) = causes(&found);
        assert_eq!((ran.code, names), (1, vec!["no packets"]), "{statement}");
        statement
    };
    assert!(hooks(&["--", "tcp"]).contains("passes the filter"));
}

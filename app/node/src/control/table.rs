//! Text output of `show`.

use std::collections::BTreeSet;
use std::fmt::Write;

use onbeat_frer::counters::Counters;
use onbeat_report::format::{count, integer};
use onbeat_report::table::{Alignment, TextTable, printable};

use super::status::{FileVersion, LinkState, NodeStatus, RecoveryStatus, StreamStatus};
use super::wildcards;

/// Mark of the output of a stream while one of its ports loses frames.
const LOSES: &str = "*";

/// Rows of a table of nodes that are printed: forged sources must not bury the others.
const MOST_ROWS: usize = 64;

/// Returns the rows that precede by rank, in their order, and a line on the others.
pub(super) fn first_rows<T, K: Ord>(rows: &[T], rank: impl Fn(&T) -> K) -> (Vec<&T>, String) {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    places.sort_by_key(|place| rank(&rows[*place]));
    let others = places.split_off(places.len().min(MOST_ROWS)).len() as u64;
    places.sort_unstable();
    let line = match others {
        0 => String::new(),
        _ => format!("and {} not listed; --json has all\n", count(others, "other")),
    };
    (places.into_iter().map(|place| &rows[place]).collect(), line)
}

/// Table of the node, its ports and streams.
pub fn node_table(status: &NodeStatus) -> String {
    let mut text = format!(
        "node {}  pid {}  up {}  data plane {}  streams {}\n\n",
        status.node,
        status.pid,
        uptime(status.uptime_s),
        status.data_plane,
        status.streams.len(),
    );
    text += &version_line(&status.configuration);
    if let Some(clock) = &status.ptp {
        // Names of interfaces are of another program.
        text += &format!("PTP {}\n\n", printable(&clock.to_string()));
    }
    let mut ports = columns(&[
        "PORT",
        "INTERFACE",
        "MODE",
        "LINK",
        "#INPUT",
        "#OUTPUT",
        "#PASSED",
        "#DISCARD",
        "#UNMATCHED",
    ]);
    for port in &status.ports {
        let mode = &port.mode.to_string();
        let link = match port.link {
            LinkState::Up => "up",
            LinkState::Down => "down",
            LinkState::Missing => "missing",
        };
        ports.row(
            [port.name.as_str(), &port.interface, mode, link].map(str::to_owned).into_iter().chain(
                [
                    port.input_packets,
                    port.output_packets,
                    port.passed,
                    port.discard,
                    port.unmatched,
                ]
                .map(integer),
            ),
        );
    }
    text += &ports.to_string();
    if let Some(memory) = &status.memory {
        let [octets, each] = [memory.octets, memory.octets_per_stream].map(integer);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\ntables {octets} octets: room for {}, {each} octets each",
            count(memory.streams.into(), "stream")
        );
    }
    for port in &status.ports {
        if let Some(why) = &port.not_attached {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\nport {} is not attached: {why}", port.name);
        }
        if let Some(why) = &port.not_native {
            let _ = writeln!(text, "\nport {} is not in native mode: {why}", port.name);
        }
        if let Some(why) = &port.frames_lost {
            let _ = writeln!(text, "\nport {}: frames are lost: {why}", port.name);
        }
        if port.lost.total() > 0 {
            let remedy =
                port.lost.remedy().map_or_else(String::new, |remedy| format!(": {remedy}"));
            let _ = writeln!(text, "\nport {}: frames lost: {}{remedy}", port.name, port.lost);
        }
        if let Some(why) = &port.unfinished_checksums {
            let _ = writeln!(text, "\nport {}: {why}", port.name);
        }
        if port.link == LinkState::Down {
            let (name, interface) = (&port.name, &port.interface);
            let _ = writeln!(text, "\nport {name}: waiting for carrier on {interface}");
        }
    }
    if let Some(why) = &status.output_gap {
        let _ = writeln!(text, "\nOUTPUT of ports counts frames that are lost: {why}");
    }
    if !status.wildcards.is_empty() {
        text += &format!("\n{}", wildcards::summary(&status.wildcards));
    }
    if status.streams.is_empty() {
        return text;
    }
    let mut streams = columns(&[
        "STREAM",
        "FUNCTION",
        "#INPUT",
        "#PASSED",
        "#DISCARDED",
        "#ROGUE",
        "#LOST",
        "#OUT-OF-ORDER",
        "#TAGLESS",
        "#RESETS",
        "#OUTPUT",
    ]);
    for stream in &status.streams {
        let input: u64 = stream.members.iter().map(|member| member.input_packets).sum();
        let output: u64 = stream.egress.iter().map(|egress| egress.output_packets).sum();
        let mark = if stream.egress.iter().any(|egress| egress.loses) { LOSES } else { "" };
        let mut cells = vec![stream.name.clone(), function(stream).into(), integer(input)];
        match &stream.recovery {
            Some(recovery) => cells.extend(recovery.columns().map(|(_, value)| integer(value))),
            None => cells.extend(RecoveryStatus::default().columns().map(|_| "-".into())),
        }
        cells.push(integer(output) + mark);
        streams.row(cells);
    }
    text += "\n";
    text += &streams.to_string();
    let egress = || status.streams.iter().flat_map(|stream| &stream.egress);
    let losing: BTreeSet<_> =
        egress().filter(|egress| egress.loses).map(|egress| egress.port.as_str()).collect();
    if !losing.is_empty() {
        let losing: Vec<_> = losing.into_iter().collect();
        let ports = losing.join(", ");
        let _ = writeln!(text, "\n{LOSES} handed to a port that loses frames: {ports}");
    }
    text
}

/// The version of the file, where it has a tag, another system manages it, or it differs from the streams.
fn version_line(version: &FileVersion) -> String {
    let FileVersion { file, sha256, tag, managed_by, streams_changed } = version;
    if tag.is_none() && managed_by.is_none() && !streams_changed {
        return String::new();
    }
    let tag = tag.iter().map(|tag| format!("  tag {tag}"));
    let manager = managed_by.iter().map(|by| format!("  managed by {by}"));
    let changed = streams_changed.then(|| "  streams changed since".to_owned());
    let rest: String = tag.chain(manager).chain(changed).collect();
    format!("file {file}  sha256 {sha256}{rest}\n\n")
}

/// All counters of one stream.
pub fn stream_detail(stream: &StreamStatus) -> String {
    let mut text = format!("stream {}  {}\n", stream.name, function(stream));
    let mut line = |what: &str, rest: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {what:<10} {rest}");
    };
    for member in &stream.members {
        let input = integer(member.input_packets);
        let lost = if member.lost { "  lost" } else { "" };
        let draining = if member.draining { "  draining" } else { "" };
        let identification = &member.identification;
        line(
            "member",
            format!("{} ({identification})  input {input}{lost}{draining}", member.port),
        );
        if let Some(individual) = &member.individual {
            line("", format!("individual recovery: {}", recovery_line(individual)));
        }
    }
    if let Some(generation) = &stream.generation {
        line(
            "generation",
            format!(
                "next {}  resets {}",
                generation.gen_seq_num,
                integer(generation.seq_gen_resets)
            ),
        );
    }
    if let Some(recovery) = &stream.recovery {
        line("recovery", recovery_line(recovery));
    }
    for egress in &stream.egress {
        let loses = if egress.loses { "  the port loses frames" } else { "" };
        let output = integer(egress.output_packets);
        line("egress", format!("{}  output {output}{loses}", egress.port));
    }
    if stream.seq_enc_errored > 0 {
        line("errors", format!("{} undecodable tags", integer(stream.seq_enc_errored)));
    }
    text
}

/// A counter with another name in the line of a recovery function.
const LOST_BEFORE_FIRST: &str = "lost_before_first";

fn recovery_line(recovery: &RecoveryStatus) -> String {
    let state = if recovery.take_any {
        "accepts any number".to_owned()
    } else {
        format!("at {}", recovery.recov_seq_num)
    };
    let columns = recovery.columns();
    let (first, then) = columns.split_at(4);
    let is_shown =
        |name| name == LOST_BEFORE_FIRST || columns.iter().any(|(known, _)| *known == name);
    let rest = Counters::FIELDS.iter().filter(|field| !is_shown(field.name));
    let mut line = state;
    let mut add = |name: &str, value| {
        line.extend(["  ", &name.replace('_', " "), " ", &integer(value)]);
    };
    first.iter().for_each(|(name, value)| add(name, *value));
    add("lost before the first packet", recovery.counters.lost_before_first);
    then.iter().for_each(|(name, value)| add(name, *value));
    add("latent errors", recovery.latent_errors);
    rest.for_each(|field| add(field.name, (field.value)(&recovery.counters)));
    line
}

fn function(stream: &StreamStatus) -> &'static str {
    match (&stream.generation, &stream.recovery) {
        (Some(_), _) => "generate",
        (None, Some(_)) => "recover",
        (None, None) => "forward",
    }
}

/// A time in days, hours, minutes and seconds: `2d 03:04:05`.
pub fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days}d {clock}") } else { clock }
}

/// Columns by their headings; `#` marks numeric columns.
pub(super) fn columns(headings: &[&'static str]) -> TextTable {
    let column = |heading: &&'static str| match heading.strip_prefix('#') {
        Some(number) => (number, Alignment::Right),
        None => (*heading, Alignment::Left),
    };
    TextTable::new(headings.iter().map(column)).without_rule()
}

#[cfg(test)]
mod tests {
    use onbeat_frer::reading::PortLosses;

    use onbeat_host::ptp::{PtpState, PtpStatus};

    use super::super::status::{
        EgressStatus, GenerationStatus, MemberStatus, MemoryStatus, PortMode, PortStatus,
    };
    use super::*;

    fn status() -> NodeStatus {
        let member = |port: &str| MemberStatus {
            port: port.into(),
            identification: "null".into(),
            input_packets: 1_000,
            seq_enc_errored: 0,
            lost: port == "path2",
            draining: false,
            individual: None,
        };
        NodeStatus {
            node: "a".into(),
            pid: 42,
            uptime_s: 90_061,
            counted_since: String::new(),
            configuration: FileVersion::default(),
            data_plane: "xdp".into(),
            output_gap: None,
            memory: Some(MemoryStatus {
                streams: 4096,
                octets: 9_999_999,
                octets_per_stream: 2441,
            }),
            ports: vec![PortStatus {
                name: "path1".into(),
                interface: "eth1".into(),
                ifindex: 3,
                mode: PortMode::Native,
                link: LinkState::Up,
                input_packets: 1_000,
                unmatched: 7,
                ..PortStatus::default()
            }],
            streams: vec![
                StreamStatus {
                    name: "there".into(),
                    members: vec![member("talker")],
                    generation: Some(GenerationStatus { gen_seq_num: 1_000, seq_gen_resets: 1 }),
                    egress: vec![EgressStatus {
                        port: "path1".into(),
                        output_packets: 1_000,
                        loses: false,
                    }],
                    ..StreamStatus::default()
                },
                StreamStatus {
                    name: "back".into(),
                    members: vec![member("path1"), member("path2")],
                    recovery: Some(RecoveryStatus {
                        recov_seq_num: 999,
                        counters: Counters {
                            passed: 1_000_000,
                            discarded: 999_998,
                            lost: 65,
                            lost_before_first: 63,
                            ..Counters::default()
                        },
                        ..RecoveryStatus::default()
                    }),
                    egress: vec![EgressStatus {
                        port: "talker".into(),
                        output_packets: 1_000,
                        loses: false,
                    }],
                    ..StreamStatus::default()
                },
            ],
            wildcards: Vec::new(),
            ptp: None,
        }
    }

    #[test]
    fn the_clock_of_the_host_is_a_line() {
        let cause = Some("port is UNCALIBRATED\u{1b}".to_owned());
        let clock = PtpStatus { state: PtpState::NotLocked, cause, ..PtpStatus::default() };
        let text = node_table(&NodeStatus { ptp: Some(clock), ..status() });
        let line =
            "\n\nPTP not locked: port is UNCALIBRATED·  system clock not synchronized\n\nPORT ";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_node_is_shown_in_aligned_columns() {
        assert_eq!(
            node_table(&status()),
            "\
node a  pid 42  up 1d 01:01:01  data plane xdp  streams 2

PORT   INTERFACE  MODE    LINK  INPUT  OUTPUT  PASSED  DISCARD  UNMATCHED
path1  eth1       native  up    1,000       0       0        0          7

tables 9,999,999 octets: room for 4,096 streams, 2,441 octets each

STREAM  FUNCTION  INPUT     PASSED  DISCARDED  ROGUE  LOST  OUT-OF-ORDER  TAGLESS  RESETS  OUTPUT
there   generate  1,000          -          -      -     -             -        -       -   1,000
back    recover   2,000  1,000,000    999,998      0     2             0        0       0   1,000
"
        );
    }

    #[test]
    fn a_port_in_generic_mode_is_shown_with_cause_and_remedy() {
        let mut status = status();
        status.streams.clear();
        status.ports[0].mode = PortMode::Generic;
        status.ports[0].not_native = Some("its driver cannot; use another".into());
        status.ports[0].frames_lost = Some("no port forwards them; do this".into());
        let text = node_table(&status);
        let end = "\n\nport path1 is not in native mode: its driver cannot; use another\n\n\
                   port path1: frames are lost: no port forwards them; do this\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn a_port_that_cannot_be_attached_is_shown_with_its_cause() {
        let mut status = status();
        status.streams.clear();
        status.ports[0].mode = PortMode::Detached;
        status.ports[0].not_attached = Some("cannot set it up".into());
        let text = node_table(&status);
        assert!(text.ends_with("\n\nport path1 is not attached: cannot set it up\n"), "{text}");
    }

    #[test]
    fn frames_lost_inside_are_shown_by_cause() {
        let mut status = status();
        status.streams.clear();
        status.ports[0].lost = PortLosses { queue_full: 1_234, not_sent: 5, ..<_>::default() };
        let text = node_table(&status);
        let end = "\n\nport path1: frames lost: receive queue full 1234, not accepted by the interface 5\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn output_of_a_stream_is_marked_while_a_port_loses_frames() {
        let mut status = status();
        status.streams.truncate(1);
        status.streams[0].egress[0].loses = true;
        status.output_gap = Some("no tracepoint".into());
        let text = node_table(&status);
        assert!(
            text.contains("\n\nOUTPUT of ports counts frames that are lost: no tracepoint\n\n"),
            "{text}"
        );
        assert!(
            text.ends_with("  1,000*\n\n* handed to a port that loses frames: path1\n"),
            "{text}"
        );
        let detail = stream_detail(&status.streams[0]);
        assert!(
            detail.ends_with("  egress     path1  output 1,000  the port loses frames\n"),
            "{detail}"
        );
    }

    #[test]
    fn lost_packets_are_shown_apart_from_packets_before_the_first() {
        assert_eq!(
            stream_detail(&status().streams[1]),
            "\
stream back  recover
  member     path1 (null)  input 1,000
  member     path2 (null)  input 1,000  lost
  recovery   at 999  passed 1,000,000  discarded 999,998  rogue 0  lost 2  lost before the first packet 63  out of order 0  tagless 0  resets 0  latent errors 0  latent error resets 0  contended 0
  egress     talker  output 1,000
"
        );
    }

    /// 500 sources that were heard once, among nodes with many frames.
    #[test]
    fn forged_sources_do_not_bury_the_others() {
        let frames: Vec<u32> = (0..500).map(|n| if n % 10 == 3 { 1000 + n } else { 1 }).collect();
        let (listed, others) = first_rows(&frames, |frames| std::cmp::Reverse(*frames));
        assert_eq!(
            (listed.len(), others.as_str()),
            (64, "and 436 others not listed; --json has all\n")
        );
        assert_eq!(listed.iter().filter(|frames| ***frames > 1).count(), 50);
        let of_many: Vec<_> = listed.into_iter().filter(|frames| **frames > 1).collect();
        assert!(of_many.is_sorted(), "in their order");
        let (listed, others) = first_rows(&frames[..64], |frames| *frames);
        assert!(listed.into_iter().eq(&frames[..64]) && others.is_empty());
    }
}

//! History of counters: files of Apache Parquet, one an hour for each node, `DIRECTORY/date=D/hour=H/NODE.parquet`.
//!
//! ```text
//! node -> recorder, each minute -> rows of the hour in memory -> file, replaced as a whole -> report, DuckDB
//! ```

mod file;
mod recorder;
mod report;
mod time;

pub(crate) use recorder::{HistoryOptions, start};
pub(crate) use report::{Range, describe};
pub(crate) use time::parse as parse_time;

use onbeat_node::control::StreamStatus;

/// Names of the counters of a row, all cumulative.
const COUNTERS: [&str; 7] =
    ["packets", "discarded", "lost", "rogue", "out_of_order", "tagless", "resets"];

/// Where the counters of these names are in a row.
const PACKETS: usize = 0;
const LOST: usize = 2;
const RESETS: usize = 6;

/// The counters of one reading.
type Counters = [i64; COUNTERS.len()];

/// What is counted: `input` of a member, `recover` of the stream, or `output` of an egress port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Function {
    stream: String,
    /// `input`, `output` or `recover`.
    function: String,
    /// Of a member or egress port.
    port: String,
    /// Number of the member or egress port, from 0.
    number: i64,
}

/// A row of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    function: Function,
    /// Unix time in milliseconds.
    time_ms: i64,
    counters: Counters,
}

/// The functions of a stream with their counters.
fn functions(stream: &StreamStatus) -> impl Iterator<Item = (Function, Counters)> {
    let of = |function: &str, port: &str, number: usize| Function {
        stream: stream.name.clone(),
        function: function.into(),
        port: port.into(),
        number: number as i64,
    };
    let packets = |packets: u64| {
        let mut counters = Counters::default();
        counters[PACKETS] = signed(packets);
        counters
    };
    let inputs = stream.members.iter().enumerate().map(move |(number, member)| {
        (of("input", &member.port, number), packets(member.input_packets))
    });
    let outputs = stream.egress.iter().enumerate().map(move |(number, egress)| {
        (of("output", &egress.port, number), packets(egress.output_packets))
    });
    let recovery = stream.recovery.iter().map(move |recovery| {
        let c = &recovery.counters;
        let lost = recovery.really_lost();
        // In the order of the columns.
        let values = [c.passed, c.discarded, lost, c.rogue, c.out_of_order, c.tagless, c.resets];
        (of("recover", "", 0), values.map(signed))
    });
    inputs.chain(outputs).chain(recovery)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use onbeat_node::control::{EgressStatus, MemberStatus, RecoveryStatus};

    use super::*;

    #[test]
    fn each_function_of_a_stream_has_its_counters() {
        let mut recovery = RecoveryStatus::default();
        recovery.counters.passed = 90;
        recovery.counters.lost = 12;
        recovery.counters.lost_before_first = 2;
        recovery.counters.resets = 1;
        let member = |port: &str, input_packets| MemberStatus {
            port: port.into(),
            input_packets,
            ..MemberStatus::default()
        };
        let stream = StreamStatus {
            name: "axis".into(),
            members: vec![member("path1", 80), member("path2", 70)],
            recovery: Some(recovery),
            egress: vec![EgressStatus { port: "host".into(), output_packets: 90, loses: false }],
            ..StreamStatus::default()
        };
        let found: Vec<_> = functions(&stream)
            .map(|(key, counters)| (key.function, key.port, key.number, counters))
            .collect();
        let row = |function: &str, port: &str, number, counters| {
            (function.to_owned(), port.to_owned(), number, counters)
        };
        assert_eq!(
            found,
            [
                row("input", "path1", 0, [80, 0, 0, 0, 0, 0, 0]),
                row("input", "path2", 1, [70, 0, 0, 0, 0, 0, 0]),
                row("output", "host", 0, [90, 0, 0, 0, 0, 0, 0]),
                row("recover", "", 0, [90, 0, 10, 0, 0, 0, 1]),
            ]
        );
    }
}

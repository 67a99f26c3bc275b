//! The paths of streams, as `show --paths` prints them.

use onbeat_report::format::{duration_ns, integer, percent};
use serde::{Deserialize, Serialize};

use super::table::columns;

/// The paths of a stream with sequence recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPaths {
    /// Name of the stream.
    pub stream: String,
    /// Measured sequence numbers.
    pub measured: u64,
    /// Later copies of them.
    pub samples: u64,
    /// Its paths, by member.
    pub paths: Vec<PathStatus>,
    /// Its history length; none with match recovery.
    pub history_length: Option<u16>,
    /// Whether it follows the measured paths.
    pub history_length_auto: bool,
    /// The history length that follows from the samples; none: too few.
    pub history_length_needed: Option<u16>,
    /// Its reset timeout in milliseconds; 0: never.
    pub reset_timeout_ms: u32,
    /// Whether it follows the measured paths.
    pub reset_timeout_auto: bool,
    /// The reset timeout that follows from the samples; none: too few.
    pub reset_timeout_ms_needed: Option<u64>,
    /// The longest time between accepted packets, in nanoseconds, without those that ended by a reset.
    pub longest_gap_ns: u64,
}

/// The path of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Name of the port.
    pub port: String,
    /// Packets received.
    pub input_packets: u64,
    /// Packets that the stream received on any path, and this path did not deliver.
    pub lost_packets: u64,
    /// Measured numbers whose first copy came by this path.
    pub first: u64,
    /// Arrival relative to the other path, in nanoseconds: negative if earlier. With more than two paths, time after the
    /// first copy. None: no samples.
    pub skew_ns: Option<Skew>,
}

/// A distribution of the skew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skew {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// The greatest.
    pub max: i64,
}

impl PathStatus {
    /// The cells of its row: port, input, lost, first of the measured numbers, and the skew's p50, p99 and maximum.
    pub fn cells(&self, measured: u64) -> [String; 7] {
        let skew = |part: fn(&Skew) -> i64| {
            cell(self.skew_ns.as_ref(), |skew| duration_ns(part(skew) as f64))
        };
        [
            self.port.clone(),
            integer(self.input_packets),
            integer(self.lost_packets),
            percent(self.first as f64 / measured as f64),
            skew(|skew| skew.p50),
            skew(|skew| skew.p99),
            skew(|skew| skew.max),
        ]
    }
}

/// Table of the paths of streams.
pub fn paths_table(streams: &[StreamPaths]) -> String {
    let mut table = columns(&[
        "STREAM",
        "PATH",
        "#INPUT",
        "#LOST",
        "#FIRST",
        "#SKEW P50",
        "#P99",
        "#MAX",
        "#HISTORY",
        "#NEEDED",
        "#TIMEOUT",
        "#NEEDED",
    ]);
    for stream in streams {
        for (place, path) in stream.paths.iter().enumerate() {
            let mut row = vec![if place == 0 { stream.stream.clone() } else { String::new() }];
            row.extend(path.cells(stream.measured));
            if place == 0 {
                let ms = |ms: u64| if ms == 0 { "never".to_owned() } else { integer(ms) + " ms" };
                let auto = |value: String, auto| if auto { value + " (auto)" } else { value };
                row.extend([
                    auto(cell(stream.history_length, integer), stream.history_length_auto),
                    cell(stream.history_length_needed, integer),
                    auto(ms(stream.reset_timeout_ms.into()), stream.reset_timeout_auto),
                    cell(stream.reset_timeout_ms_needed, ms),
                ]);
            } else {
                row.extend([(); 4].map(|()| String::new()));
            }
            table.row(row);
        }
    }
    table.to_string()
}

/// The cell of a value, which may be missing.
fn cell<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), text)
}

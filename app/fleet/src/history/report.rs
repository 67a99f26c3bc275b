//! Losses by stream and node, and availability of paths, from the files of a range.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onbeat_report::{Cell, Check, Column, Counters as Table, Outcome};

use super::{COUNTERS, Counters, Function, LOST, PACKETS, RESETS, file, time};
use crate::error::{Error, Result};

/// The range of a report in Unix milliseconds, the end excluded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) since: i64,
    pub(crate) until: i64,
}

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The sums of a function on a node.
#[derive(Debug, Default)]
struct Sums {
    /// The last reading.
    last: Option<Counters>,
    /// What was counted in the range.
    counted: Counters,
}

impl Sums {
    fn add(&mut self, counters: &Counters) {
        if let Some(last) = self.last.replace(*counters) {
            // After a reset, or a start of the node, all of it is new.
            let is_restarted = counters[PACKETS] < last[PACKETS];
            for (sum, (new, old)) in self.counted.iter_mut().zip(counters.iter().zip(last)) {
                let more = if is_restarted { *new } else { (new - old).max(0) };
                *sum = sum.saturating_add(more);
            }
        }
    }
}

/// Files of the range in the order of time, with their nodes.
fn files(directory: &Path, range: Range) -> Result<Vec<(PathBuf, String)>> {
    let list = |path: &Path, prefix: &str| -> Result<Vec<(PathBuf, String)>> {
        let entries = fs::read_dir(path).map_err(Error::file(path))?;
        let mut found: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((entry.path(), name.strip_prefix(prefix)?.to_owned()))
            })
            .collect();
        found.sort();
        Ok(found)
    };
    let mut found = Vec::new();
    for (of_date, date) in list(directory, "date=")? {
        let Some(day) = time::days(&date) else { continue };
        for (of_hour, hour) in list(&of_date, "hour=")? {
            let Ok(hour) = hour.parse::<i64>() else { continue };
            let begin = day * DAY_MS + hour * HOUR_MS;
            if begin >= range.until || begin + HOUR_MS <= range.since {
                continue;
            }
            let of_nodes = list(&of_hour, "")?.into_iter();
            found.extend(of_nodes.filter_map(|(path, name)| {
                Some((path, name.strip_suffix(".parquet")?.to_owned()))
            }));
        }
    }
    Ok(found)
}

/// Adds the tables of a range, each with the worst `limit` rows.
pub(crate) fn describe(
    outcome: &mut Outcome,
    directory: &Path,
    range: Range,
    limit: usize,
) -> Result<()> {
    let mut sums: BTreeMap<(String, Function), Sums> = BTreeMap::new();
    let mut rows = 0_u64;
    let files = files(directory, range)?;
    if files.is_empty() {
        return Err(Error::Content {
            path: directory.to_owned(),
            fault: "no files of this range, DIRECTORY/date=D/hour=H/NODE.parquet; onbeat fleet agent --history writes them"
                .into(),
        });
    }
    for (path, node) in &files {
        let read = file::read(path, |row| {
            if (range.since..range.until).contains(&row.time_ms) {
                rows += 1;
                sums.entry((node.clone(), row.function)).or_default().add(&row.counters);
            }
        });
        read.map_err(|error| Error::Content { path: path.clone(), fault: error.to_string() })?;
    }
    let recoveries: BTreeMap<(&str, &str), &Counters> = sums
        .iter()
        .filter(|((_, function), _)| function.function == "recover")
        .map(|((node, function), sums)| ((node.as_str(), function.stream.as_str()), &sums.counted))
        .collect();

    let lost: i64 = recoveries.values().map(|counters| counters[LOST]).sum();
    outcome.check(Check::eq("lost", lost as u64, 0_u64, "packets"));
    outcome.figure("nodes", nodes(&recoveries));
    outcome.figure("streams with most losses", streams(&recoveries, limit));
    outcome.figure("paths with least availability", paths(&sums, &recoveries, limit));
    let files = files.len() as u64;
    let mut read = Table::new(["files", "rows"]);
    read.row([files, rows]);
    outcome.figure("files", read);
    Ok(())
}

fn cells(name: &str, other: &str, counters: &Counters) -> Vec<Cell> {
    let numbers = counters.iter().map(|number| Cell::from(number.unsigned_abs()));
    [Cell::from(name), Cell::from(other)].into_iter().chain(numbers).collect()
}

/// Sums of the recovery functions of each node.
fn nodes(recoveries: &BTreeMap<(&str, &str), &Counters>) -> Table {
    let mut of_nodes: BTreeMap<&str, (u64, Counters)> = BTreeMap::new();
    for ((node, _), counters) in recoveries {
        let (streams, sums) = of_nodes.entry(node).or_default();
        *streams += 1;
        sums.iter_mut()
            .zip(*counters)
            .for_each(|(sum, counted)| *sum = sum.saturating_add(*counted));
    }
    let mut table = Table::new(["node", "streams"].into_iter().chain(COUNTERS));
    for (node, (streams, sums)) in of_nodes {
        let mut row = cells(node, "", &sums);
        row[1] = Cell::from(streams);
        table.row(row);
    }
    table
}

/// The streams with losses or resets, most losses first.
fn streams(recoveries: &BTreeMap<(&str, &str), &Counters>, limit: usize) -> Table {
    let mut worst: Vec<_> = recoveries
        .iter()
        .filter(|(_, counters)| counters[LOST] > 0 || counters[RESETS] > 0)
        .collect();
    worst.sort_by_key(|(_, counters)| std::cmp::Reverse((counters[LOST], counters[RESETS])));
    let mut table = Table::new(["stream", "node"].into_iter().chain(COUNTERS));
    for ((node, stream), counters) in worst.into_iter().take(limit) {
        table.row(cells(stream, node, counters));
    }
    table
}

/// The paths that have not delivered all packets of their streams: packets by the path, of those that the stream had.
fn paths(
    sums: &BTreeMap<(String, Function), Sums>,
    recoveries: &BTreeMap<(&str, &str), &Counters>,
    limit: usize,
) -> Table {
    let mut worst = Vec::new();
    for ((node, function), sums) in
        sums.iter().filter(|((_, function), _)| function.function == "input")
    {
        let Some(recovery) = recoveries.get(&(node.as_str(), function.stream.as_str())) else {
            continue;
        };
        let expected = recovery[PACKETS].saturating_add(recovery[LOST]);
        let received = sums.counted[PACKETS].min(expected);
        if received < expected {
            let share = 100.0 * received as f64 / expected as f64;
            worst.push((share, function, node, received, expected));
        }
    }
    worst.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut table = Table::new([
        Column::from("stream"),
        "node".into(),
        "port".into(),
        "member".into(),
        "received".into(),
        "expected".into(),
        ("available", "%").into(),
    ]);
    for (share, function, node, received, expected) in worst.into_iter().take(limit) {
        table.row([
            Cell::from(function.stream.as_str()),
            Cell::from(node.as_str()),
            Cell::from(function.port.as_str()),
            Cell::from(function.number.unsigned_abs()),
            Cell::from(received.unsigned_abs()),
            Cell::from(expected.unsigned_abs()),
            Cell::from(share),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    use onbeat_report::Run;
    use onbeat_testing::{TemporaryDirectory, root};

    const DAY: &str = "date=2026-11-30";
    const HOUR: i64 = 498_900 * HOUR_MS;

    /// Writes cumulative packets of a path, and passed and lost packets of its stream, by the minute.
    fn write(directory: &Path, hour: i64, node: &str, counters: &[[i64; 3]]) {
        let of = |function: &str, port: &str| Function {
            stream: "axis".into(),
            function: function.into(),
            port: port.into(),
            number: 0,
        };
        let (input, recover) = (of("input", "path1"), of("recover", ""));
        let time = |minute: usize| HOUR + (hour - 12) * HOUR_MS + minute as i64 * 60_000;
        let inputs = counters.iter().map(|[packets, ..]| [*packets, 0, 0, 0, 0, 0, 0]);
        let recoveries = counters.iter().map(|[_, passed, lost]| [*passed, 0, *lost, 0, 0, 0, 0]);
        let (inputs, recoveries) = (inputs.collect::<Vec<_>>(), recoveries.collect::<Vec<_>>());
        let rows = |function, values: &'_ [Counters]| -> Vec<(&Function, i64, Counters)> {
            values
                .iter()
                .enumerate()
                .map(|(minute, values)| (function, time(minute), *values))
                .collect()
        };
        let all = [rows(&input, &inputs), rows(&recover, &recoveries)].concat();
        let octets =
            file::encode(all.iter().map(|(function, at, values)| (*function, *at, values)));
        let to = directory.join(DAY).join(format!("hour={hour:02}"));
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join(format!("{node}.parquet")), octets.unwrap()).unwrap();
    }

    /// The rows of a table, as JSON.
    fn table(outcome: &Outcome, name: &str) -> serde_json::Value {
        serde_json::to_value(outcome).unwrap()["figures"][name]["rows"].clone()
    }

    #[test]
    fn losses_and_availability_are_those_of_the_range_over_all_files() {
        let directory = TemporaryDirectory::new("history-report");
        let at = directory.path();
        write(at, 12, "b", &[[100, 100, 7], [190, 200, 7]]);
        // The node was restarted in between.
        write(at, 13, "b", &[[50, 40, 10], [100, 140, 10]]);
        write(at, 12, "c", &[[5, 5, 0], [10, 10, 0]]);
        fs::write(at.join("date=2026-11-30/hour=12/notes.txt"), "").unwrap();
        let report = |since: &str, until: &str| {
            let range =
                Range { since: time::parse(since).unwrap(), until: time::parse(until).unwrap() };
            let mut outcome = Run::analysis("fleet-report").finish();
            describe(&mut outcome, at, range, 20).map(|()| outcome)
        };
        let outcome = report("2026-11-30", "2026-12-01").unwrap();
        assert!(!outcome.ok());
        let expected = serde_json::json!([["axis", "b", 240, 0, 10, 0, 0, 0, 0]]);
        assert_eq!(table(&outcome, "streams with most losses"), expected);
        let expected = serde_json::json!([["axis", "b", "path1", 0, 190, 250, 76.0]]);
        assert_eq!(table(&outcome, "paths with least availability"), expected);
        let nodes =
            serde_json::json!([["b", 1, 240, 0, 10, 0, 0, 0, 0], ["c", 1, 5, 0, 0, 0, 0, 0, 0]]);
        assert_eq!(table(&outcome, "nodes"), nodes);
        assert_eq!(table(&outcome, "files"), serde_json::json!([[3, 12]]));

        let outcome = report("2026-11-30T12", "2026-11-30T13").unwrap();
        assert!(outcome.ok(), "the loss is of the next hour");
        let error = report("2026-12-01", "2026-12-02").unwrap_err().to_string();
        assert!(error.contains("no files of this range"), "{error}");
        fs::write(at.join(DAY).join("hour=13/b.parquet"), "PAR1").unwrap();
        let error = report("2026-11-30", "2026-12-01").unwrap_err().to_string();
        assert!(error.contains("hour=13/b.parquet"), "{error}");
    }

    /// Another reader of the files, and the example.
    #[test]
    #[ignore = "requires duckdb, which Debian does not have"]
    fn duckdb_finds_the_same_losses() {
        let directory = TemporaryDirectory::new("history-duckdb");
        write(directory.path(), 12, "b", &[[100, 100, 7], [190, 200, 7]]);
        write(directory.path(), 13, "b", &[[50, 40, 10], [100, 140, 10]]);
        let queries = fs::read_to_string(root().join("examples/fleet/history.sql")).unwrap();
        let text = format!("SET VARIABLE history = '{}';\n{queries}", directory.path().display());
        let mut duckdb = Command::new("duckdb");
        let duckdb = duckdb.arg("-csv").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut duckdb = duckdb.unwrap();
        duckdb.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = duckdb.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        for line in ["axis,b,240,10", "axis,b,path1,0,190,250,76.0"] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn a_counter_that_restarts_counts_from_zero() {
        let mut sums = Sums::default();
        for packets in [100, 150, 20, 30] {
            sums.add(&[packets, 0, packets / 10, 0, 0, 0, 0]);
        }
        assert_eq!(sums.counted, [80, 0, 8, 0, 0, 0, 0]);
    }
}

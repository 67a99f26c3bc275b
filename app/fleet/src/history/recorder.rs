//! A thread of the agent: reads the node each minute, and replaces the file of the hour. Its failures are reported, and
//! do not affect the agent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_node::control::{Client, StreamStatus};
use onbeat_report::rfc3339;

use super::{Counters, Function, file, functions, time};
use crate::disk;
use crate::error::{Error, Result};

/// Options of the history.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HistoryOptions {
    /// Write counters of streams by the minute to Parquet files in DIRECTORY
    #[arg(long, value_name = "DIRECTORY")]
    history: Option<PathBuf>,
    /// Days with readings to keep; files of older ones are removed
    #[arg(long, value_name = "DAYS", default_value_t = 400, requires = "history", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    history_days: u32,
}

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Rows of an hour: 40 MB of memory. A node with more than 10,000 functions is read less often.
const MOST_ROWS: usize = 600_000;

/// The rows of an hour.
#[derive(Debug, Default)]
struct Hour {
    /// The hour, counted from 1970.
    number: i64,
    rows: BTreeMap<Function, Vec<(i64, Counters)>>,
    count: usize,
    last_ms: i64,
}

impl Hour {
    /// Adds a reading; a time before the last one is left out, as after a step of the clock.
    fn add(&mut self, time_ms: i64, streams: &[StreamStatus]) {
        if time_ms <= self.last_ms {
            return;
        }
        for (function, counters) in streams.iter().flat_map(functions) {
            if self.count == MOST_ROWS {
                break;
            }
            self.rows.entry(function).or_default().push((time_ms, counters));
            self.count += 1;
        }
        self.last_ms = time_ms;
    }

    /// Continues the file of an earlier process.
    fn read(number: i64, path: &Path) -> Self {
        let mut hour = Self { number, ..Self::default() };
        if !path.exists() {
            return hour;
        }
        let read = file::read(path, |row| {
            if hour.count < MOST_ROWS {
                hour.rows.entry(row.function).or_default().push((row.time_ms, row.counters));
                hour.count += 1;
                hour.last_ms = hour.last_ms.max(row.time_ms);
            }
        });
        if let Err(error) = read {
            tracing::warn!("history: {}: {error}; the file is replaced", path.display());
            return Self { number, ..Self::default() };
        }
        hour
    }

    fn write(&self, path: &Path) -> Result<()> {
        let rows = self.rows.iter().flat_map(|(function, samples)| {
            samples.iter().map(move |(time_ms, counters)| (function, *time_ms, counters))
        });
        let octets = file::encode(rows)
            .map_err(|error| Error::Content { path: path.to_owned(), fault: error.to_string() })?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(Error::file(directory))?;
        }
        disk::replace(path, &octets)
    }

    /// Minutes between readings, so that the rows of an hour have room.
    fn interval_minutes(functions: usize) -> i64 {
        (functions * 60).div_ceil(MOST_ROWS).clamp(1, 60) as i64
    }
}

/// The history of a node.
struct Recorder {
    node: String,
    directory: PathBuf,
    /// Days that are kept.
    days: usize,
    hour: Hour,
    /// The failure that was reported last.
    reported: String,
}

/// Starts the thread, if options name a directory.
pub(crate) fn start(node: &str, options: &HistoryOptions) -> Result<()> {
    let Some(directory) = options.history.clone() else { return Ok(()) };
    // An error of the option is one of the start.
    fs::create_dir_all(&directory).map_err(Error::file(&directory))?;
    let recorder = Recorder {
        node: node.to_owned(),
        directory,
        days: options.history_days as usize,
        hour: Hour::default(),
        reported: String::new(),
    };
    let thread = std::thread::Builder::new().name("history".into());
    thread.spawn(move || recorder.run()).map_err(Error::Runtime)?;
    Ok(())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(0)
}

impl Recorder {
    fn run(mut self) {
        let mut interval = 1;
        loop {
            let now = now_ms();
            let next = (now / MINUTE_MS / interval + 1) * interval * MINUTE_MS;
            std::thread::sleep(Duration::from_millis((next - now).unsigned_abs()));
            match self.record(now_ms()) {
                Ok(functions) => {
                    interval = Hour::interval_minutes(functions);
                    self.reported.clear();
                }
                Err(error) => self.report(error.to_string()),
            }
        }
    }

    /// Reports once what happens again and again.
    fn report(&mut self, what: String) {
        if what != self.reported {
            tracing::warn!("history: {what}; counters are read again in a minute");
            self.reported = what;
        }
    }

    /// Reads the node, and writes the file of the hour; returns the number of functions.
    fn record(&mut self, now: i64) -> Result<usize> {
        let number = now / HOUR_MS;
        if self.hour.number != number {
            self.hour = Hour::read(number, &path(&self.directory, &self.node, number));
            self.expire();
        }
        let status = Client::to_managed(&self.node)?.status()?;
        self.hour.add(now, &status.streams);
        self.hour.write(&path(&self.directory, &self.node, number))?;
        Ok(status.streams.iter().map(|stream| functions(stream).count()).sum())
    }

    /// Removes the files of this node of the oldest days, if there are more than are kept. Days with files are counted, not
    /// compared with the clock: one that jumps by years would remove them all. The day of the present hour stays.
    fn expire(&mut self) {
        let file = format!("{}.parquet", self.node);
        let hours = |date: &Path| fs::read_dir(date).into_iter().flatten().flatten();
        let mut dates: Vec<(i64, PathBuf)> = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|date| {
                let day = time::days(date.file_name().to_str()?.strip_prefix("date=")?)?;
                Some((day, date.path()))
            })
            .collect();
        // On a network file system, hours are not read without need.
        if dates.len() <= self.days {
            return;
        }
        dates.retain(|(_, date)| hours(date).any(|hour| hour.path().join(&file).exists()));
        dates.sort_unstable();
        let old = dates.len().saturating_sub(self.days);
        let present = self.hour.number.div_euclid(24);
        for (_, date) in dates[..old].iter().filter(|(day, _)| *day != present) {
            for hour in hours(date) {
                let file = hour.path().join(&file);
                if let Err(error) = fs::remove_file(&file) {
                    if error.kind() != std::io::ErrorKind::NotFound {
                        self.report(format!("{}: {error}", file.display()));
                    }
                }
                // Fails while other nodes have files there.
                let _ = fs::remove_dir(hour.path());
            }
            let _ = fs::remove_dir(date);
        }
    }
}

/// `DIRECTORY/date=2026-11-30/hour=12/NODE.parquet`, in UTC.
fn path(directory: &Path, node: &str, hour: i64) -> PathBuf {
    let at = UNIX_EPOCH + Duration::from_secs(hour.unsigned_abs() * 3600);
    let text = rfc3339(at);
    let (date, clock) = text.split_once('T').unwrap_or_default();
    let hour = clock.get(..2).unwrap_or_default();
    directory
        .join(format!("date={date}"))
        .join(format!("hour={hour}"))
        .join(format!("{node}.parquet"))
}

#[cfg(test)]
mod tests {
    use onbeat_node::control::{EgressStatus, MemberStatus, RecoveryStatus};
    use onbeat_testing::TemporaryDirectory;

    use super::*;

    const HOUR: i64 = 498_900;

    fn streams(packets: u64) -> Vec<StreamStatus> {
        ["a", "b"]
            .map(|name| StreamStatus {
                name: name.into(),
                members: vec![MemberStatus {
                    port: "path1".into(),
                    input_packets: packets,
                    ..Default::default()
                }],
                egress: vec![EgressStatus {
                    port: "host".into(),
                    output_packets: packets,
                    loses: false,
                }],
                ..StreamStatus::default()
            })
            .into()
    }

    #[test]
    fn rows_are_sorted_by_function_and_time_and_continued_after_a_restart() {
        let directory = TemporaryDirectory::new("history-file");
        let file = path(directory.path(), "relay1", HOUR);
        assert_eq!(file, directory.file("date=2026-11-30/hour=12/relay1.parquet"));
        let mut hour = Hour::read(HOUR, &file);
        hour.add(1000, &streams(10));
        hour.add(2000, &streams(20));
        hour.write(&file).unwrap();
        let mut hour = Hour::read(HOUR, &file);
        // After a step of the clock.
        hour.add(2000, &streams(99));
        hour.add(3000, &streams(30));
        hour.write(&file).unwrap();
        let mut found = Vec::new();
        file::read(&file, |row| {
            found.push((row.function.stream, row.function.function, row.time_ms, row.counters[0]));
        })
        .unwrap();
        let expected: Vec<_> = ["a", "b"]
            .into_iter()
            .flat_map(|stream| ["input", "output"].map(|function| (stream, function)))
            .flat_map(|(stream, function)| {
                [1, 2, 3].map(|n| (stream.to_owned(), function.to_owned(), n * 1000, n * 10))
            })
            .collect();
        assert_eq!(found, expected);
        // A file that another program damaged.
        fs::write(&file, "PAR1").unwrap();
        assert_eq!(Hour::read(HOUR, &file).count, 0);
    }

    #[test]
    fn memory_of_an_hour_is_bounded_and_large_nodes_are_read_less_often() {
        assert_eq!(
            [0, 1, 10_000, 10_001, 65_536 * 4].map(Hour::interval_minutes),
            [1, 1, 1, 2, 27]
        );
        let mut hour = Hour { count: MOST_ROWS - 3, ..Hour::default() };
        hour.add(1000, &streams(1));
        assert_eq!((hour.count, hour.rows.len()), (MOST_ROWS, 3));
    }

    #[test]
    fn a_full_disk_is_an_error_and_the_rows_stay() {
        let directory = TemporaryDirectory::new("history-full");
        let mut hour = Hour::default();
        hour.add(1000, &streams(1));
        // No disk is as full as a file in place of a directory.
        fs::write(directory.file("date=1970-01-01"), "").unwrap();
        let file = path(directory.path(), "a", 0);
        let error = hour.write(&file).unwrap_err().to_string();
        assert!(error.contains("date=1970-01-01"), "{error}");
        fs::remove_file(directory.file("date=1970-01-01")).unwrap();
        hour.write(&file).unwrap();
        assert_eq!(Hour::read(0, &file).count, 4);
    }

    /// Numbers of docs/measurements.md: 1,000 streams at 2,000 packets/s with two paths, of which one loses some.
    #[test]
    #[ignore = "prints sizes for docs/measurements.md"]
    fn sizes_of_an_hour() {
        let directory = TemporaryDirectory::new("history-size");
        let started = std::time::Instant::now();
        let mut hour = Hour::default();
        let mut random = 1_u64;
        // Packets of each stream until the reading of its functions, whose instants vary.
        let mut sent = vec![0; 1000];
        for minute in 1..=60_u64 {
            let mut jitter = |most: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % most
            };
            let mut streams = Vec::new();
            for (number, sent) in (0_u64..).zip(&mut sent) {
                *sent += 119_980 + jitter(40);
                let (packets, lost) = (*sent, minute * (number % 5));
                let member = |port: &str, input_packets| MemberStatus {
                    port: port.into(),
                    input_packets,
                    ..MemberStatus::default()
                };
                let mut recovery = RecoveryStatus::default();
                recovery.counters.passed = packets + jitter(3);
                recovery.counters.discarded = packets - lost - jitter(3);
                streams.push(StreamStatus {
                    name: format!("axis-{number}"),
                    members: vec![member("path1", packets), member("path2", packets - lost)],
                    recovery: Some(recovery),
                    egress: vec![EgressStatus {
                        port: "host".into(),
                        output_packets: packets,
                        loses: false,
                    }],
                    ..StreamStatus::default()
                });
            }
            hour.add(minute as i64 * 60_000 + 17, &streams);
        }
        let (added, path) = (started.elapsed(), path(directory.path(), "a", 0));
        let writing = std::time::Instant::now();
        hour.write(&path).unwrap();
        let octets = fs::metadata(&path).unwrap().len();
        println!(
            "{} rows: {octets} octets, {:.2} a row; added in {added:?}, written in {:?}",
            hour.count,
            octets as f64 / hour.count as f64,
            writing.elapsed()
        );
        assert!(octets < 8 * hour.count as u64);
    }

    #[test]
    fn files_of_this_node_are_removed_after_their_time() {
        let directory = TemporaryDirectory::new("history-days");
        let mut recorder = Recorder {
            node: "a".into(),
            directory: directory.path().into(),
            days: 2,
            hour: Hour::default(),
            reported: String::new(),
        };
        let write =
            |node: &str, hour| Hour::default().write(&path(directory.path(), node, hour)).unwrap();
        [("a", HOUR), ("a", HOUR - 48), ("a", HOUR - 72), ("b", HOUR - 72), ("a", HOUR - 96)]
            .iter()
            .for_each(|(node, hour)| write(node, *hour));
        fs::write(directory.file("date=notes"), "of the user").unwrap();
        recorder.expire();
        let exists = |node: &str, hour| path(directory.path(), node, hour).exists();
        assert!(exists("a", HOUR) && exists("a", HOUR - 48) && exists("b", HOUR - 72));
        assert!(!exists("a", HOUR - 72) && !exists("a", HOUR - 96));
        assert!(
            !directory.file("date=2026-11-26").exists() && directory.file("date=notes").exists()
        );
        assert_eq!(recorder.reported, "");
    }

    #[test]
    fn a_jump_of_the_clock_removes_one_day_at_most() {
        let directory = TemporaryDirectory::new("history-clock");
        let mut recorder = Recorder {
            node: "a".into(),
            directory: directory.path().into(),
            days: 3,
            hour: Hour::default(),
            reported: String::new(),
        };
        let file = |day: i64| path(directory.path(), "a", HOUR + 24 * day);
        let write = |day| Hour::default().write(&file(day)).unwrap();
        (-2..=0).for_each(write);
        // 73 years ahead: the record of that day is one more.
        write(26_663);
        recorder.expire();
        assert!(file(-1).exists() && file(0).exists() && file(26_663).exists());
        // And to 1970: the present day is the oldest then, and stays.
        let first = -HOUR / 24;
        write(first);
        recorder.hour.number = HOUR + 24 * first;
        recorder.expire();
        assert!(file(-1).exists() && file(0).exists() && file(first).exists());
    }
}

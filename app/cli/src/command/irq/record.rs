//! `onbeat irq record`

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use onbeat_irq_run::record::Recorder;

use super::check_interval;
use onbeat_report::format::parse_duration;
use onbeat_terminal::exit::{CommandResult, Result, warn};
use onbeat_terminal::values::parse_sample_ratio;

/// Record softirq time to a file, for `onbeat irq report`
///
/// Records while a command runs, for a time, or until Ctrl-C. The file is written continuously: memory use
/// does not grow with the recording, and an incomplete recording can be reported.
/// /usr/share/doc/onbeat/docs/reference/recordings.md describes the format.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq record -o storm.irq --for 30s
  onbeat irq record -o build.irq -- make -j2

Exit status: 0 success, 1 negative result (recorded, but the command failed), 2 error (root and Linux 6.3 with BTF are \
required).")]
pub(super) struct Record {
    /// Write the recording to FILE
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Time resolution of the recording
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    interval: Duration,
    /// Sample packets during 1/N of the time and estimate totals with their error; reduces overhead. The report
    /// omits times corrected by ticks; the time resolution is at least N times 40 ms
    #[arg(long, value_name = "N", value_parser = parse_sample_ratio)]
    sample: Option<NonZeroU32>,
    /// Command to run; recording stops when it exits
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Record {
    pub(super) fn execute(self) -> Result {
        check_interval(self.interval)?;
        let Self { output, length, interval, sample, command } = self;
        let without_ticks = |error| {
            warn(format!("{error}; the report will have no correction by ticks"));
        };
        let recorder = Recorder { output, length, interval, sample, command };
        match recorder.run(without_ticks)? {
            Some(status) if !status.success() => {
                warn(format!("{:?} exited with {status}", recorder.command[0]));
                Ok(CommandResult::Negative)
            }
            _ => Ok(CommandResult::Success),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    fn record(line: &str) -> std::result::Result<Record, String> {
        match parse(&format!("irq record {line}")).map_err(|error| error.to_string())? {
            Command::Irq(super::super::Arguments {
                command: super::super::Irq::Record(record),
            }) => Ok(record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepts_a_command_or_a_time() {
        let found = record("-o a.irq -- make -j2").unwrap();
        assert_eq!(found.command, ["make", "-j2"]);
        assert_eq!((found.length, found.interval), (None, Duration::from_millis(100)));
        let found = record("--output a.irq --for 30s --interval 1s").unwrap();
        assert_eq!((found.length, found.command.len()), (Some(Duration::from_secs(30)), 0));
        assert_eq!(record("-o a.irq --sample 20").unwrap().sample, NonZeroU32::new(20));
        for line in ["", "--for 3s", "-o a.irq make", "-o a.irq --for 3"] {
            assert!(record(line).is_err(), "{line}");
        }
    }
}

//! `onbeat irq top`

mod screen;

use std::io::{self, IsTerminal};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_irq::names::device_exists;
use onbeat_irq_core::view::{Fold, GroupKey, Order};
use onbeat_irq_run::metrics;
use onbeat_irq_run::top::{self, TableOptions, text};
use onbeat_irq_run::watch::{Watch, start};

use super::{check_interval, group_keys, parse_share};
use onbeat_report::format::parse_duration;
use onbeat_report::metrics::MetricsFile;
use onbeat_terminal::exit::{CommandResult, Failure, Result, warn};
use onbeat_terminal::output::{self, Reader};
use onbeat_terminal::values::parse_sample_ratio;

/// Show live which processes cause softirq time, and which lose time to it
///
/// CAUSED is time in softirqs and NAPI threads for packets of a process. SUFFERED is softirq, NAPI and hard
/// interrupt time that interrupted the process. Both are shares of one CPU. Time that belongs to no process (forwarded packets,
/// drops, timers) is listed below. Keys on a terminal: h help, / search, s sort order, b key of groups,
/// t tree, space pause, q quit. The help lists all keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat irq top
  onbeat irq top --sort suffered --device eth0
  onbeat irq top --by unit
  onbeat irq top --interval 500ms --count 1 --json | jq '.processes[0]'
  onbeat irq top --textfile /var/lib/prometheus/node-exporter/irq.prom

Exit status: 0 success, 2 error (root and Linux 6.3 with BTF are required).")]
pub(super) struct Top {
    /// Refresh interval [default: 1s, with --textfile 15s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    interval: Option<Duration>,
    /// Exit after NUMBER intervals
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Sort order
    #[arg(long, value_name = "ORDER", default_value = "caused")]
    #[arg(value_parser = PossibleValuesParser::new(Order::ALL.map(|(name, _)| name)))]
    sort: String,
    /// Show one row for each process, command, control group, systemd unit, container, Kubernetes pod, user, device,
    /// receive queue, CPU or NUMA node. [default: process, with --textfile unit]
    #[arg(long, value_name = "KEY", value_parser = group_keys())]
    by: Option<String>,
    /// Fold rows that caused and suffered less than PERCENT of the softirq time into one row, "others"
    #[arg(long, value_name = "PERCENT", default_value = "0.1", value_parser = parse_share)]
    fold: f64,
    /// Show only packets received or sent by this device: eth0, or eth0@4026532281 to give the network
    /// namespace by its inode
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Sample packets during 1/N of the time and estimate totals with their error; costs less at high rates
    #[arg(long, value_name = "N", value_parser = parse_sample_ratio)]
    sample: Option<NonZeroU32>,
    /// Show each CPU separately
    #[arg(long)]
    per_cpu: bool,
    /// Print JSON, one object per line and interval; times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Keep sums since the start in this file, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["json", "per_cpu", "device", "sort", "fold"])]
    textfile: Option<PathBuf>,
}

/// Refresh intervals of the table, and of metrics: that of Prometheus.
const TABLE_INTERVAL: Duration = Duration::from_secs(1);
const METRICS_INTERVAL: Duration = Duration::from_secs(15);

impl Top {
    pub(super) fn execute(self) -> Result {
        let usual = if self.textfile.is_some() { METRICS_INTERVAL } else { TABLE_INTERVAL };
        let interval = self.interval.unwrap_or(usual);
        check_interval(interval)?;
        let by = self.by.as_deref().and_then(GroupKey::from_name);
        if let Some(file) = self.textfile {
            let by = by.unwrap_or(GroupKey::Unit);
            if by == GroupKey::Process {
                return Err(Failure::new(
                    "--by process: series of exited processes would remain in the file; use another key, such as --by command",
                ));
            }
            let file = MetricsFile::new(file)?;
            let watch = Watch::new(start(self.sample)?, self.sample)?;
            let failed = |error: &str| warn(format!("metrics: {error}"));
            metrics::run::<Failure>(watch, by, (interval, self.count), &file, failed)?;
            return Ok(CommandResult::Success);
        }
        if let Some(device) = self.device.as_deref().filter(|device| !device_exists(device)) {
            return Err(Failure::new(format!(
                "--device {device:?}: no such device in any network namespace; list devices of this \
                 namespace with: ip link"
            )));
        }
        let options = TableOptions {
            order: Order::from_name(&self.sort).unwrap_or_default(),
            device: self.device.clone(),
            per_cpu: self.per_cpu,
            by: by.unwrap_or_default(),
            fold: Fold { least_share: self.fold, ..Fold::default() },
        };
        let watch = Watch::new(start(self.sample)?, self.sample)?;
        if !self.json && io::stdout().is_terminal() && io::stdin().is_terminal() {
            screen::run(watch, options, interval, self.count)?;
        } else {
            top::run(watch, interval, self.count, |snapshot, names| {
                let text = match self.json {
                    true => snapshot.json(&options, names)?,
                    false => text::render(snapshot, &options, names),
                };
                Result::Ok(output::print_to_reader(&text)? == Reader::Open)
            })?;
        }
        Ok(CommandResult::Success)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    fn top(line: &str) -> std::result::Result<Top, String> {
        match parse(&format!("irq top {line}")).map_err(|error| error.to_string())? {
            Command::Irq(super::super::Arguments { command: super::super::Irq::Top(top) }) => {
                Ok(top)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn accepts_all_options() {
        let found =
            top("--interval 250ms --count 3 --sort per-packet --device eth0 --per-cpu").unwrap();
        assert_eq!((found.interval, found.count), (Some(Duration::from_millis(250)), Some(3)));
        assert_eq!((found.sort.as_str(), found.device.as_deref()), ("per-packet", Some("eth0")));
        assert!(found.per_cpu && !found.json && found.sample.is_none());
        let found = top("--by pod --fold 2.5").unwrap();
        assert_eq!((found.by.as_deref(), found.fold), (Some("pod"), 0.025));
        assert_eq!(top("--sample 10").unwrap().sample, NonZeroU32::new(10));
        let usual = top("").unwrap();
        assert_eq!((usual.interval, usual.sort.as_str()), (None, "caused"));
        let found = top("--textfile irq.prom --by cgroup --count 1 --sample 10").unwrap();
        assert_eq!(found.textfile, Some(PathBuf::from("irq.prom")));
    }

    #[test]
    fn invalid_values_are_refused() {
        for line in [
            "--interval 5",
            "--count 0",
            "--sort size",
            "--device",
            "--sample 1",
            "--sample 0.1",
            "--by color",
            "--fold -1",
            "--fold 101",
            "--fold x",
            "--fold NaN",
            "--textfile a.prom --json",
            "--textfile a.prom --device eth0",
            "--textfile a.prom --fold 1",
        ] {
            assert!(top(line).is_err(), "{line}");
        }
        assert!(top("--interval 1ms").unwrap().execute().is_err());
        let error = format!("{:?}", top("--device nosuch").unwrap().execute().unwrap_err());
        assert!(error.contains("no such device"), "{error}");
        for (line, expected) in
            [("--textfile a.prom --by process", "--by command"), ("--textfile a.txt", ".prom")]
        {
            let error = format!("{:?}", top(line).unwrap().execute().unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}

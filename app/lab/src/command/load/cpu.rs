//! `onbeat load cpu`

use std::path::PathBuf;
use std::time::Duration;

use onbeat_host::file;
use onbeat_lab::cpus;
use onbeat_lab::load::{DutyLoad, DutyProfile};
use onbeat_realtime::CpuSet;
use onbeat_realtime::interrupt;
use onbeat_report::{Cell, Counters, Input, Measurement, Run};

use onbeat_report::format::parse_duration;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::output;

/// Maximum size of a profile in octets.
const PROFILE: u64 = 1 << 20;

/// Load CPUs by duty cycles
///
/// A thread per CPU alternates between the idle and busy times of a profile, repeatedly, at normal
/// priority, until Ctrl-C. With busy-loop =
/// true in the profile, the thread polls the clock in the idle time instead of sleeping. The result shows the CPU
/// share of each thread, by its CPU clock.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat load cpu /usr/share/doc/onbeat/examples/load/paper.toml
  onbeat load cpu /usr/share/doc/onbeat/examples/load/paper.toml --cpus 1 --for 60s --json

Exit status: 0 success, 2 error.")]
pub(super) struct Cpu {
    /// TOML file with [[row]] tables: idle-us and duty-us, in µs
    profile: PathBuf,
    /// CPUs, such as 1 or 0-3 [default: all that this process may use]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    length: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Cpu {
    pub(super) fn execute(self) -> Result {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::new(format!("{}: {error}", self.profile.display()))
        };
        let text = file::read_text(&self.profile, PROFILE).map_err(|error| wrong(&error))?;
        let profile = DutyProfile::parse(&text).map_err(|error| wrong(&error))?;
        let cpus = match self.cpus {
            Some(cpus) => cpus,
            None => cpus::usable()?.into_iter().collect(),
        };
        let _signals = interrupt::Guard::install();
        let run = Run::begin("load-cpu");
        run.inputs().add(Input::of_file(&self.profile, text.as_bytes()));
        let each = cpus.iter().map(|cpu| [cpu].into_iter().collect());
        let load = DutyLoad::start(each, &profile)?;
        super::wait(self.length, || false)?;
        let reports = load.stop();

        let mut outcome = run.finish();
        let asked = profile.share() * 100.0;
        outcome.figure("requested share", Measurement::new("%", asked));
        let mut table = Counters::new([
            ("CPU", ""),
            ("duration", "s"),
            ("achieved share", "%"),
            ("rows", ""),
            ("mean wake-up latency", "ns"),
        ]);
        for report in reports {
            table.row([
                Cell::from(report.cpus.to_string()),
                report.seconds.into(),
                (report.share * 100.0).into(),
                report.rows.into(),
                report.late_ns.into(),
            ]);
        }
        outcome.figure("CPUs", table);
        output::print_outcome(outcome, self.json, false)
    }
}

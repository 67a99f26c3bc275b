//! Common options of benches that measure cycle by cycle.

use std::time::Duration;

use clap::Arg;
use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::cyclic::{Load, Options};

use onbeat_report::format::parse_duration;
use onbeat_report::{Outcome, Progress};
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Failure, Result};

use super::{listed, time};

/// Options of such a bench.
#[derive(Debug, clap::Args)]
pub(super) struct CyclicBenchOptions {
    #[command(flatten)]
    shown: ResultOptions,
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    backends: Vec<String>,
    /// Number of cycles to measure per back end, period and load
    #[arg(long, value_name = "NUMBER")]
    cycles: Option<u64>,
    /// Number of rounds; more rounds estimate the spread better
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Cycle lengths
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_duration)]
    periods: Vec<Duration>,
    /// Load of the machine [default: each in turn]
    #[arg(long, value_name = "LOADS", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Load::ALL.map(Load::name)))]
    load: Vec<String>,
    /// CPUs of the managing and of the controlled node [default: the first and the last CPU]
    #[arg(long, value_name = "MN,CN", value_delimiter = ',', num_args = 1)]
    cpus: Vec<usize>,
    /// Real-time priority of the nodes (SCHED_FIFO); 0 for no real-time priority
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<u8>,
}

/// Adds the default to the help of an option of such a bench.
pub(super) fn with_default(option: Arg, defaults: &Options) -> Arg {
    let value = match option.get_id().as_str() {
        "cycles" => defaults.cycles.to_string(),
        "rounds" => defaults.rounds.to_string(),
        "periods" => listed(defaults.periods.iter().copied().map(time)),
        "priority" => defaults.priority.to_string(),
        _ => return option,
    };
    super::with_default(option, value)
}

impl CyclicBenchOptions {
    /// Measures and shows the result.
    pub(super) fn measure(
        &self,
        defaults: Options,
        bench: impl FnOnce(&Options, &mut Progress) -> onbeat_lab::Result<Outcome>,
    ) -> Result {
        let options = self.options(defaults)?;
        self.shown.run(|progress| bench(&options, progress))
    }

    /// The options, completed with the defaults.
    pub(super) fn options(&self, defaults: Options) -> Result<Options> {
        let loads = Load::ALL.into_iter().filter(|load| {
            self.load.is_empty() || self.load.iter().any(|name| name == load.name())
        });
        Ok(Options {
            backends: self.backends.clone(),
            cycles: self.cycles.unwrap_or(defaults.cycles),
            rounds: self.rounds.unwrap_or(defaults.rounds),
            periods: if self.periods.is_empty() { defaults.periods } else { self.periods.clone() },
            loads: loads.collect(),
            cpus: match self.cpus[..] {
                [] => None,
                [one] => Some((one, one)),
                [mn, cn] => Some((mn, cn)),
                _ => {
                    return Err(Failure::new(format!(
                        "--cpus: {} CPUs; use that of the managing node and that of the \
                         controlled node: --cpus 0,1",
                        self.cpus.len()
                    )));
                }
            },
            priority: self.priority.unwrap_or(defaults.priority),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        cyclic: CyclicBenchOptions,
    }

    fn options(line: &str) -> std::result::Result<Options, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let defaults = onbeat_lab::bench::port::defaults();
        line.cyclic.options(defaults).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn options_have_defaults() {
        let defaults = onbeat_lab::bench::port::defaults();
        assert_eq!(format!("{:?}", options("").unwrap()), format!("{defaults:?}"));
    }

    #[test]
    fn all_options_are_parsed() {
        let found = options(
            "--cycles 200 --rounds 3 --periods 5ms,250us,1s --load hackbench --cpus 1,0 --priority 0",
        )
        .unwrap();
        assert_eq!((found.cycles, found.rounds), (200, 3));
        assert_eq!(found.periods, [5_000, 250, 1_000_000].map(Duration::from_micros));
        assert_eq!(found.loads, [Load::Hackbench]);
        assert_eq!((found.cpus, found.priority), (Some((1, 0)), 0));
        assert_eq!(options("--cpus 1").unwrap().cpus, Some((1, 1)));
    }

    #[test]
    fn invalid_options_are_rejected() {
        for line in [
            "--periods 5",
            "--periods ms",
            "--periods 5d",
            "--periods 99999999999us",
            "--load cpu",
            "--cpus 0,1,2",
            "--cpus x",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
    }
}

//! What benches have in common that measure cycle by cycle.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::cyclic::{Load, Options};

use onbeat_report::format::parse_duration;
use onbeat_report::{Outcome, Progress};
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Failure, Result};

/// How such a bench is run.
#[derive(Debug, clap::Args)]
pub(super) struct Cyclic {
    #[command(flatten)]
    shown: ResultOptions,
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    backends: Vec<String>,
    /// Cycles to measure, of each back end, period and load
    #[arg(long, value_name = "NUMBER")]
    cycles: Option<u64>,
    /// In how many rounds: they show the spread
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Lengths of the cycle; the usual ones are below
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_duration)]
    periods: Vec<Duration>,
    /// What else the machine does; without it, both
    #[arg(long, value_name = "LOADS", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(Load::ALL.map(Load::name)))]
    load: Vec<String>,
    /// CPUs of the managing and of the controlled node; without it, the first and the last one
    #[arg(long, value_name = "MN,CN", value_delimiter = ',', num_args = 1)]
    cpus: Vec<usize>,
    /// Real-time priority of the nodes (SCHED_FIFO); 0 for none
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<u8>,
}

impl Cyclic {
    /// Measures, and shows the result.
    pub(super) fn measure(
        &self,
        usual: Options,
        bench: impl FnOnce(&Options, &mut Progress) -> onbeat_lab::Result<Outcome>,
    ) -> Result {
        let options = self.options(usual)?;
        self.shown.run(|progress| bench(&options, progress))
    }

    /// As it is said, else as usual.
    pub(super) fn options(&self, usual: Options) -> Result<Options> {
        let loads = Load::ALL.into_iter().filter(|load| {
            self.load.is_empty() || self.load.iter().any(|name| name == load.name())
        });
        Ok(Options {
            backends: self.backends.clone(),
            cycles: self.cycles.unwrap_or(usual.cycles),
            rounds: self.rounds.unwrap_or(usual.rounds),
            periods: if self.periods.is_empty() { usual.periods } else { self.periods.clone() },
            loads: loads.collect(),
            cpus: match self.cpus[..] {
                [] => None,
                [one] => Some((one, one)),
                [mn, cn] => Some((mn, cn)),
                _ => {
                    return Err(Failure::new(format!(
                        "--cpus: {} CPUs; give that of the managing node and that of the \
                         controlled node: --cpus 0,1",
                        self.cpus.len()
                    )));
                }
            },
            priority: self.priority.unwrap_or(usual.priority),
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
        cyclic: Cyclic,
    }

    fn options(line: &str) -> std::result::Result<Options, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        let usual = onbeat_lab::bench::port::usual();
        line.cyclic.options(usual).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let usual = onbeat_lab::bench::port::usual();
        assert_eq!(format!("{:?}", options("").unwrap()), format!("{usual:?}"));
    }

    #[test]
    fn everything_can_be_said() {
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
    fn what_cannot_be_is_refused() {
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

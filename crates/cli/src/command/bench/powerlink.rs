//! `onbeat bench powerlink`

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::port::Load;
use onbeat_lab::bench::powerlink::{self, Options};

use super::Shown;
use crate::args::duration;
use crate::exit::{Failure, Result};

/// POWERLINK nodes by each back end of the port, side by side: SoC jitter, PReq to PRes
///
/// A managing and a controlled node, booted and in OPERATIONAL, on a wire that writes down when their
/// frames pass, the same for all back ends. Idle, and under 400 processes that keep the scheduler busy,
/// as hackbench does. The figure to look at is the tail of the response time where the driver answers
/// (xdp, module), beside that of a node that answers itself (packet).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench powerlink
  onbeat bench powerlink --json > powerlink.json
  onbeat bench powerlink --cycles 2000 --periods 1ms --backends packet,xdp

The usual 10,000 cycles take ten minutes.

Exit code: 0 every check holds, 1 a check failed (figures never decide), 2 it could not run (it \
needs root).")]
pub(super) struct Powerlink {
    #[command(flatten)]
    shown: Shown,
    /// Back ends to measure; without it, all. One that this host cannot have is a row that says why
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(value_parser = PossibleValuesParser::new(powerlink::backends().map(|(name, _)| name)))]
    backends: Vec<String>,
    /// Cycles to measure, of each back end, period and load
    #[arg(long, value_name = "NUMBER")]
    cycles: Option<u64>,
    /// In how many rounds: they show the spread
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Lengths of the cycle; without it, 5ms,1ms,400us
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = duration)]
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

impl Powerlink {
    pub(super) fn execute(self) -> Result {
        let options = self.options()?;
        self.shown.run(|progress| powerlink::run(&options, progress))
    }

    fn options(&self) -> Result<Options> {
        let usual = Options::default();
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
    use super::*;
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    fn options(line: &str) -> std::result::Result<Options, String> {
        match parse(&format!("bench powerlink {line}")).map_err(|error| error.to_string())? {
            Command::Bench(Arguments { command: Bench::Powerlink(powerlink) }) => {
                powerlink.options().map_err(|error| format!("{error:?}"))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let (found, usual) = (options("").unwrap(), Options::default());
        assert_eq!(format!("{found:?}"), format!("{usual:?}"));
    }

    #[test]
    fn everything_can_be_said() {
        let found = options(
            "--backends packet,xdp --cycles 200 --rounds 3 --periods 5ms,250us,1s \
             --load hackbench --cpus 1,0 --priority 0",
        )
        .unwrap();
        assert_eq!(found.backends, ["packet", "xdp"]);
        assert_eq!((found.cycles, found.rounds), (200, 3));
        assert_eq!(found.periods, [5_000, 250, 1_000_000].map(Duration::from_micros));
        assert_eq!(found.loads, [Load::Hackbench]);
        assert_eq!((found.cpus, found.priority), (Some((1, 0)), 0));
        assert_eq!(options("--cpus 1").unwrap().cpus, Some((1, 1)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for line in [
            "--backends netmap",
            "--periods 5",
            "--periods ms",
            "--periods 5h",
            "--periods 99999999999us",
            "--load cpu",
            "--cpus 0,1,2",
            "--cpus x",
        ] {
            assert!(options(line).is_err(), "{line}");
        }
    }
}

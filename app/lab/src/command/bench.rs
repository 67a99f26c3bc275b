//! `onbeat bench`

mod cyclic;
mod delay;
mod frer;
mod irq;

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::{port, powerlink};
use onbeat_report::format::parse_duration;
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Failure, Result};

use self::cyclic::Cyclic;

/// Measure, always beside the limit in the same run
///
/// What can be is measured side by side: whatever disturbs the machine disturbs all that is
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Delay(delay::Delay),
    Frer(frer::Frer),
    Irq(irq::Irq),
    /// Back ends of the real-time port side by side: response delay, jitter, CPU time
    ///
    /// A managing node asks each cycle, a controlled node answers, and the wire between them, the same
    /// for all back ends, writes down when: beside what a plain libpcap program does, and beside the
    /// least that can be. Idle, and under 400 processes that keep the scheduler busy, as hackbench
    /// does.
    #[command(mut_arg("backends", |backends| backends.value_parser(names(port::backends())).help(
        "Back ends to measure; without it, all but those that take a whole CPU (packet-spin). One \
         that this host cannot have is a row that says why"
    )))]
    #[command(after_help = "\
Examples:
  onbeat bench port
  onbeat bench port --json > port.json
  onbeat bench port --cycles 5000 --periods 1ms --html port.html
  onbeat bench port --backends packet,packet-spin,limit --load idle

As usual: 100,000 cycles in 10 rounds, of 5ms, 1ms and 250us, which takes half an hour.

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
    Port(Cyclic),
    /// POWERLINK nodes by each back end of the port, side by side: SoC jitter, PReq to PRes
    ///
    /// A managing and a controlled node, booted and in OPERATIONAL, on a wire that writes down when their
    /// frames pass, the same for all back ends. Idle, and under 400 processes that keep the scheduler busy,
    /// as hackbench does. The figure to look at is the tail of the response time where the driver answers
    /// (xdp, module), beside that of a node that answers itself (packet).
    #[command(mut_arg("backends", |backends| backends.value_parser(names(powerlink::backends())).help(
        "Back ends to measure; without it, all. One that this host cannot have is a row that says why"
    )))]
    #[command(after_help = "\
Examples:
  onbeat bench powerlink
  onbeat bench powerlink --json > powerlink.json
  onbeat bench powerlink --cycles 2000 --periods 1ms --backends packet,xdp

As usual: 10,000 cycles in 5 rounds, of 5ms, 1ms and 400us, which takes ten minutes.

Exit status: 0 all checks hold, 1 a check failed (figures do not count), 2 error (root is required).")]
    Powerlink(Cyclic),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Bench::Delay(delay) => delay.execute(),
            Bench::Frer(frer) => frer.execute(),
            Bench::Irq(irq) => irq.execute(),
            Bench::Port(options) => options.measure(port::usual(), port::run),
            Bench::Powerlink(options) => options.measure(powerlink::usual(), powerlink::run),
        }
    }
}

/// Back ends by their names alone.
fn names(backends: impl Iterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    PossibleValuesParser::new(backends.map(|(name, _)| name))
}

/// Refuses an option of a part of the bench that is not measured: it would be ignored.
fn refuse(option: &str, given: bool, measured: bool, part: &str) -> Result<()> {
    if !given || measured {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{option} is an option of {part}, which is not measured; leave it out"
    )))
}

/// Of benches that measure for a while, with and without something in turns.
#[derive(Debug, clap::Args)]
struct Slices {
    /// How often everything is measured
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// How long at a time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    slice: Option<Duration>,
    /// The CPU on which it is measured; the last one where it is not said
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn back_ends_are_said_by_name() {
        for (bench, usual) in [("port", port::usual()), ("powerlink", powerlink::usual())] {
            let line = format!("bench {bench} --backends packet,xdp --cycles 200");
            let Command::Bench(Arguments {
                command: Bench::Port(cyclic) | Bench::Powerlink(cyclic),
            }) = parse(&line).unwrap()
            else {
                panic!("{line}")
            };
            let options = cyclic.options(usual).unwrap();
            assert_eq!(options.backends, ["packet", "xdp"]);
            assert_eq!(options.cycles, 200);
            assert!(parse(&format!("bench {bench} --backends netmap")).is_err());
        }
        assert!(parse("bench port --backends packet-spin").is_ok());
        assert!(parse("bench powerlink --backends packet-spin").is_err());
    }
}

//! `onbeat bench`

mod cyclic;
mod delay;
mod frer;
mod irq;

use std::time::Duration;

use clap::Arg;
use clap::builder::PossibleValuesParser;
use onbeat_lab::bench::{port, powerlink};
use onbeat_report::format::parse_duration;
use onbeat_terminal::ResultOptions;
use onbeat_terminal::exit::{Failure, Result};

use self::cyclic::CyclicBenchOptions;

/// Measure throughput and latency, and compare them with the minimum overhead in the same run
///
/// Compared variants are measured alternately, so that disturbances of the machine affect all of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (root is required).")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Delay(delay::Delay),
    Frer(frer::Frer),
    Irq(irq::Irq),
    /// Measure the back ends of the real-time port: response delay, jitter, CPU time
    ///
    /// A managing node sends a request each cycle and a controlled node responds. The wire between
    /// them, the same for all back ends, records the times. References are a plain libpcap program
    /// and the minimum possible delay (row `limit`). The machine is idle, or loaded by 400 processes that exchange
    /// messages like hackbench.
    #[command(mut_arg("backends", |backends| backends.value_parser(names(port::backends())).help(
        "Back ends to measure [default: all but those that occupy a whole CPU (packet-spin)]. For an \
         unavailable back end, the result states the reason"
    )))]
    #[command(mut_args(|option| cyclic::with_default(option, &port::defaults())))]
    #[command(after_help = "\
Examples:
  onbeat bench port
  onbeat bench port --json > port.json
  onbeat bench port --cycles 5000 --periods 1ms --html port.html
  onbeat bench port --backends packet,packet-spin,limit --load idle

The defaults take 25 to 50 minutes, depending on the available back ends.

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (root is required).")]
    Port(CyclicBenchOptions),
    /// Measure POWERLINK nodes by each back end of the port: SoC jitter, PReq to PRes
    ///
    /// A managing and a controlled node run in OPERATIONAL. The wire between them, the same for all
    /// back ends, records the times of their frames. The machine is idle, or loaded by 400 processes
    /// that exchange messages like hackbench. The main value is the tail of the response time if the
    /// driver responds (xdp, module), compared with a node that responds itself (packet). The reference is the
    /// minimum possible delay: an XDP program that reflects each poll (row `limit`).
    #[command(mut_arg("backends", |backends| backends.value_parser(names(powerlink::backends())).help(
        "Back ends to measure [default: all]. For an unavailable back end, the result states the reason"
    )))]
    #[command(mut_args(|option| cyclic::with_default(option, &powerlink::defaults())))]
    #[command(after_help = "\
Examples:
  onbeat bench powerlink
  onbeat bench powerlink --json > powerlink.json
  onbeat bench powerlink --cycles 2000 --periods 1ms --backends limit,xdp

The defaults take ten minutes.

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (root is required).")]
    Powerlink(CyclicBenchOptions),
}

impl Arguments {
    pub(crate) fn execute(self) -> Result {
        match self.command {
            Bench::Delay(delay) => delay.execute(),
            Bench::Frer(frer) => frer.execute(),
            Bench::Irq(irq) => irq.execute(),
            Bench::Port(options) => options.measure(port::defaults(), port::run),
            Bench::Powerlink(options) => options.measure(powerlink::defaults(), powerlink::run),
        }
    }
}

/// The names of back ends as possible values.
fn names(backends: impl Iterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    PossibleValuesParser::new(backends.map(|(name, _)| name))
}

/// Rejects an option of a part of the bench that is not measured, instead of ignoring it.
fn refuse(option: &str, given: bool, measured: bool, part: &str) -> Result<()> {
    if !given || measured {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{option} is an option of {part}, which is not measured; leave it out"
    )))
}

/// Adds the default to the help of an option that has none of clap's: whether it was given matters.
fn with_default(option: Arg, value: impl std::fmt::Display) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    option.help(format!("{help} [default: {value}]"))
}

/// The values of a list, as on the command line.
fn listed(values: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

/// A duration, as on the command line.
fn time(value: Duration) -> String {
    match value.as_micros() {
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1000 == 0 => format!("{}ms", us / 1000),
        us => format!("{us}us"),
    }
}

/// Options of benches that repeat measurements for a time.
#[derive(Debug, clap::Args)]
struct Slices {
    /// Number of repetitions of each measurement
    #[arg(long, value_name = "NUMBER")]
    rounds: Option<u32>,
    /// Duration of one measurement
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    slice: Option<Duration>,
    /// CPU to measure on [default: the last CPU]
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn back_ends_are_selected_by_name() {
        for (bench, defaults) in [("port", port::defaults()), ("powerlink", powerlink::defaults())]
        {
            let line = format!("bench {bench} --backends packet,xdp --cycles 200");
            let Command::Bench(Arguments {
                command: Bench::Port(cyclic) | Bench::Powerlink(cyclic),
            }) = parse(&line).unwrap()
            else {
                panic!("{line}")
            };
            let options = cyclic.options(defaults).unwrap();
            assert_eq!(options.backends, ["packet", "xdp"]);
            assert_eq!(options.cycles, 200);
            assert!(parse(&format!("bench {bench} --backends netmap")).is_err());
        }
        assert!(parse("bench port --backends packet-spin").is_ok());
        assert!(parse("bench powerlink --backends packet-spin").is_err());
    }
}

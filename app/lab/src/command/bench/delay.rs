//! `onbeat bench delay`

use std::path::PathBuf;

use clap::Arg;
use onbeat_lab::bench::single_hop::{self, Options};

use super::{ResultOptions, Slices, refuse, time, with_default};
use onbeat_terminal::exit::Result;

/// Measure the delay tools: speed and accuracy of matching captures, overhead of the hooks per packet
///
/// Matching runs on a generated pair of captures with lost, duplicated, reordered and identical
/// packets. Its result is compared with the known matches, and its speed with plain reading of the same
/// files.
/// To measure the hooks, packets pass through a router with and without them, alternately.
#[derive(Debug, clap::Args)]
#[command(mut_args(with_usual))]
#[command(after_help = "\
Examples:
  onbeat bench delay
  onbeat bench delay --only matching --packets 1000000 --rounds 3
  onbeat bench delay --only hooks --json > hooks.json

Exit status: 0 all checks hold, 1 a check failed (measured values are invalid), 2 error (the hooks require root \
and Linux 6.3 with BTF).")]
pub(super) struct Delay {
    #[command(flatten)]
    shown: ResultOptions,
    /// Number of packets that cross the hop in the captures
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    packets: Option<u64>,
    /// Directory of the temporary captures, 414 octets per packet
    #[arg(long, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
    #[command(flatten)]
    slices: Slices,
    /// Measure only this part
    #[arg(long, value_name = "PART", value_parser = ["matching", "hooks"])]
    only: Option<String>,
}

/// Adds the default to the help of an option.
fn with_usual(option: Arg) -> Arg {
    let usual = Options::default();
    let value = match option.get_id().as_str() {
        "packets" => usual.packets.to_string(),
        "directory" => usual.directory.display().to_string(),
        "rounds" => usual.rounds.to_string(),
        "slice" => time(usual.slice),
        _ => return option,
    };
    with_default(option, value)
}

impl Delay {
    pub(super) fn execute(self) -> Result {
        let options = self.options()?;
        self.shown.run(|progress| single_hop::run(&options, progress))
    }

    fn options(&self) -> Result<Options> {
        let usual = Options::default();
        let wanted = |part| self.only.as_ref().is_none_or(|only| only == part);
        for (option, given, part) in [
            ("--packets", self.packets.is_some(), "matching"),
            ("--directory", self.directory.is_some(), "matching"),
            ("--slice", self.slices.slice.is_some(), "hooks"),
        ] {
            refuse(option, given, wanted(part), part)?;
        }
        Ok(Options {
            packets: self.packets.unwrap_or(usual.packets),
            directory: self.directory.clone().unwrap_or(usual.directory),
            rounds: self.slices.rounds.unwrap_or(usual.rounds),
            slice: self.slices.slice.unwrap_or(usual.slice),
            cpu: self.slices.cpu,
            matching: wanted("matching"),
            hooks: wanted("hooks"),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::command::bench::{Arguments, Bench};
    use crate::command::{Command, parse};

    #[test]
    fn options_of_an_unmeasured_part_are_rejected() {
        for (line, accepted) in [
            ("--packets 5 --slice 1s", true),
            ("--only matching --packets 5 --rounds 2", true),
            ("--only hooks --slice 1s --rounds 2", true),
            ("--only hooks --packets 5", false),
            ("--only hooks --directory /tmp", false),
            ("--only matching --slice 1s", false),
        ] {
            let Ok(Command::Bench(Arguments { command: Bench::Delay(delay) })) =
                parse(&format!("bench delay {line}"))
            else {
                panic!("{line}")
            };
            assert_eq!(delay.options().is_ok(), accepted, "{line}");
        }
    }
}

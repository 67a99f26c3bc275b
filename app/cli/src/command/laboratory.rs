//! `onbeat lab`, `bench`, `load`: executed by `onbeat-lab`, the laboratory.

use std::ffi::OsString;

use onbeat_terminal::companion::Companion;
use onbeat_terminal::exit::{Failure, Result};

const LABORATORY: Companion = Companion {
    name: "onbeat-lab",
    directory: "../libexec/onbeat",
    remedy: "install the laboratory of this version (package onbeat-lab; in a checkout: make lab)",
};

/// Commands of the laboratory.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Laboratory {
    /// Run networks of namespaces, with traffic and faults (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat lab list
  onbeat lab run link-failure --html report.html
  onbeat lab shell link-failure

Exit status: 0 success, 1 a check or the command of `shell` failed, 2 error (the laboratory is not installed)."
    )]
    Lab(LaboratoryArguments),
    /// Measure throughput and latency, and compare them with the minimum overhead in the same run (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat bench frer
  onbeat bench port --cycles 5000

Exit status: 0 all checks hold, 1 a check failed, 2 error (the laboratory is not installed)."
    )]
    Bench(LaboratoryArguments),
    /// Generate reproducible CPU and network load (onbeat-lab)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat load cpu /usr/share/doc/onbeat/examples/load/paper.toml --for 60s
  onbeat load net 192.0.2.2:9 --rate 10000 --size 1470

Exit status: 0 success, 2 error (the laboratory is not installed)."
    )]
    Load(LaboratoryArguments),
}

/// Arguments that the laboratory parses.
#[derive(Debug, clap::Args)]
pub(crate) struct LaboratoryArguments {
    /// Arguments of the laboratory command (see --help)
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Laboratory {
    pub(crate) fn execute(self, verbose: u8) -> Result {
        let (command, passed) = match self {
            Laboratory::Lab(passed) => ("lab", passed),
            Laboratory::Bench(passed) => ("bench", passed),
            Laboratory::Load(passed) => ("load", passed),
        };
        let options = std::iter::repeat_n("-v", verbose.into()).chain([command]);
        execute(options.map(OsString::from).chain(passed.arguments))
    }
}

/// Executes the laboratory in place of this process; returns only on failure.
pub(crate) fn execute(arguments: impl IntoIterator<Item = OsString>) -> Result {
    LABORATORY.execute(arguments)
}

/// Executes the laboratory to print help of its commands: `onbeat help lab run`. Returns `None` if the command line
/// is another one, or this program prints the help itself: that of `lab`, `bench` or `load` without a laboratory.
pub(crate) fn help() -> Option<Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [help, command, rest @ ..] = &words[..] else { return None };
    if help != "help" || !COMMANDS.iter().any(|name| command == name) {
        return None;
    }
    execute(words.clone()).err().filter(|_| !rest.is_empty())
}

/// Names of the laboratory's commands.
pub(crate) const COMMANDS: [&str; 3] = ["lab", "bench", "load"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn all_arguments_are_passed_to_the_laboratory() {
        let Ok(Command::Laboratory(Laboratory::Bench(bench))) =
            parse("bench frer --json --help -- x")
        else {
            panic!()
        };
        assert_eq!(bench.arguments, ["frer", "--json", "--help", "--", "x"]);
        let Ok(Command::Laboratory(Laboratory::Lab(lab))) = parse("lab --help") else { panic!() };
        assert_eq!(lab.arguments, ["--help"]);
    }
}

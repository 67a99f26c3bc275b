//! `onbeat lab`, `bench`, `load`: executed by `onbeat-lab`, the laboratory. `onbeat fleet`: by `onbeat-fleet`.

use std::ffi::OsString;

use onbeat_terminal::companion::Companion;
use onbeat_terminal::exit::{Failure, Result};

const LABORATORY: Companion = Companion {
    name: "onbeat-lab",
    directory: "../libexec/onbeat",
    remedy: "install the laboratory of this version (package onbeat-lab; in a checkout: make lab)",
};

const FLEET: Companion = Companion {
    name: "onbeat-fleet",
    directory: "../libexec/onbeat",
    remedy: "install the program of fleets of this version (package onbeat-fleet; in a checkout: make fleet)",
};

/// Commands of other programs.
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
    /// Roll plans out to the nodes of a plant while frames flow (onbeat-fleet)
    #[command(
        disable_help_flag = true,
        after_help = "\
Examples:
  onbeat fleet apply plan-1
  onbeat fleet status

Exit status: 0 success, 1 negative result, 2 error (the program is not installed); `status` also 3 and 4."
    )]
    Fleet(LaboratoryArguments),
}

/// Arguments that the other program parses.
#[derive(Debug, clap::Args)]
pub(crate) struct LaboratoryArguments {
    /// Arguments of the command (see --help)
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Laboratory {
    pub(crate) fn execute(self, verbose: u8) -> Result {
        let (command, passed) = match self {
            Laboratory::Lab(passed) => ("lab", passed),
            Laboratory::Bench(passed) => ("bench", passed),
            Laboratory::Load(passed) => ("load", passed),
            Laboratory::Fleet(passed) => ("fleet", passed),
        };
        let options = std::iter::repeat_n("-v", verbose.into()).chain([command]);
        execute(command, options.map(OsString::from).chain(passed.arguments))
    }
}

/// Executes the program of a command in place of this process; returns only on failure.
pub(crate) fn execute(command: &str, arguments: impl IntoIterator<Item = OsString>) -> Result {
    let companion = if command == "fleet" { FLEET } else { LABORATORY };
    companion.execute(arguments)
}

/// Executes another program to print help of its commands: `onbeat help lab run`. Returns `None` if the command line
/// is another one, or this program prints the help itself: that of a command whose program is not installed.
pub(crate) fn help() -> Option<Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [help, command, rest @ ..] = &words[..] else { return None };
    let name = COMMANDS.into_iter().find(|name| help == "help" && command == name)?;
    execute(name, words.clone()).err().filter(|_| !rest.is_empty())
}

/// Names of the commands of other programs.
pub(crate) const COMMANDS: [&str; 4] = ["lab", "bench", "load", "fleet"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn all_arguments_are_passed_to_the_other_program() {
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

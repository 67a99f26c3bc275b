//! The command line of `onbeat`.

use clap::{Arg, ArgAction, CommandFactory, Parser};

use onbeat_terminal::completions::Values;
use onbeat_terminal::exit::Result;
use onbeat_terminal::program::{LAST, Program};
use tracing::Level;

use crate::command::Command;

/// Deterministic Ethernet on stock Linux
///
/// onbeat protects streams against the loss of links and frames (IEEE 802.1CB FRER). It numbers the
/// frames of a talker and sends them along several paths; the listener receives the first copy of
/// each. It also runs POWERLINK nodes, measures packet delay, and accounts softirq time. It requires
/// no patched kernel, no special driver and no TSN switch.
#[derive(Debug, Parser)]
#[command(
    name = "onbeat",
    bin_name = "onbeat",
    version = onbeat_terminal::version::line(),
    max_term_width = 100,
    after_help = "\
Examples:
  onbeat doctor eth0 eth1
  onbeat lab run link-failure
  onbeat run /etc/onbeat/bridge.toml

Exit status: 0 success, 1 negative result (packets were lost, a check failed, nothing could be measured, or a \
setting could not be restored), 2 error."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Increase the log level, on standard error (repeatable; RUST_LOG overrides it)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = LAST)]
    pub(crate) verbose: u8,
}

impl Program for Arguments {
    fn verbose(&self) -> u8 {
        self.verbose
    }

    fn log_level(&self) -> Level {
        self.command.log_level()
    }

    fn values(argument: &Arg) -> Option<Values> {
        crate::completion::values(argument)
    }

    fn execute(self) -> Result {
        self.command.execute(self.verbose, Self::command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn verbose_is_valid_at_any_position() {
        for line in ["onbeat -vv doctor", "onbeat doctor -vv", "onbeat doctor -v --verbose"] {
            assert_eq!(Arguments::parse_from(line.split(' ')).verbose, 2, "{line}");
        }
    }

    #[test]
    fn examples_of_every_command_parse() {
        onbeat_terminal::program::assert_examples::<Arguments>();
    }

    #[test]
    fn help_has_short_sentences_and_one_form_of_defaults() {
        onbeat_terminal::program::assert_sentences::<Arguments>();
    }

    /// Classify each new argument that names a file here and in `onbeat_terminal::paths`.
    #[test]
    fn file_arguments_are_classified_as_input_or_output() {
        let found = onbeat_terminal::paths::arguments(&Arguments::command());
        let names = |output| {
            let of = found.iter().filter(move |(is_output, _)| *is_output == output);
            of.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["csv", "html", "output", "parquet", "textfile"]);
        assert_eq!(
            names(false),
            [
                "arrivals",
                "base",
                "cdc",
                "correct",
                "departures",
                "directory",
                "exec",
                "file",
                "files",
                "keep",
                "key",
                "new",
                "node",
                "old",
                "profile",
                "results",
                "root",
                "source",
                "xap",
                "xdd"
            ]
        );
    }
}

//! The command line as a whole.

use clap::{ArgAction, CommandFactory, Parser};

use onbeat_terminal::exit::Result;
use onbeat_terminal::program::Program;
use tracing::Level;

use crate::command::Command;

/// Deterministic Ethernet on stock Linux
///
/// onbeat keeps packets on the beat. It protects streams against link loss (IEEE 802.1CB FRER):
/// a talker's frames are numbered and sent along several paths, and the listener takes the first
/// copy of each. It needs no patched kernel, no special driver and no TSN switch.
#[derive(Debug, Parser)]
#[command(
    name = "onbeat",
    version = onbeat_terminal::version::line(),
    max_term_width = 100,
    after_help = "\
Examples:
  onbeat doctor eth0 eth1
  onbeat lab run link-failure
  onbeat run /etc/onbeat/bridge.toml

Exit status: 0 success, 1 negative result, 2 error."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log more, on standard error; RUST_LOG overrides it
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Program for Arguments {
    fn verbose(&self) -> u8 {
        self.verbose
    }

    fn log_level(&self) -> Level {
        self.command.log_level()
    }

    fn execute(self) -> Result {
        self.command.execute(self.verbose, Self::command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn verbose_stands_anywhere() {
        for line in ["onbeat -vv doctor", "onbeat doctor -vv", "onbeat doctor -v --verbose"] {
            assert_eq!(Arguments::parse_from(line.split(' ')).verbose, 2, "{line}");
        }
    }

    /// Those a user sees, with their names from the first.
    fn commands(command: &clap::Command, name: &str, to: &mut Vec<(String, clap::Command)>) {
        to.push((name.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            commands(sub, &format!("{name} {}", sub.get_name()), to);
        }
    }

    #[test]
    fn every_command_shows_examples_that_parse() {
        let mut all = Vec::new();
        commands(&Arguments::command(), "onbeat", &mut all);
        assert!(all.len() > 9, "{all:?}");
        for (name, command) in all {
            let help = command.get_after_help().unwrap_or_else(|| panic!("{name}")).to_string();
            assert!(help.contains("Exit status: 0 "), "{name}: {help}");
            let examples = help.lines().filter_map(|line| line.strip_prefix("  "));
            // What stands behind a pipe or goes into a file is the shell's.
            let examples: Vec<&str> =
                examples.filter_map(|line| line.split(" | ").next()?.split(" > ").next()).collect();
            assert!(!examples.is_empty(), "{name}");
            for example in examples {
                assert!(example.starts_with("onbeat "), "{name}: {example}");
                Arguments::try_parse_from(example.split_whitespace())
                    .unwrap_or_else(|error| panic!("{name}: {example}: {error}"));
            }
        }
    }

    /// A new argument that names a file is to be classified here and in `onbeat_terminal::paths`.
    #[test]
    fn inputs_and_outputs_are_known() {
        let found = onbeat_terminal::paths::arguments(&Arguments::command());
        let names = |output| {
            let of = found.iter().filter(move |(is_output, _)| *is_output == output);
            of.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["csv", "html", "output", "parquet"]);
        assert_eq!(
            names(false),
            [
                "arrivals",
                "correct",
                "departures",
                "file",
                "key",
                "node",
                "profile",
                "root",
                "source"
            ]
        );
    }
}

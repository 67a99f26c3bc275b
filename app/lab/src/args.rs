//! The command line of the laboratory.

use clap::{Arg, ArgAction, CommandFactory, Parser};
use onbeat_lab::scenario::list;
use onbeat_netdev::Handle;
use onbeat_terminal::completions::{Values, is_named};
use onbeat_terminal::exit::Result;
use onbeat_terminal::program::{LAST, Program};
use tracing::Level;

use crate::command::Command;

/// The laboratory of onbeat: networks, faults, benches and loads on one machine
///
/// Networks are made of network namespaces, with real frames and the real data plane. Each command is
/// also a command of onbeat, which executes this program: onbeat lab is onbeat-lab lab.
#[derive(Debug, Parser)]
#[command(
    name = "onbeat",
    bin_name = "onbeat",
    version = onbeat_terminal::version::line(),
    max_term_width = 100,
    after_help = "\
Examples:
  onbeat lab run link-failure
  onbeat bench frer
  onbeat load cpu /usr/share/doc/onbeat/examples/load/paper.toml --for 60s

Exit status: 0 success, 1 negative result (a check of a scenario or bench failed, or the command of `lab shell` did), \
2 error."
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
        match &self.command {
            Command::Lab(lab) if lab.is_run() => self.verbose.saturating_sub(1),
            _ => self.verbose,
        }
    }

    fn log_level(&self) -> Level {
        Level::WARN
    }

    fn values(argument: &Arg) -> Option<Values> {
        if is_named(argument, "SCENARIO") {
            Some(|| list().iter().map(|scenario| scenario.name.to_owned()).collect())
        } else if is_named(argument, "LOAD,...") {
            // Or a number.
            Some(|| ["idle", "cpu"].map(str::to_owned).into())
        } else if argument.get_long() == Some("interface") {
            Some(interfaces)
        } else {
            None
        }
    }

    fn execute(self) -> Result {
        self.command.execute(Self::command)
    }
}

fn interfaces() -> Vec<String> {
    let links = Handle::open().and_then(|handle| handle.links()).unwrap_or_default();
    links.into_iter().map(|link| link.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    /// A new argument that names a file must be classified here and in `onbeat_terminal::paths`.
    #[test]
    fn inputs_and_outputs_are_classified() {
        let found = onbeat_terminal::paths::arguments(&Arguments::command());
        let names = |output| {
            let of = found.iter().filter(move |(is_output, _)| *is_output == output);
            of.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["html"]);
        assert_eq!(names(false), ["captures", "directory", "profile"]);
    }

    #[test]
    fn names_are_completed() {
        let found =
            onbeat_terminal::completions::arguments(&Arguments::command(), Arguments::values);
        let found: Vec<_> = found.iter().map(|(name, of)| (name.as_str(), of.join(" "))).collect();
        let expected = [
            ("onbeat lab run single-hop", "load"),
            ("onbeat lab shell", "network"),
            ("onbeat load net", "interface"),
        ];
        assert_eq!(found, expected.map(|(name, of)| (name, of.to_owned())));
    }

    #[test]
    fn every_command_shows_examples_that_parse() {
        onbeat_terminal::program::assert_examples::<Arguments>();
    }

    #[test]
    fn help_has_short_sentences_and_one_form_of_defaults() {
        onbeat_terminal::program::assert_sentences::<Arguments>();
    }
}

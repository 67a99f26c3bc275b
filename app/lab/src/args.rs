//! The command line as a whole.

use clap::{ArgAction, CommandFactory, Parser};
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::program::Program;
use tracing::Level;

use crate::command::Command;

/// The laboratory of onbeat: networks, faults, benches and loads on one machine
///
/// Networks are made of network namespaces, with real frames and the real data plane. Each command is one
/// of onbeat, too, which executes this program: onbeat lab is onbeat-lab lab.
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
  onbeat load cpu examples/load/paper.toml --for 60s

Exit status: 0 success, 1 negative result, 2 error."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log more, on standard error (lab run: the first prints all tables instead); RUST_LOG overrides it
    #[arg(short, long, global = true, action = ArgAction::Count)]
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

    fn execute(self) -> Result {
        check_version(std::env::var("ONBEAT_VERSION").ok().as_deref())?;
        self.command.execute(Self::command)
    }
}

/// Refuses to be executed by an `onbeat` of another version.
fn check_version(of_caller: Option<&str>) -> Result<()> {
    const OWN: &str = env!("CARGO_PKG_VERSION");
    match of_caller {
        Some(version) if version != OWN => Err(Failure::new(format!(
            "onbeat has version {version}, and its laboratory (onbeat-lab) {OWN}; install both of one version"
        ))),
        _ => Ok(()),
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
    fn another_version_is_refused() {
        assert!(check_version(None).is_ok());
        assert!(check_version(Some(env!("CARGO_PKG_VERSION"))).is_ok());
        assert!(check_version(Some("0.0.1")).is_err());
    }

    /// A new argument that names a file is to be classified here and in `onbeat_terminal::paths`.
    #[test]
    fn inputs_and_outputs_are_known() {
        let found = onbeat_terminal::paths::arguments(&Arguments::command());
        let names = |output| {
            let of = found.iter().filter(move |(is_output, _)| *is_output == output);
            of.map(|(_, name)| name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(true), ["html"]);
        assert_eq!(names(false), ["captures", "directory", "profile"]);
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
}

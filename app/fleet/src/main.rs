//! The `onbeat-fleet` program, which `onbeat fleet` executes.
#![forbid(unsafe_code)]

mod agent;
mod commands;
mod controller;
mod credentials;
mod disk;
mod error;
mod files;
mod history;
mod join;
mod metrics;
mod node_plans;
mod store;

use std::process::ExitCode;

use clap::{ArgAction, CommandFactory, Parser};
use onbeat_terminal::companion;
use onbeat_terminal::exit::{Failure, Result};
use onbeat_terminal::program::{self, LAST, Program};
use tracing::Level;

/// Plants of nodes as one: plans are rolled out over etcd while frames flow
///
/// Each command is also a command of onbeat, which executes this program: onbeat fleet is onbeat-fleet fleet.
#[derive(Debug, Parser)]
#[command(
    name = "onbeat",
    bin_name = "onbeat",
    version = onbeat_terminal::version::line(),
    max_term_width = 100,
    after_help = "\
Examples:
  onbeat fleet apply plan-1
  onbeat fleet status

Exit status: 0 success, 1 negative result, 2 error; `fleet status` also 3 and 4."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Increase the log level, on standard error (repeatable; RUST_LOG overrides it)
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = LAST)]
    verbose: u8,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Fleet(commands::Fleet),
    Man(commands::Man),
}

impl Program for Arguments {
    fn verbose(&self) -> u8 {
        self.verbose
    }

    fn log_level(&self) -> Level {
        match &self.command {
            Command::Fleet(fleet) if matches!(fleet.command, commands::Command::Agent(_)) => {
                Level::INFO
            }
            _ => Level::WARN,
        }
    }

    fn execute(self) -> Result {
        match self.command {
            Command::Fleet(fleet) => fleet.command.execute(),
            Command::Man(man) => man.execute(Self::command()),
        }
    }
}

fn main() -> ExitCode {
    let checked =
        companion::check_version(std::env::var(companion::VERSION).ok().as_deref(), "onbeat-fleet");
    checked.map_or_else(Failure::report, |()| program::main::<Arguments>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_all_commands_parse() {
        program::assert_examples::<Arguments>();
        program::assert_sentences::<Arguments>();
    }

    #[test]
    fn the_manual_has_one_page_with_each_command() {
        let pages = onbeat_terminal::manual::pages(Arguments::command(), &[]);
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["onbeat-fleet"]);
        for command in ["init", "agent", "apply", "status"] {
            let section = format!(".SS \"onbeat fleet {command}\"\n");
            assert!(pages[0].text.contains(&section), "{section}{}", pages[0].text);
        }
    }
}

//! Main function of a program: command line to exit status.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory, FromArgMatches, Subcommand};
use tracing::Level;

use crate::completions::{self, Values};
use crate::exit::{self, Failure, Result};
use crate::{logging, paths, version};

/// Place of an option of all commands in help: after the command's own.
pub const LAST: usize = 900;

/// A program's command line.
pub trait Program: CommandFactory + FromArgMatches + Debug {
    /// Number of `--verbose` flags.
    fn verbose(&self) -> u8;

    /// Log level without `--verbose`.
    fn log_level(&self) -> Level;

    /// Values of an argument that shells complete from this host, such as its interfaces.
    #[must_use]
    fn values(_argument: &Arg) -> Option<Values> {
        None
    }

    /// Executes the command.
    ///
    /// # Errors
    /// The error of the command.
    fn execute(self) -> Result;
}

/// Main function: completes words for a shell, or parses the command line, checks its files, and executes it.
pub fn main<P: Program>() -> ExitCode {
    completions::complete(P::command, P::values);
    if let Some(commit) = version::COMMIT {
        onbeat_report::origin::set_commit(commit);
    }
    let mut command = P::command();
    let parsed = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| {
        let program = P::from_arg_matches(&matches);
        Ok((program.map_err(|error| error.format(&mut command))?, matches))
    });
    let (program, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return exit::usage(&error),
    };
    let started = logging::start(program.log_level(), program.verbose());
    let answer = started.and_then(|()| paths::check(&command, &matches)).and_then(|()| {
        tracing::debug!("onbeat {}: {program:?}", version::line());
        program.execute()
    });
    answer.map_or_else(Failure::report, ExitCode::from)
}

/// Command-line definition with the commands `C`, for tests.
#[doc(hidden)]
pub fn command_line<C: Subcommand>() -> Command {
    C::augment_subcommands(Command::new("onbeat").subcommand_required(true))
}

/// Parses a command line of a program with the commands `C`, for tests.
#[doc(hidden)]
pub fn parse<C: Subcommand>(line: &str) -> std::result::Result<C, clap::Error> {
    let words = std::iter::once("onbeat").chain(line.split_whitespace());
    C::from_arg_matches(&command_line::<C>().try_get_matches_from(words)?)
}

/// For tests: asserts that the help of every visible command shows exit status and examples that parse.
#[doc(hidden)]
pub fn assert_examples<P: Program>() {
    let mut all = Vec::new();
    commands(&P::command(), "onbeat", &mut all);
    assert!(all.len() > 5, "{all:?}");
    for (name, command) in all {
        let help = command.get_after_help().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(help.contains("Exit status: 0 "), "{name}: {help}");
        let examples = help.lines().filter_map(|line| line.strip_prefix("  "));
        // The shell handles pipes and redirections.
        let examples: Vec<&str> =
            examples.filter_map(|line| line.split(" | ").next()?.split(" > ").next()).collect();
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            assert!(example.starts_with("onbeat "), "{name}: {example}");
            let matches = P::command().try_get_matches_from(example.split_whitespace());
            matches
                .and_then(|matches| P::from_arg_matches(&matches))
                .unwrap_or_else(|error| panic!("{name}: {example}: {error}"));
        }
    }
}

/// For tests: asserts that the help of every visible command and option has sentences of at most 25 words, and
/// defaults in brackets.
#[doc(hidden)]
pub fn assert_sentences<P: Program>() {
    let (mut all, mut faults) = (Vec::new(), BTreeSet::new());
    commands(&P::command(), "onbeat", &mut all);
    for (_, command) in all {
        let options = command.get_arguments().filter_map(|argument| {
            argument.get_long_help().or(argument.get_help()).map(ToString::to_string)
        });
        let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        for text in options.chain(about) {
            let sentences = text.split("\n\n").flat_map(|part| part.split(". "));
            let long = |sentence: &&str| sentence.split_whitespace().count() > 25;
            faults.extend(sentences.filter(long).map(str::to_owned));
            faults.extend(text.contains("; default").then_some(text));
        }
    }
    assert_eq!(faults, BTreeSet::new());
}

/// The visible commands below `command`, with their full names.
fn commands(command: &Command, name: &str, to: &mut Vec<(String, Command)>) {
    to.push((name.to_owned(), command.clone()));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        commands(sub, &format!("{name} {}", sub.get_name()), to);
    }
}

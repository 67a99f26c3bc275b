//! Exit status: 0 success, 1 negative result, 2 error.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use onbeat_host::{excerpt, trust};

use crate::{colors, output};

/// The exit status of a command that failed with an error.
pub const ERROR: u8 = 2;

/// Result of a command that completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandResult {
    /// Success.
    Success,
    /// Negative result: frames lost, a check failed.
    Negative,
}

impl CommandResult {
    /// [`CommandResult::Success`] if the condition holds.
    pub fn good_if(good: bool) -> CommandResult {
        if good { CommandResult::Success } else { CommandResult::Negative }
    }
}

impl From<CommandResult> for ExitCode {
    fn from(answer: CommandResult) -> ExitCode {
        match answer {
            CommandResult::Success => ExitCode::SUCCESS,
            CommandResult::Negative => ExitCode::FAILURE,
        }
    }
}

/// Error of a command, with its remedy.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

/// Outcome of a command.
pub type Result<T = CommandResult> = std::result::Result<T, Failure>;

impl Failure {
    /// An error with exit status 2.
    pub fn new(message: impl Display) -> Failure {
        Failure::with_code(message, ERROR)
    }

    /// An error with the given exit status.
    pub fn with_code(message: impl Display, code: u8) -> Failure {
        Failure { message: message.to_string(), code }
    }

    /// Prints the error on standard error.
    pub fn report(self) -> ExitCode {
        write_error(&printable(&format!("onbeat: {}", self.message)));
        ExitCode::from(self.code)
    }
}

/// Errors of the libraries name the object, the value and the remedy, and include the text of their sources.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error)
    }
}

/// Prints the message of the parser: help on standard output with status 0, wrong usage with status 2.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is no error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let styled = error.render();
    let plain = styled.to_string();
    // Words of the command line may be names of files.
    let hostile = plain.contains(is_hostile);
    let colored = colors::enabled(&io::stderr()) && !hostile;
    let text = if colored { styled.ansi().to_string() } else { printable(&plain) };
    // Help printed because the command is missing has no such prefix, and may contain the word elsewhere.
    let text =
        if plain.starts_with("error:") { text.replacen("error:", "onbeat:", 1) } else { text };
    write_error(text.trim_end());
    ExitCode::from(ERROR)
}

/// Prints a warning on standard error.
pub fn warn(message: impl Display) {
    write_error(&printable(&format!("onbeat: {message}")));
}

/// Reads a file for a command that changes nothing; warns if a run would refuse it.
pub fn load_to_preview<T, E: Into<Failure>>(
    file: &Path,
    read: impl FnOnce(&Path) -> std::result::Result<T, E>,
) -> Result<T> {
    let content = read(file).map_err(Into::into)?;
    if let Err(refusal) = trust::check_file(file) {
        warn_of_refusal(refusal);
    }
    Ok(content)
}

/// Warns that a run would refuse a file that a command only reads.
fn warn_of_refusal(refusal: impl Display) {
    warn(format!("warning: a run would fail: {refusal}"));
}

/// Whether a terminal obeys a character beyond the layout of a message.
fn is_hostile(c: char) -> bool {
    c.is_control() && !['\n', '\t'].contains(&c)
}

/// Returns a message with its control characters as `\u001b`, and excerpts of very long lines: names and contents of
/// files have any.
fn printable(message: &str) -> String {
    let lines = message.split('\n').map(excerpt);
    let lines: Vec<_> = lines.map(|line| output::escape(&line, is_hostile).into_owned()).collect();
    lines.join("\n")
}

/// Writes a line on standard error. A failure cannot be reported.
fn write_error(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

//! Exit status: 0 success, 1 negative result, 2 error.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use onbeat_host::trust;

use crate::colors;

/// The exit status of a command that failed with an error.
pub const ERROR: u8 = 2;

/// What a command that ran tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Done, and nothing is wrong.
    Good,
    /// Done, and something is wrong: frames lost, a check failed.
    Bad,
}

impl Answer {
    /// Good where it holds.
    pub fn good_if(good: bool) -> Answer {
        if good { Answer::Good } else { Answer::Bad }
    }
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> ExitCode {
        match answer {
            Answer::Good => ExitCode::SUCCESS,
            Answer::Bad => ExitCode::FAILURE,
        }
    }
}

/// Why a command ended before its end, with the way out.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
}

/// What a command ends with.
pub type Result<T = Answer> = std::result::Result<T, Failure>;

impl Failure {
    /// Exits with status 2.
    pub fn new(message: impl Display) -> Failure {
        Failure::with_code(message, ERROR)
    }

    /// Exits with the given status.
    pub fn with_code(message: impl Display, code: u8) -> Failure {
        Failure { message: message.to_string(), code }
    }

    /// Says it on standard error.
    pub fn report(self) -> ExitCode {
        say(&format!("onbeat: {}", self.message));
        ExitCode::from(self.code)
    }
}

/// Errors of the libraries name the thing, the value and the way out in their own text, the text
/// of their sources with it.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error)
    }
}

/// Ends with what the parser has to say: help on standard output is no error, wrong usage is.
pub fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Whoever closed the pipe has read enough.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let styled = error.render();
    let plain = styled.to_string();
    let text =
        if colors::enabled(&io::stderr()) { styled.ansi().to_string() } else { plain.clone() };
    // Help for want of a command has no such prefix, and may have the word further down.
    let text =
        if plain.starts_with("error:") { text.replacen("error:", "onbeat:", 1) } else { text };
    write_error(text.trim_end());
    ExitCode::from(ERROR)
}

/// Says on standard error what keeps nothing from being done.
pub fn warn(message: impl Display) {
    say(&format!("onbeat: {message}"));
}

/// Reads a file for a command that changes nothing; warns where a run would refuse it.
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

/// Warns that a run would refuse what a command only reads.
pub fn warn_of_refusal(refusal: impl Display) {
    warn(format!("warning: a run would fail: {refusal}"));
}

/// Nobody is left to be told that standard error cannot be written.
fn write_error(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

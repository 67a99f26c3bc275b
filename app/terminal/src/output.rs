//! Standard output, which may be a terminal, a file that is full, or a pipe that nobody reads.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use onbeat_report::{Figure, Outcome, html, summary, text};

use crate::colors;
use crate::exit::{Answer, Failure, Result};

/// Whether somebody reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// It does.
    There,
    /// The pipe is closed.
    Gone,
}

/// Prints a text. That the reader of a pipe has gone (`onbeat show | head`) is no error.
pub fn print(text: &str) -> Result<()> {
    print_to_reader(text).map(drop)
}

/// As [`print`], for who would print more.
pub fn print_to_reader(text: &str) -> Result<Reader> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(Failure::new(format!("standard output cannot be written: {error}"))),
        Ok(()) => Ok(Reader::Open),
    }
}

/// Prints a value as JSON, laid out to be read.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints the result of a scenario or bench; `drawn` says that its network was drawn already.
pub fn print_outcome(mut outcome: Outcome, json: bool, drawn: bool) -> Result {
    let answer = Answer::good_if(outcome.ok());
    if json {
        print_json(&outcome)?;
        return Ok(answer);
    }
    if drawn {
        outcome.figures.retain(|_, figure| !matches!(figure, Figure::Topology(_)));
    }
    print(&text::render(&outcome, colors::enabled(&io::stdout())))?;
    Ok(answer)
}

/// Prints the result of a scenario on what an introduction leaves of a screen: with `shows`, the names of
/// its figures that matter most, and the report's path at the end.
pub fn print_summary(
    outcome: &Outcome,
    shows: &[&str],
    introduction: usize,
    report: Option<&Path>,
) -> Result {
    let report = match report {
        Some(path) => {
            format!("all tables: --verbose, --json; report with plots:\n{}\n", path.display())
        }
        None => "all tables: --verbose, --json; report with plots: --html FILE\n".to_owned(),
    };
    let room = summary::LINES.saturating_sub(introduction + report.lines().count() + 1);
    let colors = colors::enabled(&io::stdout());
    print(&format!("{}\n{report}", summary::render(outcome, shows, room, colors)))?;
    Ok(Answer::good_if(outcome.ok()))
}

/// Whether a report can be written there: better told before the work than after it.
pub fn check_report(path: Option<&Path>) -> Result<()> {
    let directory = path.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.is_dir() => Err(Failure::new(format!(
            "--html: there is no directory {directory:?}; make it: mkdir -p {}",
            directory.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the page of a result, where one is asked for.
pub fn write_report(path: Option<&Path>, outcome: &Outcome) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    onbeat_host::output::write(path, html::render(outcome)).map_err(|error| {
        Failure::new(format!("--html: {} cannot be written: {error}", path.display()))
    })
}

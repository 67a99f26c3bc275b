//! Standard output: a terminal, a file on a device that may be full, or a pipe whose reader may be gone.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use onbeat_report::summary::{self, ScreenSize};
use onbeat_report::{Figure, Outcome, html, text};

use terminal_size::{Height, Width, terminal_size_of};

use crate::colors;
use crate::exit::{CommandResult, Failure, Result};

/// State of the reader of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Standard output can be written.
    Open,
    /// The reader closed the pipe.
    Closed,
}

/// Prints a text. A pipe closed by its reader (`onbeat show | head`) is no error.
pub fn print(text: &str) -> Result<()> {
    print_to_reader(text).map(drop)
}

/// Like [`print()`]; returns whether further output can be read.
///
/// Names of files and processes may contain C1 control characters (U+0080 to U+009F), which terminals obey and
/// JSON does not escape. They are written as `\u009b`, in JSON and in text.
pub fn print_to_reader(text: &str) -> Result<Reader> {
    let text = escape(text, |c| matches!(c, '\u{7f}'..='\u{9f}'));
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Closed),
        Err(error) => Err(Failure::new(format!("standard output cannot be written: {error}"))),
        Ok(()) => Ok(Reader::Open),
    }
}

/// Returns the text with some characters of the basic plane as in JSON: `\u009b`.
pub(crate) fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return text.into();
    }
    let each = |c: char| match is_escaped(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    text.chars().map(each).collect()
}

/// Prints a value as indented JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints the result of a scenario or bench; `drawn`: its topology was already printed.
pub fn print_outcome(mut outcome: Outcome, json: bool, drawn: bool) -> Result {
    let answer = CommandResult::good_if(outcome.ok());
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

/// Smallest screen to which a summary is cut: it holds a diagram and a table. Smaller ones scroll.
const SMALLEST: ScreenSize = ScreenSize { lines: 30, columns: 80 };

/// Returns the size of the terminal that standard output is.
#[must_use]
pub fn screen_size() -> ScreenSize {
    let Some((Width(columns), Height(lines))) = terminal_size_of(io::stdout()) else {
        return ScreenSize::default();
    };
    ScreenSize {
        lines: SMALLEST.lines.max(lines.into()),
        columns: SMALLEST.columns.max(columns.into()),
    }
}

/// Prints the summary of a scenario, limited to the lines of the screen below an introduction: the most
/// important figures (`shows`), and the path of the report.
pub fn print_summary(
    outcome: &Outcome,
    shows: &[&str],
    introduction: usize,
    report: Option<&Path>,
) -> Result {
    let report = match report {
        Some(path) => {
            format!("all tables: add --verbose or --json; report with plots:\n{}\n", path.display())
        }
        None => {
            "all tables: add --verbose or --json; report with plots: add --html FILE\n".to_owned()
        }
    };
    let mut size = screen_size();
    // The empty line between them, and the next prompt.
    size.lines = size.lines.saturating_sub(introduction + report.lines().count() + 2);
    let colors = colors::enabled(&io::stdout());
    print(&format!("{}\n{report}", summary::render(outcome, shows, size, colors)))?;
    Ok(CommandResult::good_if(outcome.ok()))
}

/// Writes the report of a result, if a path is given, and prints the result also where that fails: the
/// measurement cannot be repeated.
pub fn report_and_print(outcome: Outcome, json: bool, html: Option<&Path>) -> Result {
    let written = write_report(html, &outcome);
    let answer = print_outcome(outcome, json, false)?;
    written.map(|()| answer)
}

/// Checks, before the measurement, that a report can be written at this path.
pub fn check_report(path: Option<&Path>) -> Result<()> {
    if let Some(path) = path.filter(|path| path.is_dir()) {
        return Err(Failure::new(format!("--html: {path:?} is a directory; use a file in it")));
    }
    let directory = path.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty());
    match directory {
        Some(directory) if !directory.is_dir() => Err(Failure::new(format!(
            "--html: directory {directory:?} does not exist; create it: mkdir -p {}",
            onbeat_host::shell_word(&directory.to_string_lossy())
        ))),
        _ => Ok(()),
    }
}

/// Writes the HTML report of a result, if a path is given.
pub fn write_report(path: Option<&Path>, outcome: &Outcome) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    onbeat_host::output::write(path, html::render(outcome)).map_err(|error| {
        Failure::new(format!("--html: {} cannot be written: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_has_the_same_value() {
        let all: String = ('\0'..='\u{2ff}').chain("\\\u{9b}\\\\\u{85}\"\u{7f}𝄞".chars()).collect();
        let json = serde_json::to_string_pretty(&[&all]).unwrap();
        let printed = escape(&json, |c| matches!(c, '\u{7f}'..='\u{9f}'));
        assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{printed:?}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&printed).unwrap(), [all]);
        assert!(matches!(escape("é\u{a0}\n\u{1b}", |c| c == '\u{9b}'), Cow::Borrowed(_)));
    }
}

//! Diagnostics of a configuration file, shown with their location.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use onbeat_host::excerpt;

/// Maximum length of an excerpt of a source line, in octets: a line of a generated file may be very long.
const EXCERPT: usize = 100;

/// Name and text of a configuration file, kept so that later checks can reference it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name in diagnostics.
    pub file: String,
    /// The whole text.
    pub text: Arc<str>,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is unusable.
    Error,
    /// The configuration is usable, but its effect is probably unintended.
    Warning,
}

/// A diagnostic of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The range of the text concerned, in octets.
    pub span: Range<usize>,
    /// Key path, such as `stream["axis-1"].member[0].port`; empty for the file as a whole.
    pub path: String,
    /// The message, with the value.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// Diagnostics of one file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Report {
    source: Source,
    diagnostics: Vec<Diagnostic>,
}

/// All errors of a configuration, in the order of the file.
///
/// `Display` shows the whole report: file, line, column, key, value, the line with a caret, and the remedy,
/// for each error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(Report);

/// Valid but probably unintended parts of a configuration, in the order of the file.
///
/// `Display` is like that of [`ConfigError`], with the word "warning" after each location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warnings(Report);

impl ConfigError {
    /// Creates the report of the errors among the diagnostics.
    pub fn new(source: Source, diagnostics: Vec<Diagnostic>) -> ConfigError {
        ConfigError(Report::new(source, diagnostics, Severity::Error))
    }

    /// Returns the number of errors; at least one.
    pub fn count(&self) -> usize {
        self.0.diagnostics.len()
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.render("errors", f)
    }
}

impl Warnings {
    /// Creates the report of the warnings among the diagnostics.
    pub fn new(source: Source, diagnostics: Vec<Diagnostic>) -> Warnings {
        Warnings(Report::new(source, diagnostics, Severity::Warning))
    }

    /// Returns the number of warnings.
    pub fn count(&self) -> usize {
        self.0.diagnostics.len()
    }

    /// Formats each warning in one line, for a log: `FILE:LINE:COLUMN: KEY: message; remedy`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let Report { source, diagnostics } = &self.0;
        let lines = Lines::of(&source.text);
        diagnostics.iter().map(move |warning| {
            let place = lines.find(&warning.span);
            let Diagnostic { path, message, help, .. } = warning;
            let [path, message, help] = [path, message, help].map(|text| excerpt(text));
            format!("{}:{}:{}: {path}: {message}; {help}", source.file, place.line, place.column)
        })
    }

    /// Merges these with other warnings of the same file.
    #[must_use]
    pub fn and(self, others: Warnings) -> Warnings {
        let Report { source, mut diagnostics } = self.0;
        diagnostics.extend(others.0.diagnostics);
        Warnings::new(source, diagnostics)
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.render("warnings", f)
    }
}

impl Report {
    /// Selects the diagnostics of one severity.
    fn new(source: Source, mut diagnostics: Vec<Diagnostic>, severity: Severity) -> Report {
        diagnostics.retain(|diagnostic| diagnostic.severity == severity);
        diagnostics.sort_by_key(|diagnostic| (diagnostic.span.start, diagnostic.span.end));
        Report { source, diagnostics }
    }

    fn render(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = Lines::of(&self.source.text);
        for (n, diagnostic) in self.diagnostics.iter().enumerate() {
            if n > 0 {
                writeln!(f, "\n")?;
            }
            diagnostic.render(&self.source.file, &lines, f)?;
        }
        if self.diagnostics.len() > 1 {
            write!(f, "\n\n{}: {} {what}", self.source.file, self.diagnostics.len())?;
        }
        Ok(())
    }
}

impl Diagnostic {
    fn render(&self, file: &str, lines: &Lines<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = lines.find(&self.span);
        write!(f, "{file}:{}:{}: ", place.line, place.column)?;
        if self.severity == Severity::Warning {
            write!(f, "warning: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", excerpt(&self.path))?;
        }
        write!(f, "{}", excerpt(&self.message))?;
        let number = place.line.to_string();
        let gutter = " ".repeat(number.len());
        write!(f, "\n {gutter} |\n {number} | {}", place.excerpt)?;
        let (before, carets) = (" ".repeat(place.indent), "^".repeat(place.width));
        write!(f, "\n {gutter} | {before}{carets}")?;
        if !self.help.is_empty() {
            write!(f, "\n {gutter} = help: {}", excerpt(&self.help))?;
        }
        Ok(())
    }
}

/// The displayed form of a span.
struct ExcerptLocation {
    line: usize,
    column: usize,
    excerpt: String,
    /// Characters of the excerpt before the caret.
    indent: usize,
    /// Carets.
    width: usize,
}

/// A text with the start of each line, so that many locations are found in one pass.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    fn find(&self, span: &Range<usize>) -> ExcerptLocation {
        let text = self.text;
        let start = floor_char(text, span.start);
        let number = self.starts.partition_point(|line| *line <= start);
        let line_start = self.starts[number - 1];
        let line = text[line_start..].lines().next().unwrap_or("");
        let before = text[line_start..start].chars().count();
        let end = floor_char(text, span.end.min(line_start + line.len())).max(start);
        let width = text[start..end].chars().count().max(1);

        let skip = if before + width > EXCERPT { before.saturating_sub(EXCERPT / 3) } else { 0 };
        let mut excerpt: String = if skip > 0 { "...".into() } else { String::new() };
        let indent = before - skip + excerpt.len();
        // Control characters are replaced, as a terminal would interpret them.
        let printable = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        excerpt.extend(line.chars().skip(skip).take(EXCERPT).map(printable));
        if line.chars().count() > skip + EXCERPT {
            excerpt.push_str("...");
        }
        ExcerptLocation {
            line: number,
            column: before + 1,
            // The caret stays within the displayed part.
            width: width.min((skip + EXCERPT).saturating_sub(before)).max(1),
            excerpt,
            indent,
        }
    }
}

/// Returns the last character boundary at or before `at`.
fn floor_char(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_into_a_long_line_and_hides_control_characters() {
        let line = format!("x = \"{}\u{1b}[2J\" y = 7", "a".repeat(300));
        let text = format!("first\n{line}\n");
        let at = text.find('7').unwrap();
        let place = Lines::of(&text).find(&(at..at + 1));
        assert_eq!((place.line, place.column), (2, line.chars().count()));
        assert_eq!(place.excerpt.chars().nth(place.indent), Some('7'));
        assert!(place.excerpt.starts_with("...") && !place.excerpt.contains('\u{1b}'));
    }

    #[test]
    fn a_long_key_and_value_are_shown_in_part() {
        let long = "k".repeat(20 << 20);
        let source = Source { file: "a.toml".into(), text: format!("{long} = 1").into() };
        for severity in [Severity::Error, Severity::Warning] {
            let (path, message) = (long.clone(), format!("unknown key {long:?}"));
            let fault =
                Diagnostic { severity, span: 0..long.len(), path, message, help: long.clone() };
            let (faults, warnings) = (vec![fault.clone()], vec![fault]);
            let error = ConfigError::new(source.clone(), faults).to_string();
            let lines: Vec<_> = Warnings::new(source.clone(), warnings).lines().collect();
            assert!(error.len() < 16 << 10, "{} octets", error.len());
            assert!(lines.iter().all(|line| line.len() < 16 << 10));
            assert!(
                severity == Severity::Warning || error.contains("unknown key \"kkk"),
                "{error}"
            );
        }
    }

    #[test]
    fn survives_any_span() {
        let text = "a = \"\u{e9}\"\r\nb";
        for start in 0..=text.len() + 2 {
            for end in start..=text.len() + 2 {
                let place = Lines::of(text).find(&(start..end));
                assert!(place.line <= 2 && place.width >= 1);
            }
        }
    }
}

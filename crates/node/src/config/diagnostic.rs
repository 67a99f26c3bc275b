//! What is wrong with a configuration file, shown where it is wrong.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Octets of a source line shown around the fault: a line of a generated file may be endless.
const EXCERPT: usize = 100;

/// A configuration file's name and text, kept so that later checks can still point into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: Arc<str>,
}

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diagnostic {
    /// Octets of the text it is about.
    pub(super) span: Range<usize>,
    /// Key path, such as `stream["axis-1"].member[0].port`; empty for the file as a whole.
    pub(super) path: String,
    /// What is wrong, with the value.
    pub(super) message: String,
    /// The way out.
    pub(super) help: String,
}

/// Everything that is wrong with a configuration, in the order of the file.
///
/// Its `Display` is the whole report: file, line, column, key, value, the line with a caret, and
/// the way out, for each fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    source: Source,
    diagnostics: Vec<Diagnostic>,
}

impl ConfigError {
    pub(super) fn new(source: Source, mut diagnostics: Vec<Diagnostic>) -> ConfigError {
        diagnostics.sort_by_key(|fault| (fault.span.start, fault.span.end));
        ConfigError { source, diagnostics }
    }

    /// How many faults it reports; at least one.
    pub fn count(&self) -> usize {
        self.diagnostics.len()
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.diagnostics.iter().enumerate() {
            if n > 0 {
                writeln!(f, "\n")?;
            }
            fault.render(&self.source, f)?;
        }
        if self.diagnostics.len() > 1 {
            write!(f, "\n\n{}: {} errors", self.source.file, self.diagnostics.len())?;
        }
        Ok(())
    }
}

impl Diagnostic {
    fn render(&self, source: &Source, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = Place::find(&source.text, &self.span);
        write!(f, "{}:{}:{}: ", source.file, place.line, place.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}", self.message)?;
        let number = place.line.to_string();
        let gutter = " ".repeat(number.len());
        write!(f, "\n {gutter} |\n {number} | {}", place.excerpt)?;
        let (before, carets) = (" ".repeat(place.indent), "^".repeat(place.width));
        write!(f, "\n {gutter} | {before}{carets}")?;
        if !self.help.is_empty() {
            write!(f, "\n {gutter} = help: {}", self.help)?;
        }
        Ok(())
    }
}

/// A span as a human finds it.
struct Place {
    line: usize,
    column: usize,
    excerpt: String,
    /// Characters of the excerpt before the caret.
    indent: usize,
    /// Carets.
    width: usize,
}

impl Place {
    fn find(text: &str, span: &Range<usize>) -> Place {
        let start = floor_char(text, span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let before = text[line_start..start].chars().count();
        let end = floor_char(text, span.end.min(line_start + line.len())).max(start);
        let width = text[start..end].chars().count().max(1);

        let skip = if before + width > EXCERPT { before.saturating_sub(EXCERPT / 3) } else { 0 };
        let mut excerpt: String = if skip > 0 { "...".into() } else { String::new() };
        let indent = before - skip + excerpt.len();
        // What the terminal would obey rather than show must not reach it.
        let printable = |c: char| match c {
            '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        };
        excerpt.extend(line.chars().skip(skip).take(EXCERPT).map(printable));
        if line.chars().count() > skip + EXCERPT {
            excerpt.push_str("...");
        }
        Place {
            line: text[..line_start].matches('\n').count() + 1,
            column: before + 1,
            // A caret under what is not shown helps nobody.
            width: width.min((skip + EXCERPT).saturating_sub(before)).max(1),
            excerpt,
            indent,
        }
    }
}

/// The last character boundary at or before `at`.
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
        let place = Place::find(&text, &(at..at + 1));
        assert_eq!((place.line, place.column), (2, line.chars().count()));
        assert_eq!(place.excerpt.chars().nth(place.indent), Some('7'));
        assert!(place.excerpt.starts_with("...") && !place.excerpt.contains('\u{1b}'));
    }

    #[test]
    fn survives_any_span() {
        let text = "a = \"\u{e9}\"\r\nb";
        for start in 0..=text.len() + 2 {
            for end in start..=text.len() + 2 {
                let place = Place::find(text, &(start..end));
                assert!(place.line <= 2 && place.width >= 1);
            }
        }
    }
}

//! Plain-text tables for terminals.

use std::fmt;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A table with aligned columns; [`Display`](fmt::Display) writes it, line by line, without
/// trailing blanks.
#[derive(Debug, Clone)]
pub struct TextTable {
    headings: Vec<String>,
    aligns: Vec<Alignment>,
    rows: Vec<Vec<String>>,
    indent: usize,
    rule: bool,
}

impl TextTable {
    /// Creates a table with these headings; if all are empty, none is written.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Alignment)>) -> Self {
        let (headings, aligns) =
            columns.into_iter().map(|(name, align)| (printable(name), align)).unzip();
        Self { headings, aligns, rows: Vec::new(), indent: 0, rule: true }
    }

    /// Indents the table.
    #[must_use]
    pub fn indent(mut self, blanks: usize) -> Self {
        self.indent = blanks;
        self
    }

    /// Omits the line below the headings.
    #[must_use]
    pub fn without_rule(mut self) -> Self {
        self.rule = false;
        self
    }

    /// Adds a row. A row shorter than the headings is padded, a longer one is truncated.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(|cell| printable(cell.as_ref())).collect();
        row.resize(self.headings.len(), String::new());
        self.rows.push(row);
    }

    /// Returns whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table in at most `columns`, with at most `rows` rows. Long texts of the first column are
    /// truncated, then columns at the end are omitted; a line shows the number of omitted rows.
    #[must_use]
    pub(crate) fn fit(&self, columns: usize, rows: usize) -> String {
        let mut table = self.clone();
        let left_out = self.rows.len().saturating_sub(rows.max(1));
        if left_out > 0 {
            table.rows.truncate(self.rows.len() - left_out);
        }
        let taken = |table: &Self| table.widths().iter().map(|width| width + 2).sum::<usize>();
        const SHORTEST: usize = 24;
        let beyond = (taken(&table) - 2).saturating_sub(columns);
        let first = table.widths().first().copied().unwrap_or(0);
        let most = first.saturating_sub(beyond).max(SHORTEST);
        for cell in table.rows.iter_mut().filter_map(|row| row.first_mut()) {
            if width(cell) > most {
                *cell = format!("{}…", wrap(cell, most - 1)[0]);
            }
        }
        while table.headings.len() > 1 && taken(&table) - 2 > columns {
            table.headings.pop();
            table.aligns.pop();
            table.rows.iter_mut().for_each(|row| row.truncate(table.headings.len()));
        }
        let mut text = table.to_string();
        if left_out > 0 {
            text += &format!("… {}\n", crate::format::count(left_out as u64, "more row"));
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let column = |column: usize| {
            let cells = self.rows.iter().map(|row| width(&row[column]));
            cells.fold(width(&self.headings[column]), usize::max)
        };
        (0..self.headings.len()).map(column).collect()
    }

    pub(crate) fn headings(&self) -> &[String] {
        &self.headings
    }

    pub(crate) fn aligns(&self) -> &[Alignment] {
        &self.aligns
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn write_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        row: &[String],
        widths: &[usize],
    ) -> fmt::Result {
        let mut line = " ".repeat(self.indent);
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                line.push_str("  ");
            }
            let blanks = " ".repeat(widths[index] - width(cell));
            match self.aligns[index] {
                Alignment::Left => line.extend([cell.as_str(), &blanks]),
                Alignment::Right => line.extend([&blanks, cell.as_str()]),
            }
        }
        writeln!(f, "{}", line.trim_end())
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with_headings = self.headings.iter().any(|heading| !heading.is_empty());
        let widths = self.widths();
        if with_headings {
            self.write_row(f, &self.headings, &widths)?;
        }
        if with_headings && self.rule {
            let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            self.write_row(f, &rule, &widths)?;
        }
        self.rows.iter().try_for_each(|row| self.write_row(f, row, &widths))
    }
}

/// Splits a text into lines of at most `columns`, between words, and within longer words.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut taken = 0;
    for word in text.split(' ') {
        if taken > 0 && taken + 1 + width(word) > columns {
            lines.push(String::new());
            taken = 0;
        }
        let gap = if taken > 0 { " " } else { "" };
        for c in gap.chars().chain(word.chars()) {
            let room = width(c.encode_utf8(&mut [0; 4]));
            if taken > 0 && taken + room > columns {
                lines.push(String::new());
                taken = 0;
            }
            lines.last_mut().expect("there is a line").push(c);
            taken += room;
        }
    }
    lines
}

/// Returns the number of columns of a text on a terminal.
pub fn width(text: &str) -> usize {
    text.chars()
        .map(|c| match u32::from(c) {
            // Marks that combine with the previous letter.
            0x0300..=0x036f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
            // Scripts with wide letters, and pictographs.
            0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
            0xfe30..=0xfe6f | 0xff00..=0xff60 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
            _ => 1,
        })
        .sum()
}

/// Replaces control characters in `text`: names come from files and frames, and must not be able to move the
/// cursor or color the screen.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '·' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_for_all_letters() {
        let mut table = TextTable::new([("phase", Alignment::Left), ("p50", Alignment::Right)]);
        table.row(["both up", "12.3 µs"]);
        table.row(["gestört", "1.00 ms"]);
        table.row(["停止", "–"]);
        assert_eq!(
            table.to_string(),
            "phase        p50\n\
             ───────  ───────\n\
             both up  12.3 µs\n\
             gestört  1.00 ms\n\
             停止           –\n"
        );
    }

    #[test]
    fn without_headings_and_with_indent() {
        let mut table = TextTable::new([("", Alignment::Left), ("", Alignment::Left)]).indent(2);
        assert!(table.is_empty());
        table.row(["kernel", "6.1"]);
        table.row(["load"]);
        assert_eq!(table.to_string(), "  kernel  6.1\n  load\n");
    }

    #[test]
    fn lines_are_cut_between_words_and_within_long_ones() {
        assert_eq!(wrap("4,096 streams of 64 octets", 14), ["4,096 streams", "of 64 octets"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("停止停", 4), ["停止", "停"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn headings_without_a_rule() {
        let mut table =
            TextTable::new([("PORT", Alignment::Left), ("INPUT", Alignment::Right)]).without_rule();
        table.row(["path1", "1,000"]);
        assert_eq!(table.to_string(), "PORT   INPUT\npath1  1,000\n");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let mut table = TextTable::new([("a", Alignment::Left)]);
        table.row(["x\u{1b}[31m\n\u{9b}y"]);
        let text = table.to_string();
        assert!(text.ends_with("x·[31m··y\n"), "{text:?}");
    }
}

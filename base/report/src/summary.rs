//! A result on one screen: the most important figures, a summary of the checks, and the verdict.

use std::fmt::Write;

use crate::figure::{Distribution, Figure};
use crate::format;
use crate::number::Number;
use crate::result::{Check, Outcome};
use crate::table::{Alignment, TextTable, printable};
use crate::text;
use crate::view::{self, Group};

/// The size of a screen, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenSize {
    /// Lines.
    pub lines: usize,
    /// Columns.
    pub columns: usize,
}

/// The size for an output that is not a terminal.
impl Default for ScreenSize {
    fn default() -> Self {
        Self { lines: 40, columns: 100 }
    }
}

/// Maximum number of shown checks if none failed.
const CHECKS: usize = 3;

/// With fewer lines, checks are omitted if none failed: the tables need the room.
const LINES_WITH_CHECKS: usize = 18;

/// Maximum number of shown failed checks, notes and causes.
const AT_MOST: usize = 6;

/// Renders the result on a screen of this size. `shows` are names or prefixes of names of figures, most
/// important first: each is truncated if there is no room.
pub fn render(outcome: &Outcome, shows: &[&str], size: ScreenSize, colors: bool) -> String {
    let ScreenSize { lines, columns } = size;
    let mut end = String::new();
    for note in outcome.notes.iter().take(AT_MOST) {
        // Writing to a String cannot fail.
        let _ = writeln!(end, "{}", clip(&format!("note: {}", printable(note)), columns));
    }
    for cause in outcome.causes.iter().take(AT_MOST) {
        let text = format!("{}: {}", printable(&cause.name), printable(&cause.statement));
        crate::table::wrap(&text, columns).iter().for_each(|line| end += &format!("{line}\n"));
    }
    if !end.is_empty() {
        end.push('\n');
    }
    if lines >= LINES_WITH_CHECKS || !outcome.ok() {
        end += &checks(&outcome.checks, columns);
    }
    end += &text::verdict_line(outcome, colors);

    let mut room = lines.saturating_sub(end.lines().count());
    let mut out = String::new();
    for (name, table) in shows.iter().flat_map(|shown| tables(outcome, shown)) {
        // Name, heading, rule and remark of the table, and the empty line below.
        if let Some(rows) = room.checked_sub(5).filter(|rows| *rows > 0) {
            let name = name.map_or(String::new(), |name| clip(&printable(name), columns) + "\n");
            let text = format!("{name}{}\n", table.fit(columns, rows));
            room = room.saturating_sub(text.lines().count());
            out += &text;
        }
    }
    out + &end
}

/// Returns the figures whose names start with `shown` as tables, with their names unless the table contains
/// them. Others and empty ones are omitted.
fn tables<'a>(outcome: &'a Outcome, shown: &str) -> Vec<(Option<&'a str>, TextTable)> {
    let figures = outcome
        .figures
        .iter()
        .filter(|(name, figure)| name.starts_with(shown) && view::empty_reason(figure).is_none());
    let mut tables = Vec::new();
    for group in view::groups(figures) {
        let (name, table) = match group {
            Group::Measurements(list) => (None, view::measurement_table(&list)),
            Group::Ratios(list) => (None, view::ratio_table(&list)),
            Group::Single(name, figure) => {
                let table = match figure {
                    Figure::Distribution(distribution) => delays(distribution),
                    Figure::Sweep(sweep) => view::sweep_table(sweep),
                    Figure::Counters(counters) => view::counter_table(counters),
                    _ => continue,
                };
                (Some(name), table)
            }
        };
        tables.push((name, table));
    }
    tables
}

/// Returns losses, and delays in four columns.
fn delays(figure: &Distribution) -> TextTable {
    let numbers = ["frames", "lost", "median", "p99", "max"].map(|name| (name, Alignment::Right));
    let mut table = TextTable::new([("", Alignment::Left)].into_iter().chain(numbers));
    for series in &figure.series {
        let count = |value: u64| format::quantity(value.into(), "");
        let delay = |value: Option<u64>| {
            value.map_or("–".into(), |value| format::quantity(Number::from(value), &figure.unit))
        };
        let (frames, lost) = (count(series.count), count(series.lost));
        let [median, p99, max] = [series.p50, series.p99, series.max].map(delay);
        table.row([&series.name, &frames, &lost, &median, &p99, &max]);
    }
    table
}

/// Returns the failed checks, or the first ones, and the number of further ones.
fn checks(all: &[Check], columns: usize) -> String {
    let failed: Vec<Check> = all.iter().filter(|check| !check.ok()).cloned().collect();
    let (shown, most) = if failed.is_empty() { (all, CHECKS) } else { (&failed[..], AT_MOST) };
    if shown.is_empty() {
        return String::new();
    }
    format!("{}\n", view::check_table(shown).fit(columns, most))
}

/// Truncates the text to the columns of a screen.
fn clip(text: &str, columns: usize) -> String {
    let mut lines = crate::table::wrap(text, columns - 2);
    let is_longer = lines.len() > 1;
    let first = lines.swap_remove(0);
    if is_longer { format!("{first} …") } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counters, Run, sample};

    /// Renders the result, and checks that it has this size.
    fn fits(outcome: &Outcome, shows: &[&str], size: ScreenSize) -> String {
        let text = render(outcome, shows, size, false);
        assert!(text.lines().count() <= size.lines, "{} lines:\n{text}", text.lines().count());
        let widest = text.lines().map(crate::table::width).max().unwrap_or(0);
        assert!(widest <= size.columns, "{widest} columns:\n{text}");
        text
    }

    #[test]
    fn losses_by_phase_and_the_verdict() {
        let size = ScreenSize { lines: 24, columns: 80 };
        let text = fits(&sample::scenario(), &["delay by phase"], size);
        let down = text.lines().find(|line| line.starts_with("both down ")).expect("the phase");
        assert!(down.contains(" 2,000 "), "{down}");
        assert!(text.contains("… 1 more row"), "{text}");
        assert!(text.ends_with("PASS link-failure: all 4 checks hold, in 12.3 s\n"), "{text}");
        assert!(!text.contains("counters"), "{text}");
    }

    #[test]
    fn any_result_fits_on_a_screen() {
        let mut outcome = Run::begin("x").finish();
        let mut wide = Counters::new(
            (0..30).map(|column| crate::Column::from(format!("column {column}").as_str())),
        );
        for _ in 0..200 {
            wide.row((0..30).map(|cell| crate::Cell::from(cell * 1_000_000_u64)));
        }
        outcome.figure("wide", wide);
        outcome.figure("wide too", outcome.figures["wide"].clone());
        for check in 0..50 {
            outcome.check(Check::eq(
                format!("{check} {}", "long ".repeat(40)),
                1_u64,
                0_u64,
                "frames",
            ));
            outcome.note("remark ".repeat(60));
        }
        for (lines, columns) in [(24, 80), (24, 100), (30, 132), (60, 80), (40, 100)] {
            let text = fits(&outcome, &["wide"], ScreenSize { lines, columns });
            assert!(text.contains("FAIL x: 50 of 50 checks failed"), "{text}");
            assert!(text.contains("… 44 more rows"), "{text}");
        }
    }

    #[test]
    fn failed_checks_are_shown_first() {
        let mut outcome = sample::scenario();
        outcome.check(Check::eq("the last one", 7_u64, 0_u64, "frames"));
        let text = render(&outcome, &[], ScreenSize::default(), false);
        assert!(text.contains("the last one") && text.contains("FAILED"), "{text}");
        assert!(!text.contains("delivered"), "{text}");
    }
}

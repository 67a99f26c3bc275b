//! A result for the terminal.

use std::fmt::Write;

use crate::figure::Figure;
use crate::format;
use crate::result::Outcome;
use crate::table::{Alignment, TextTable, printable};
use crate::view::{self, Group};

/// Renders the whole result as text, with or without ANSI colors: pictures, figures, conditions, notes, and
/// finally the checks and the verdict.
pub fn render(outcome: &Outcome, colors: bool) -> String {
    let mut out = String::new();
    let mut part = |text: &str| {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(text);
    };
    let mut groups = view::groups(&outcome.figures);
    // Time series that a page shows first are only counted here.
    let is_series = |group: &&Group<'_>| matches!(group, Group::Single(_, Figure::TimeSeries(_)));
    let leading = groups.iter().take_while(is_series).count();
    groups.rotate_left(leading);
    for group in groups {
        part(&render_group(&group, colors));
    }

    let mut conditions = TextTable::new([("", Alignment::Left), ("", Alignment::Left)]).indent(2);
    for (label, text) in outcome.conditions.lines() {
        conditions.row([label, &text]);
    }
    if conditions.is_empty() {
        conditions.row([view::UNKNOWN_CONDITIONS, ""]);
    }
    part(&format!("conditions\n{conditions}"));
    if !outcome.notes.is_empty() {
        let notes: String =
            outcome.notes.iter().map(|note| format!("note: {}\n", printable(note))).collect();
        part(&notes);
    }
    if !outcome.checks.is_empty() {
        part(&view::check_table(&outcome.checks).to_string());
    }
    if !outcome.causes.is_empty() {
        let causes = outcome
            .causes
            .iter()
            .map(|cause| format!("{}: {}\n", printable(&cause.name), printable(&cause.statement)));
        part(&causes.collect::<String>());
    }
    part(&verdict_line(outcome, colors));
    out
}

pub(crate) fn verdict_line(outcome: &Outcome, colors: bool) -> String {
    let word = view::verdict_word(outcome);
    let sgr = if outcome.ok() { 32 } else { 31 };
    let word = if colors { format!("\x1b[1;{sgr}m{word}\x1b[0m") } else { word.into() };
    let took = format::duration_ns(outcome.duration_s * 1e9);
    format!("{word} {}: {}, in {took}\n", printable(&outcome.name), view::verdict(outcome))
}

fn render_group(group: &Group<'_>, colors: bool) -> String {
    let (name, figure) = match group {
        Group::Measurements(list) => return view::measurement_table(list).to_string(),
        Group::Ratios(list) => return view::ratio_table(list).to_string(),
        Group::Single(name, figure) => (printable(name), figure),
    };
    if let Some(reason) = view::empty_reason(figure) {
        return format!("{name}\n{reason}\n");
    }
    let mut text = String::new();
    let _ = match figure {
        Figure::Topology(topology) => write!(text, "{}", topology.text(colors)),
        Figure::Distribution(distribution) => {
            write!(text, "{name}\n{}", view::distribution_table(distribution))
        }
        Figure::Sweep(sweep) => {
            let remark = view::sweep_remark(sweep);
            let end = if remark.is_empty() { "" } else { "\n" };
            write!(text, "{name}\n{}{remark}{end}", view::sweep_table(sweep))
        }
        Figure::Counters(counters) => write!(text, "{name}\n{}", view::counter_table(counters)),
        Figure::TimeSeries(series) => {
            writeln!(text, "{name}: {}", view::time_series_remark(series))
        }
        // Included in the groups above.
        Figure::Measurement(_) | Figure::Ratio(_) => Ok(()),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_verdict_ends_the_text() {
        let mut outcome = sample::scenario();
        assert!(render(&outcome, false).lines().last().unwrap().starts_with("PASS link-failure:"));
        outcome.check(crate::Check::eq("lost", 7_u64, 0_u64, "frames"));
        let text = render(&outcome, true);
        assert!(text.contains("\x1b[1;31mFAIL\x1b[0m") && text.contains("FAILED"), "{text}");
    }

    #[test]
    fn all_parts_are_shown() {
        let mut outcome = sample::scenario();
        outcome.note("a \x1b[31mremark");
        outcome.cause("empty capture", "in\x1b.pcap holds no packet");
        let text = render(&outcome, false);
        let cause = "empty capture: in·.pcap holds no packet";
        for part in ["pc1", "p99.9", "both down", "steal", "note: a ·[31mremark", "passed", cause]
        {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }
}

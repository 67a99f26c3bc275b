//! A result as one HTML file that needs nothing else: no script, no font, no network.

use crate::figure::Figure;
use crate::format;
use crate::plot;
use crate::result::{Cause, Outcome};
use crate::svg::escape;
use crate::table::{Align, TextTable};
use crate::view::{self, Group};

const STYLE: &str = include_str!("report.css");

/// The report of `outcome`. It follows the reader's choice of light or dark, and prints.
pub fn render(outcome: &Outcome) -> String {
    let name = escape(&outcome.name);
    let word = view::verdict_word(outcome);
    let class = if outcome.ok() { "pass" } else { "fail" };
    let verdict = escape(&view::verdict(outcome));
    let started = escape(&outcome.started);
    let took = format::duration_ns(outcome.duration_s * 1e9);
    let mut body = format!(
        "<header>\n<h1>{name} <span class=\"verdict {class}\">{word}</span></h1>\n\
         <p>{verdict} · <time datetime=\"{started}\">{started}</time> · {took}</p>\n</header>\n"
    );
    if !outcome.checks.is_empty() {
        body += &section("Checks", &table(&view::check_table(&outcome.checks), "checks"));
    }
    if !outcome.causes.is_empty() {
        let cause = |cause: &Cause| {
            format!("<li>{}: {}</li>\n", escape(&cause.name), escape(&cause.statement))
        };
        let causes: String = outcome.causes.iter().map(cause).collect();
        body += &section("Causes", &format!("<ul>\n{causes}</ul>\n"));
    }
    body += &figures(&view::groups(&outcome.figures));
    body += &section("Conditions", &conditions(outcome));
    if !outcome.notes.is_empty() {
        let notes: String =
            outcome.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
        body += &section("Notes", &format!("<ul>\n{notes}</ul>\n"));
    }
    // The policy makes the browser hold what this module promises: nothing is loaded.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{name}: {word}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Distributions of one thing under several conditions stand beside each other, where there is
/// room.
fn figures(groups: &[Group<'_>]) -> String {
    let beside = |a: &Group<'_>, b: &Group<'_>| {
        distribution_of(a).is_some_and(|what| distribution_of(b) == Some(what))
    };
    let row = |groups: &[Group<'_>]| {
        let sections: String = groups.iter().map(render_group).collect();
        match groups {
            [_] => sections,
            _ => format!("<div class=\"beside\">\n{sections}</div>\n"),
        }
    };
    groups.chunk_by(beside).map(row).collect()
}

/// What a distribution is of: its name up to the last condition.
fn distribution_of<'a>(group: &Group<'a>) -> Option<&'a str> {
    match group {
        Group::Single(name, Figure::Distribution(_)) => Some(name.rsplit_once(", ")?.0),
        _ => None,
    }
}

fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(title))
}

fn figure(svg: &str) -> String {
    format!("<figure class=\"plot\">\n{svg}</figure>\n")
}

fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", escape(text))
}

fn render_group(group: &Group<'_>) -> String {
    let (name, single) = match group {
        Group::Measurements(list) => {
            return section("Measurements", &table(&view::measurement_table(list), ""));
        }
        Group::Ratios(list) => {
            let chart = figure(&plot::ratios(list, "Measurements against their limits"));
            let numbers = table(&view::ratio_table(list), "");
            return section("Against the limit", &(chart + &numbers));
        }
        Group::Single(name, single) => (*name, *single),
    };
    let content = match single {
        Figure::Topology(topology) => {
            format!("<figure>\n{}</figure>\n", topology.svg())
        }
        Figure::TimeSeries(series) => {
            figure(&plot::time_series(series, name)) + &remark(&view::time_series_remark(series))
        }
        Figure::Distribution(distribution) => {
            figure(&plot::distribution(distribution, name))
                + &table(&view::distribution_table(distribution), "")
                + &remark(&view::distribution_remark(distribution))
        }
        Figure::Counters(counters) => table(&view::counter_table(counters), ""),
        // In the groups above.
        Figure::Measurement(_) | Figure::Ratio(_) => return String::new(),
    };
    section(name, &content)
}

fn conditions(outcome: &Outcome) -> String {
    let line = |(label, text): (&str, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(label), escape(&text))
    };
    let lines: String = outcome.conditions.lines().into_iter().map(line).collect();
    format!("<dl>\n{lines}</dl>\n")
}

fn table(table: &TextTable, class: &str) -> String {
    let cell = |tag: &str, index: usize, text: &str| {
        let align = match table.aligns()[index] {
            Align::Left => "",
            Align::Right => " class=\"number\"",
        };
        format!("<{tag}{align}>{}</{tag}>", escape(text))
    };
    let row = |tag: &str, cells: &[String]| -> String {
        let cells: String =
            cells.iter().enumerate().map(|(index, text)| cell(tag, index, text)).collect();
        let failed = cells.ends_with(">FAILED</td>");
        let class = if failed && class == "checks" { " class=\"failed\"" } else { "" };
        format!("<tr{class}>{cells}</tr>\n")
    };
    let head = row("th", table.headings());
    let body: String = table.rows().iter().map(|cells| row("td", cells)).collect();
    format!(
        "<div class=\"scroll\"><table class=\"{class}\">\n<thead>\n{head}</thead>\n\
         <tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Counters, sample};

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        let html = render(&sample::scenario());
        let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!without_namespace.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_cannot_bring_markup() {
        let evil = "<img src=x onerror=alert(1)>";
        let mut outcome = sample::scenario();
        outcome.name = evil.into();
        outcome.check(Check::eq(evil, 0_u64, 0_u64, evil));
        let mut counters = Counters::new([evil]);
        counters.row([evil]);
        outcome.figure(evil, counters);
        outcome.conditions.driver = Some(evil.into());
        outcome.note(evil);
        let html = render(&outcome);
        assert!(!html.contains("<img"), "escaped everywhere");
        assert!(html.matches("&lt;img").count() >= 8);
    }

    #[test]
    fn distributions_of_one_thing_stand_beside_each_other() {
        let mut outcome = sample::scenario();
        outcome.figures.retain(|_, figure| !matches!(figure, Figure::Distribution(_)));
        for name in ["delay", "delay, 1 ms, idle", "delay, 1 ms, loaded", "delay, 5 ms, idle"] {
            outcome.figure(name, crate::Recorder::new().figure());
        }
        let html = render(&outcome);
        assert_eq!(html.matches("<div class=\"beside\">").count(), 1);
        let (_, beside) = html.split_once("<div class=\"beside\">").unwrap();
        let (beside, _) = beside.split_once("</div>\n<section>").unwrap();
        assert!(beside.contains("1 ms, idle") && beside.contains("1 ms, loaded"), "{beside}");
        assert!(!beside.contains("5 ms"), "{beside}");
    }

    #[test]
    fn a_failed_check_is_marked() {
        let mut outcome = sample::scenario();
        assert!(!render(&outcome).contains("class=\"failed\""));
        outcome.check(Check::eq("lost", 1_u64, 0_u64, "frames"));
        let html = render(&outcome);
        assert!(html.contains("class=\"failed\"") && html.contains("verdict fail"));
    }
}

//! A result as one self-contained HTML file: no script, no font, no network access.

use crate::figure::{Figure, Phase, TimeSeries};
use crate::format;
use crate::origin::{Input, Origin};
use crate::plot::{self, Layout};
use crate::result::{Cause, Outcome};
use crate::svg::escape;
use crate::table::{Alignment, TextTable};
use crate::view::{self, Group};

const STYLE: &str = include_str!("report.css");

/// Renders the report of `outcome`. It supports light and dark mode and printing.
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
    let groups = view::groups(&outcome.figures);
    // A result that starts with a picture shows it first.
    let pictures = groups.iter().take_while(|group| is_picture(group)).take(1).count();
    let (first, rest) = groups.split_at(pictures);
    body += &figures(first, !outcome.causes.is_empty());
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
    body += &figures(rest, !outcome.causes.is_empty());
    body += &section("Conditions of the measurement", &conditions(outcome));
    if !outcome.notes.is_empty() {
        let notes: String =
            outcome.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
        body += &section("Notes", &format!("<ul>\n{notes}</ul>\n"));
    }
    if let Some(origin) = &outcome.origin {
        body += &section("Origin", &self::origin(origin));
    }
    let style = style();
    // The policy enforces in the browser that nothing is loaded.
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{name}: {word}</title>\n<style>\n{style}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn is_picture(group: &Group<'_>) -> bool {
    matches!(group, Group::Single(_, Figure::Topology(_) | Figure::TimeSeries(_)))
}

/// Distributions of one subject under several conditions are shown side by side if there is room.
fn figures(groups: &[Group<'_>], has_causes: bool) -> String {
    let beside = |a: &Group<'_>, b: &Group<'_>| {
        distribution_of(a).is_some_and(|what| distribution_of(b) == Some(what))
    };
    let row = |groups: &[Group<'_>]| {
        let sections: String = groups.iter().map(|group| render_group(group, has_causes)).collect();
        match groups {
            [_] => sections,
            _ => format!("<div class=\"beside\">\n{sections}</div>\n"),
        }
    };
    groups.chunk_by(beside).map(row).collect()
}

/// Returns the subject of a distribution: its name up to the last condition.
fn distribution_of<'a>(group: &Group<'a>) -> Option<&'a str> {
    match group {
        Group::Single(name, Figure::Distribution(_)) => Some(name.rsplit_once(", ")?.0),
        _ => None,
    }
}

fn section(title: &str, content: &str) -> String {
    format!("<section>\n<h2>{}</h2>\n{content}</section>\n", escape(title))
}

/// Renders a picture in each layout; the page shows the one that fits.
fn picture(class: &str, draw: impl Fn(Layout) -> String, legend: &str) -> String {
    let layout = |layout: Layout| {
        let class = layout.class();
        format!("<div class=\"{class}\">\n{}</div>\n", draw(layout))
    };
    let layouts: String = Layout::ALL.into_iter().map(layout).collect();
    format!("<figure class=\"{class}\">\n{layouts}{legend}</figure>\n")
}

/// Renders the names of phases that have numbers in a plot.
fn phases(series: &TimeSeries) -> String {
    let fits = |layout| plot::phase_names_fit(series, layout);
    let class = match (fits(Layout::Wide), fits(Layout::Narrow)) {
        _ if series.phases.is_empty() => return String::new(),
        (true, true) => return String::new(),
        (true, false) => "legend narrow",
        (false, _) => "legend",
    };
    let phase = |(index, phase): (usize, &Phase)| {
        format!("<li>{} {}</li>\n", index + 1, escape(&phase.name))
    };
    let phases: String = series.phases.iter().enumerate().map(phase).collect();
    format!("<ul class=\"{class}\">\n{phases}</ul>\n")
}

fn remark(text: &str) -> String {
    format!("<p class=\"remark\">{}</p>\n", escape(text))
}

fn render_group(group: &Group<'_>, has_causes: bool) -> String {
    let (name, single) = match group {
        Group::Measurements(list) => {
            return section("Measurements", &table(&view::measurement_table(list), ""));
        }
        Group::Ratios(list) => {
            let draw = |layout| plot::ratios(list, "Ratios of values to their limits", layout);
            let numbers = table(&view::ratio_table(list), "");
            return section("Values and their limits", &(picture("plot", draw, "") + &numbers));
        }
        Group::Single(name, single) => (*name, *single),
    };
    if let Some(reason) = view::empty_reason(single) {
        let more = if has_causes { " See Causes." } else { "" };
        return section(name, &format!("<p class=\"empty\">{}{more}</p>\n", escape(&reason)));
    }
    let content = match single {
        Figure::Topology(topology) => {
            picture("network", |layout| topology.svg(layout), &topology.legend())
        }
        Figure::TimeSeries(series) => {
            let draw = |layout| plot::time_series(series, name, layout);
            picture("plot", draw, &(plot::time_series_legend(series) + &phases(series)))
                + &remark(&view::time_series_remark(series))
        }
        Figure::Distribution(distribution) => {
            let draw = |layout| plot::distribution(distribution, name, layout);
            picture("plot", draw, &plot::distribution_legend(distribution))
                + &table(&view::distribution_table(distribution), "")
                + &remark(&view::distribution_remark(distribution))
        }
        Figure::Sweep(sweep) => {
            let draw = |layout| plot::sweep(sweep, name, layout);
            let remark = match view::sweep_remark(sweep) {
                text if text.is_empty() => text,
                text => remark(&text),
            };
            picture("plot", draw, &plot::sweep_legend(sweep))
                + &table(&view::sweep_table(sweep), "")
                + &remark
        }
        Figure::Counters(counters) => table(&view::counter_table(counters), ""),
        // Included in the groups above.
        Figure::Measurement(_) | Figure::Ratio(_) => return String::new(),
    };
    section(name, &content)
}

fn definitions(lines: Vec<(&'static str, String)>) -> String {
    let line = |(label, text): (&str, String)| {
        format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(label), escape(&text))
    };
    let lines: String = lines.into_iter().map(line).collect();
    format!("<dl>\n{lines}</dl>\n")
}

fn conditions(outcome: &Outcome) -> String {
    let lines = outcome.conditions.lines();
    if lines.is_empty() {
        return format!("<p>{}</p>\n", escape(view::UNKNOWN_CONDITIONS));
    }
    definitions(lines)
}

fn origin(origin: &Origin) -> String {
    let command = format!("<pre>{}</pre>\n", escape(&origin.command_line()));
    let input = |input: &Input| {
        format!("<li>{}: {}</li>\n", escape(&input.name), escape(&view::input_content(input)))
    };
    let inputs: String = origin.inputs.iter().map(input).collect();
    let inputs = match inputs.as_str() {
        "" => inputs,
        inputs => format!("<h3>Inputs</h3>\n<ul class=\"inputs\">\n{inputs}</ul>\n"),
    };
    command + &definitions(origin.lines()) + &inputs
}

/// Renders a table; if it does not fit, the page shows each row as a block of labels and values.
fn table(table: &TextTable, class: &str) -> String {
    let align = |index: usize| match table.aligns()[index] {
        Alignment::Left => "",
        Alignment::Right => " class=\"number\"",
    };
    let headings = table.headings();
    let heading =
        |(index, text): (usize, &String)| format!("<th{}>{}</th>", align(index), escape(text));
    let cell = |(index, text): (usize, &String)| {
        let label = match headings[index].as_str() {
            "" => String::new(),
            label => format!(" data-label=\"{}\"", escape(label)),
        };
        format!("<td{}{label}>{}</td>", align(index), escape(text))
    };
    let row = |cells: &Vec<String>| {
        let failed = class == "checks" && cells.last().is_some_and(|last| last == "FAILED");
        let class = if failed { " class=\"failed\"" } else { "" };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr{class}>{cells}</tr>\n")
    };
    let head: String = headings.iter().enumerate().map(heading).collect();
    let body: String = table.rows().iter().map(row).collect();
    let columns = match headings.len() {
        ..=3 => "few",
        4..=6 => "some",
        _ => "many",
    };
    format!(
        "<div class=\"table\"><table class=\"{}\">\n<thead>\n<tr>{head}</tr>\n</thead>\n\
         <tbody>\n{body}</tbody>\n</table></div>\n",
        [class, columns].join(" ").trim_start(),
    )
}

/// Returns the style, with the rules for tables shown as blocks for each width at which that starts.
fn style() -> String {
    let blocks = |columns: &str, width: &str| {
        include_str!("blocks.css").replace("COLUMNS", columns).replace("WIDTH", width)
    };
    format!("{STYLE}{}{}", blocks("some", "560px"), blocks("many", "900px"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Counters, sample};

    #[test]
    fn nothing_is_loaded() {
        let html = render(&sample::scenario());
        let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "href=", "@import", "url(", "<script"] {
            assert!(!without_namespace.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_are_escaped() {
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
    fn distributions_of_one_subject_are_side_by_side() {
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
    fn a_figure_without_values_shows_the_reason() {
        let mut outcome = sample::scenario();
        outcome.figures.clear();
        outcome.figure("over time", crate::TimeSeries::new("ns"));
        outcome.figure("load", crate::TimeSeries::continuous("%"));
        outcome.figure("table", Counters::new(["node"]));
        outcome.figure("network", crate::Topology::default());
        let mut recorder = crate::Recorder::new();
        let cut = recorder.phase("cut");
        recorder.lose(cut, 7);
        outcome.figure("delay", recorder.figure());
        let html = render(&outcome);
        for reason in [
            "No delay: no frame was measured.",
            "No value was recorded.",
            "No entry was recorded.",
            "The network has no node.",
            "No delay: 7 frames lost, and none arrived.",
        ] {
            assert!(html.contains(reason), "{reason}");
            assert!(crate::text::render(&outcome, false).contains(reason), "{reason}");
        }
        assert!(!html.contains("<svg") && !html.contains("See Causes"));
        outcome.cause("empty capture", "in.pcap holds no packet");
        assert!(render(&outcome).contains("arrived. See Causes."));
    }

    #[test]
    fn origin_and_unknown_conditions_are_shown() {
        let run = crate::Run::analysis("x");
        run.inputs().add(Input::of_file("<in>.pcap", b"packets"));
        run.inputs().add(Input::interface("eth0"));
        run.inputs().add(Input::secret("probe.key"));
        let mut outcome = run.finish();
        outcome.seed(77);
        let html = render(&outcome);
        let hash = Input::of_file("", b"packets").sha256.unwrap();
        for shown in [
            view::UNKNOWN_CONDITIONS,
            &format!("&lt;in&gt;.pcap: 7 octets, SHA-256 {hash}"),
            "eth0: interface, captured live",
            "probe.key: key, not hashed",
            "<dd>77</dd>",
            "<dt>analyzed on</dt>",
            env!("CARGO_PKG_VERSION"),
        ] {
            assert!(html.contains(shown), "{shown} is not in {html}");
        }
        assert!(crate::text::render(&outcome, false).contains(view::UNKNOWN_CONDITIONS));
        let measured = render(&sample::scenario());
        assert!(!measured.contains(view::UNKNOWN_CONDITIONS) && !measured.contains("analyzed on"));
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

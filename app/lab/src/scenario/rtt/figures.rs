//! Checks and figures of the round-trip scenarios.

use onbeat_report::figure::DistributionSeries;
use onbeat_report::format::count;
use onbeat_report::{
    Cell, Check, Column, Counters, Distribution, Loss, Measurement, Recorder, TimeSeries,
};

use super::Load;
use super::case::RttCase;
use super::cpu_layout::CpuLayout;
use super::row::{REDIRECT, Row};
use super::schedule::Schedule;
use crate::load::UdpSpec;
use crate::scenario::options::FrameOptions;
use crate::scenario::stage::Stage;

/// A figure of the paper: its title, and its rows with their loads.
type PaperFigure = (&'static str, &'static [(&'static str, Load)]);

const PAPER: [PaperFigure; 3] = [
    (
        "figure 7: user space at normal and real-time priority",
        &[
            ("packet", Load::Idle),
            ("packet", Load::Stress),
            ("packet, real-time", Load::Idle),
            ("packet, real-time", Load::Stress),
        ],
    ),
    (
        "figure 8: XDP and user space on an idle and a loaded CPU",
        &[
            ("XDP", Load::Idle),
            ("XDP", Load::Stress),
            ("packet, real-time", Load::Idle),
            ("packet, real-time", Load::Stress),
        ],
    ),
    (
        "figure 9: XDP under background traffic",
        &[
            ("XDP", Load::Idle),
            ("XDP", Load::Background),
            ("XDP, threaded NAPI", Load::Background),
            ("XDP, threaded NAPI, real-time", Load::Background),
        ],
    ),
];

pub(super) fn fill(
    stage: &mut Stage<'_>,
    frames: &FrameOptions,
    rows: &[(Row, Option<String>)],
    cases: &[RttCase],
    schedule: &Schedule,
    place: &CpuLayout,
) {
    let loads = Load::ALL.into_iter().filter(|load| cases.iter().any(|case| case.load == *load));
    let loads: Vec<Load> = loads.collect();
    for load in &loads {
        checks(stage, *load, &of(cases, *load).collect::<Vec<_>>());
    }
    stage.figure("rows", states(rows));
    if loads.len() == Load::ALL.len() {
        for (title, curves) in PAPER {
            stage.figure(format!("round trip as in the paper, {title}"), paper(cases, curves));
        }
    }
    distributions(stage, "round trip", &loads, cases, |case| &case.actual);
    added(stage, &loads, cases);
    stage.figure("probes", probes(cases));
    let from_due = "round trip from the due time of a probe";
    distributions(stage, from_due, &loads, cases, |case| &case.intended);
    for load in &loads {
        let name = format!("round trip over time, {}", load.name());
        stage.figure(name, over_time(of(cases, *load)));
    }
    notes(stage, frames, &loads, schedule, place);
}

fn of(cases: &[RttCase], load: Load) -> impl Iterator<Item = &RttCase> {
    cases.iter().filter(move |case| case.load == load)
}

/// Checks that hold on any machine. Background traffic may exceed the capacity: lost probes are then
/// reported, and no failure.
fn checks(stage: &mut Stage<'_>, load: Load, cases: &[&RttCase]) {
    let sum = |count: fn(&RttCase) -> u64| cases.iter().map(|case| count(case)).sum::<u64>();
    let mut eq = |name: &str, value: u64| {
        let name = format!("{}: {name}", load.name());
        stage.check(Check::eq(name, value, 0_u64, "probes"));
    };
    if load != Load::Background {
        eq("lost", sum(|case| case.lost));
    }
    eq("duplicated", sum(|case| case.duplicated));
    eq("changed in transit (octets, VLAN tag, R-TAG not removed)", sum(|case| case.changed));
    let fewest = cases.iter().map(|case| case.sent - case.lost).min().unwrap_or(0);
    let name = format!("{}: returned probes, minimum of all rows", load.name());
    stage.check(Check::min(name, fewest, 1_u64, "probes"));
}

fn states(rows: &[(Row, Option<String>)]) -> Counters {
    let mut table = Counters::new(["row", "description", "state"]);
    for (row, why_not) in rows {
        let state = why_not.as_ref().map_or("measured".into(), |why| format!("unavailable: {why}"));
        table.row([row.name.into(), row.summary.into(), state]);
    }
    table
}

/// Series of several loads in one figure; unavailable rows are left out.
fn paper(cases: &[RttCase], curves: &[(&str, Load)]) -> Distribution {
    let mut figure = Recorder::new().figure();
    figure.series = curves
        .iter()
        .filter_map(|(row, load)| {
            let case = of(cases, *load).find(|case| case.row.name == *row)?;
            let series = case.actual.figure().series.pop()?;
            Some(DistributionSeries { name: format!("{row}, {}", load.name()), ..series })
        })
        .collect();
    figure
}

fn distributions(
    stage: &mut Stage<'_>,
    what: &str,
    loads: &[Load],
    cases: &[RttCase],
    recorder: fn(&RttCase) -> &Recorder,
) {
    for load in loads {
        let mut all = Recorder::new();
        of(cases, *load).for_each(|case| all.merge(recorder(case)));
        stage.figure(format!("{what}, {}", load.name()), all.figure());
    }
}

/// Adds the differences to the reference.
fn added(stage: &mut Stage<'_>, loads: &[Load], cases: &[RttCase]) {
    for load in loads {
        let median = |case: &RttCase| case.actual.figure().series.first()?.p50;
        let reference = of(cases, *load).find(|case| case.row.name == REDIRECT).and_then(median);
        for case in of(cases, *load).filter(|case| case.row.name != REDIRECT) {
            let (Some(reference), Some(median)) = (reference, median(case)) else { continue };
            let name =
                format!("added to the median round trip: {}, {}", case.row.name, load.name());
            stage.figure(name, Measurement::new("ns", median as f64 - reference as f64));
        }
    }
}

fn probes(cases: &[RttCase]) -> Counters {
    let mut table = Counters::new([
        Column::from("load"),
        "row".into(),
        "sent".into(),
        "lost".into(),
        "duplicated".into(),
        "reordered".into(),
        ("maximum send delay", "ns").into(),
        ("steal", "%").into(),
        ("background sent", "Mbit/s").into(),
        ("background received", "Mbit/s").into(),
    ]);
    for case in cases {
        let report = &case.background;
        let megabits = |datagrams| match report.bits_per_second(datagrams, UdpSpec::PAPER) {
            Some(rate) => Cell::from((rate / 1e5).round() / 10.0),
            None => "".into(),
        };
        table.row([
            Cell::from(case.load.name()),
            case.row.name.into(),
            case.sent.into(),
            case.lost.into(),
            case.duplicated.into(),
            case.reordered.into(),
            case.latest_ns.into(),
            case.cpu
                .steal_percent()
                .map_or("".into(), |share| ((share * 10.0).round() / 10.0).into()),
            megabits(report.sent),
            megabits(report.received),
        ]);
    }
    table
}

fn over_time<'a>(cases: impl Iterator<Item = &'a RttCase>) -> TimeSeries {
    let mut series = TimeSeries::new("ns");
    let mut losses: Vec<Loss> = Vec::new();
    for case in cases {
        series = series.series(case.row.name, case.over_time.clone());
        losses.extend(&case.losses);
    }
    losses.sort_by(|a, b| a.from_s.total_cmp(&b.from_s));
    series.losses(losses)
}

fn notes(
    stage: &mut Stage<'_>,
    frames: &FrameOptions,
    loads: &[Load],
    schedule: &Schedule,
    place: &CpuLayout,
) {
    let (size, rate) = (frames.size, frames.rate);
    stage.note(format!(
        "Probes of {size} octets, {rate} per second, each row in turn in {}; {} of warm-up in \
         each. A round trip lasts from just before the probe is passed to the talker's kernel to \
         the time stamp of that kernel on its return. An XDP program of the listener reflects \
         probes in softirq, as a kernel answers a ping.",
        count(schedule.rounds as u64, "round"),
        count(schedule.warm_up(), "probe"),
    ));
    stage.note(format!(
        "\"{REDIRECT}\" is the same chain, including the reflecting program and the veth pairs. The difference of a row to it is the cost of its data plane."
    ));
    stage.note(
        "The due time includes delays of the sender. Probes that could not be sent in time were \
         sent late, and are included."
            .to_owned(),
    );
    if loads.contains(&Load::Stress) {
        stage.note(
            "CPU stressors: on each CPU of a node, threads of normal priority. One counts, one streams \
             through 24 MiB, and one adds cubes of 8 MiB."
                .to_owned(),
        );
    }
    if loads.contains(&Load::Background) {
        let UdpSpec { senders, bits_per_second, payload_octets } = UdpSpec::PAPER;
        stage.note(format!(
            "UDP background: {senders} senders of {} Mbit/s each in datagrams of {payload_octets} \
             octets, from the talker to the listener, half by each path. They belong to no stream: \
             the network stacks of the nodes route them, independent of the data plane of the \
             streams. A user-space data plane receives a copy of each.",
            bits_per_second / 1_000_000
        ));
    }
    stage.note(place.note());
}

#[cfg(test)]
mod tests {
    use super::super::row::ROWS;
    use super::*;

    #[test]
    fn the_papers_figures_use_existing_rows() {
        for (_, curves) in PAPER {
            for (name, load) in curves {
                assert!(ROWS.iter().any(|row| row.name == *name && row.is_for(*load)), "{name}");
            }
        }
    }

    #[test]
    fn an_unavailable_row_has_no_series() {
        let row = |name: &str| *ROWS.iter().find(|row| row.name == name).unwrap();
        let mut xdp = RttCase::new(row("XDP"), Load::Idle);
        let phase = xdp.actual.phase("XDP");
        xdp.actual.record(phase, 5000);
        let figure = paper(&[xdp], PAPER[1].1);
        let names: Vec<&str> = figure.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["XDP, idle"]);
        assert_eq!(figure.unit, "ns");
    }
}

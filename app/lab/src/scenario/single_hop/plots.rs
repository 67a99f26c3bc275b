//! Figures 5 to 10 of the paper, of one hop.

use onbeat_report::{Distribution, Figure, Phase, PhaseState, Recorder, Series, TimeSeries};

use super::cell::Cell;
use super::measurement::{DelaySample, Load};
use super::method::{APPLICATION, APPLICATION_THERE, HOOKS, METHODS, MIRROR, PROBE_ROUND_TRIP};

/// Gap between two loads on the time axis, in seconds.
const GAP_S: f64 = 0.1;

/// The figures for which there are values.
pub(super) fn of(cells: &[&Cell]) -> Vec<(&'static str, Figure)> {
    let Some(first) = cells.first() else { return Vec::new() };
    let of_first_place: Vec<&Cell> =
        cells.iter().copied().filter(|cell| cell.cpus == first.cpus).collect();
    let idle = of_first_place.iter().copied().find(|cell| cell.load == Load::Idle);
    let heaviest = of_first_place
        .iter()
        .copied()
        .filter(|cell| matches!(cell.load, Load::Net(_)))
        .max_by_key(|cell| rate(cell.load));
    let cpu: Vec<&Cell> =
        cells.iter().copied().filter(|cell| matches!(cell.load, Load::Idle | Load::Cpu)).collect();
    let net: Vec<&Cell> =
        of_first_place.iter().copied().filter(|cell| cell.load != Load::Cpu).collect();
    let loaded = |cells: &[&Cell]| cells.iter().any(|cell| cell.load != Load::Idle);

    let mut figures: Vec<(&'static str, Figure)> = Vec::new();
    let mut add = |name, figure: Option<Figure>| figures.extend(figure.map(|drawn| (name, drawn)));
    add("without load, by method (figure 5)", idle.map(|cell| by_method(cell).into()));
    add(
        "CPU load and CPUs, by the mirror (figure 6)",
        loaded(&cpu).then(|| {
            let name = |cell: &Cell| format!("{}, {} CPU(s)", cell.load.name(), cell.cpus);
            by_cell(&cpu, MIRROR, name).into()
        }),
    );
    add(
        "other traffic, by the mirror (figure 7)",
        loaded(&net).then(|| by_cell(&net, MIRROR, |cell| cell.load.name()).into()),
    );
    add(
        "delay over load, by method (figure 7)",
        (net.len() > 1)
            .then(|| over_load(&net, "ns", &[0, 1, 2], |each| Some(each.delay_ns as f64))),
    );
    add(
        "the same packets with other traffic, by method (figure 8)",
        heaviest.map(|cell| by_method(cell).into()),
    );
    add("end to end, by load (figure 9)", Some(end_to_end(&of_first_place).into()));
    let seen = of_first_place.iter().any(|cell| cell.found[HOOKS].is_some());
    add(
        "depth of the queue over time and load (figure 10)",
        seen.then(|| {
            over_load(&of_first_place, "packets", &[HOOKS], |each| each.depth.map(f64::from))
        }),
    );
    figures
}

fn rate(load: Load) -> u32 {
    match load {
        Load::Net(rate) => rate,
        Load::Idle | Load::Cpu => 0,
    }
}

/// The delays of each method for the same packets.
fn by_method(cell: &Cell) -> Distribution {
    let mut recorder = Recorder::new();
    for (method, found) in METHODS.iter().zip(&cell.found) {
        if let Some(found) = found {
            record(&mut recorder, method.name(), &found.each);
        }
    }
    recorder.figure()
}

/// The delays of one method under each load.
fn by_cell(cells: &[&Cell], method: usize, name: impl Fn(&Cell) -> String) -> Distribution {
    let mut recorder = Recorder::new();
    for cell in cells {
        if let Some(found) = &cell.found[method] {
            record(&mut recorder, &name(cell), &found.each);
        }
    }
    recorder.figure()
}

/// The round trip without the time in the reflector, beside the view of the application, under each load.
fn end_to_end(cells: &[&Cell]) -> Distribution {
    let mut recorder = Recorder::new();
    for cell in cells {
        for method in [PROBE_ROUND_TRIP, APPLICATION_THERE, APPLICATION] {
            if let Some(found) = &cell.found[method] {
                let name = format!("{}: {}", cell.load.name(), METHODS[method].name());
                record(&mut recorder, &name, &found.each);
            }
        }
    }
    recorder.figure()
}

fn record(recorder: &mut Recorder, name: &str, each: &[DelaySample]) {
    let phase = recorder.phase(name);
    for delay_ns in each.iter().filter_map(|each| u64::try_from(each.delay_ns).ok()) {
        recorder.record(phase, delay_ns);
    }
}

/// Delays packet by packet, one load after the other.
fn over_load(
    cells: &[&Cell],
    unit: &str,
    methods: &[usize],
    value: impl Fn(&DelaySample) -> Option<f64>,
) -> Figure {
    let mut figure = TimeSeries::new(unit);
    let mut points = vec![Vec::new(); methods.len()];
    let mut from_s = 0.0;
    for cell in cells {
        let mut to_s = from_s;
        for (points, method) in points.iter_mut().zip(methods) {
            let Some(found) = &cell.found[*method] else { continue };
            let Some(start) = found.each.first() else { continue };
            for each in &found.each {
                let at_s = from_s + each.time_ns.saturating_sub(start.time_ns) as f64 / 1e9;
                points.extend(value(each).map(|value| (at_s, value)));
                to_s = f64::max(to_s, at_s);
            }
        }
        let state = if cell.load == Load::Idle { PhaseState::Up } else { PhaseState::Degraded };
        figure.phases.push(Phase { name: cell.load.name(), from_s, to_s, state });
        from_s = to_s + GAP_S;
    }
    for (points, method) in points.into_iter().zip(methods) {
        if !points.is_empty() {
            figure.series.push(Series::new(METHODS[*method].name(), points));
        }
    }
    figure.into()
}

#[cfg(test)]
mod tests {
    use super::super::measurement::MethodResult;
    use super::super::rig::Hop;
    use super::*;
    use onbeat_delay::matching::Verdict;

    fn cell(cpus: &'static str, load: Load, start_ns: i64) -> Cell {
        let found = |depth: Option<u32>| {
            let mut found = MethodResult::default();
            for number in 0..100 {
                found.record(start_ns + number * 1_000_000, 10_000 + number, Verdict::Certain);
            }
            found.each.iter_mut().for_each(|each| each.depth = depth);
            Some(found)
        };
        let found = (0..METHODS.len()).map(|at| found((at == HOOKS).then_some(3))).collect();
        Cell { hop: Hop::Router, cpus, load, found, sent: 100, duty: None, net: None }
    }

    #[test]
    fn each_figure_has_its_loads() {
        let cells = [
            cell("1", Load::Idle, 7),
            cell("1", Load::Cpu, 1_000_000_000),
            cell("1", Load::Net(500), 0),
            cell("2", Load::Idle, 0),
            cell("2", Load::Cpu, 0),
        ];
        let figures = of(&cells.iter().collect::<Vec<_>>());
        let names: Vec<Vec<String>> = figures
            .iter()
            .map(|(_, figure)| match figure {
                Figure::Distribution(found) => {
                    assert!(found.series.iter().all(|series| series.count == 100));
                    found.series.iter().map(|series| series.name.clone()).collect()
                }
                Figure::TimeSeries(found) => {
                    assert!(
                        found
                            .series
                            .iter()
                            .all(|series| series.total == 100 * found.phases.len() as u64)
                    );
                    let ends = found.phases.windows(2).all(|pair| pair[0].to_s < pair[1].from_s);
                    assert!(ends, "{:?}", found.phases);
                    found.phases.iter().map(|phase| phase.name.clone()).collect()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let application = ["application, one way", "application, round trip"];
        let methods =
            [&["mirror", "hooks", "probe, one way", "probe, round trip"][..], &application]
                .concat();
        let net = ["idle", "network load, 500/s"];
        let cpu = ["idle, 1 CPU(s)", "CPU load, 1 CPU(s)", "idle, 2 CPU(s)", "CPU load, 2 CPU(s)"];
        let all = ["idle", "CPU load", "network load, 500/s"];
        let trips: Vec<_> = all
            .iter()
            .flat_map(|load| {
                ["probe, round trip", application[0], application[1]]
                    .map(|of| format!("{load}: {of}"))
            })
            .collect();
        let trips: Vec<_> = trips.iter().map(String::as_str).collect();
        let expected: [&[&str]; 7] = [&methods, &cpu, &net, &net, &methods, &trips, &all];
        assert_eq!(names, expected);
        // Without loads, and without values of hooks, empty figures are left out.
        let mut alone = cell("1", Load::Idle, 0);
        alone.found[HOOKS] = None;
        assert_eq!(of(&[&alone]).len(), 2);
        assert!(of(&[]).is_empty());
    }
}

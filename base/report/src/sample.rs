//! Results for tests: one of a scenario and one of a bench, with every kind of figure.

use crate::topology::samples;
use crate::{
    Check, Counters, Loss, Measurement, Number, Outcome, PhaseState, Ratio, Recorder, Run, Sweep,
    TimeSeries,
};

/// A reproducible number in `0.0..1.0` with a long tail toward 1 for a frame.
fn noise(frame: u64) -> f64 {
    let mixed = frame.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

/// The paper's figure 6 in small: one path is cut, then both, then both are up again.
pub(crate) fn scenario() -> Outcome {
    let phases = [
        ("both up", 0.0, 4.0, PhaseState::Up),
        ("path 1 down", 4.0, 7.0, PhaseState::Degraded),
        ("both down", 7.0, 9.0, PhaseState::Down),
        ("both up again", 9.0, 12.0, PhaseState::Up),
    ];
    let mut recorder = Recorder::new();
    let mut points = Vec::new();
    for frame in 0..12_000_u64 {
        let time = frame as f64 / 1000.0;
        let phase = phases.iter().find(|phase| time < phase.2).expect("within the run");
        let id = recorder.phase(phase.0);
        if phase.3 == PhaseState::Down {
            recorder.lose(id, 1);
            continue;
        }
        let base = if phase.3 == PhaseState::Up { 14_000.0 } else { 22_000.0 };
        let delay = base + 2_500.0 / (1.0 - noise(frame)).powf(0.45);
        recorder.record(id, delay as u64);
        points.push((time, delay.floor()));
    }
    let mut series = TimeSeries::new("ns").series("control", points);
    for (name, from, to, state) in phases {
        series = series.phase(name, from, to, state);
    }
    let series = series.losses(vec![Loss { from_s: 7.0, to_s: 8.999, frames: 2000 }]);

    let mut counters = Counters::new(["node", "passed", "discarded", "lost"]);
    for (node, passed, discarded) in [("A", 0_u64, 0_u64), ("B", 10_000, 7_000)] {
        counters.row([node.into(), passed.into(), discarded.into(), crate::Cell::from(0_u64)]);
    }
    let mut outcome = Run::begin("link-failure").finish();
    outcome.check(Check::eq("lost while a path is up", 0_u64, 0_u64, "frames"));
    outcome.check(Check::eq("duplicated", 0_u64, 0_u64, "frames"));
    outcome.check(Check::max("out of order", 0_u64, 0_u64, "frames"));
    outcome.check(Check::min("delivered", 10_000_u64, 10_000_u64, "frames"));
    outcome.figure("topology", samples::two_paths());
    outcome.figure("delay over time", series);
    outcome.figure("delay by phase", recorder.figure());
    outcome.figure("counters", counters);
    let runs = [[14.0, 15.0, 14.5], [15.0, 19.0, 16.0], [31.0, 24.0, 44.0]];
    let rates = [1000_u64, 10_000, 40_000].map(Number::from);
    let sweep = Sweep::new(("rate", "frames/s"), "%")
        .runs("measured", rates.into_iter().zip(runs.iter().map(|runs| &runs[..])))
        .published("published", rates.into_iter().zip([12.0, 20.0, 41.0]));
    outcome.figure("delay by rate", sweep);
    outcome.conditions.driver = Some("veth".into());
    outcome.conditions.mode = Some("xdp-native".into());
    outcome.conditions.steal_percent = Some(0.4);
    outcome.duration_s = 12.3;
    outcome
}

/// A bench: measurements and ratios with their spread.
pub(crate) fn bench() -> Outcome {
    let mut outcome = Run::begin("frer").finish();
    outcome.figure("topology", samples::ladder());
    let redirect = [1_204_000.0, 1_198_000.0, 1_187_000.0, 1_211_000.0, 1_201_000.0];
    for (name, share) in [("1 stream", 0.93), ("100 streams", 0.925), ("4,096 streams", 0.871)] {
        let pairs: Vec<(f64, f64)> = redirect
            .iter()
            .zip(0_u64..)
            .map(|(limit, run)| (limit * (share - 0.04 * noise(run * 7919)), *limit))
            .collect();
        outcome.figure(name, Ratio::of_runs("frames/s", &pairs, "plain XDP redirect"));
    }
    outcome.figure("redirect", Measurement::of_runs("frames/s", &redirect));
    let per_frame = Measurement::new("ns", 71.3).with_interval(68.9, 73.8, 0.95);
    outcome.figure("cost of FRER per frame", per_frame);
    outcome.figure("streams", Measurement::new("", 4096_u64));
    let mut recorder = Recorder::new();
    for (name, scale) in [("idle", 1.0), ("CPU hog", 1.6), ("user space, CPU hog", 30.0)] {
        let phase = recorder.phase(name);
        for frame in 0..100_000 {
            let delay = 9_000.0 + scale * 1_500.0 / (1.0 - noise(frame)).powf(0.5);
            recorder.record(phase, delay as u64);
        }
    }
    outcome.figure("one-way delay", recorder.figure());
    outcome.note("the machine was not idle");
    outcome
}

//! Deviation of SoC from its cycle, for both managing nodes in turn. Printed, not judged: it is the machine's as well.
//!
//! The managing node runs on CPU 1, as the demo's always does. Three nodes of onbeat are polled: the driver responds, and
//! no process takes time from the managing node.

use std::process::{Command, Stdio};
use std::time::Duration;

use onbeat_wire::powerlink::NodeId;

use super::boot;
use super::bus::Bus;
use super::configuration::NodeSpec;
use super::{MAKERS, Maker, Programs};
use crate::common::process::Process;

const CYCLES_US: [u32; 4] = [10_000, 5_000, 2_000, 1_000];
/// Of each managing node, at each cycle and load.
const ROUNDS: usize = 2;
const TIME: Duration = Duration::from_secs(5);
const MN: u8 = NodeId::MN.0;

/// Deviations of one run.
struct Deviations {
    /// From the grid of cycles through their median, in us, sorted.
    us: Vec<f64>,
    /// Cycles without a SoC of their own.
    missing: usize,
}

impl Deviations {
    fn of(socs_ns: &[i64], cycle_us: u32) -> Deviations {
        let cycle_ns = f64::from(cycle_us) * 1000.0;
        let from = *socs_ns.first().expect("a SoC");
        let times = || socs_ns.iter().map(|ns| (ns - from) as f64);
        let phases = sorted(times().map(|ns| ns - cycle_ns * (ns / cycle_ns).round()));
        let phase = quantile(&phases, 0.5);
        let cycles = sorted(times().map(|ns| ((ns - phase) / cycle_ns).round()));
        let deviation = |ns: f64| {
            let late = ns - phase;
            (late - cycle_ns * (late / cycle_ns).round()).abs() / 1000.0
        };
        let span = cycles.last().expect("a SoC") - cycles[0];
        let mut met = cycles;
        met.dedup();
        Deviations { us: sorted(times().map(deviation)), missing: span as usize + 1 - met.len() }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], of: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * of).round() as usize]
}

pub(super) fn timing(programs: &Programs) {
    println!(
        "SoC: deviation in us at p50, p90, p99, and cycles without SoC; of {ROUNDS} rounds, p99 of each round"
    );
    for loaded in [false, true] {
        for cycle_us in CYCLES_US {
            let mut all = MAKERS.map(|_| Vec::new());
            for round in 0..ROUNDS {
                for (managing, runs) in MAKERS.into_iter().zip(&mut all) {
                    runs.push(measure(programs, managing, cycle_us, loaded, round));
                }
            }
            println!("  {cycle_us} us, {}", if loaded { "loaded" } else { "idle" });
            let [onbeat, reference] = [0, 1].map(|at| print(MAKERS[at], &all[at]));
            println!("    p99 of onbeat: {:.2} of the reference's", onbeat / reference);
        }
    }
}

/// Prints the deviations of a managing node; returns p99 of all rounds.
fn print(managing: Maker, runs: &[Deviations]) -> f64 {
    let all = sorted(runs.iter().flat_map(|run| run.us.iter().copied()));
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|of| quantile(&all, of));
    let missing: usize = runs.iter().map(|run| run.missing).sum();
    let rounds: Vec<String> =
        runs.iter().map(|run| format!("{:.1}", quantile(&run.us, 0.99))).collect();
    let (count, rounds) = (all.len(), rounds.join(", "));
    println!("    {managing:?}: {p50:.1}, {p90:.1}, {p99:.1}; {missing} of {count}; {rounds}");
    p99
}

fn measure(
    programs: &Programs,
    managing: Maker,
    cycle_us: u32,
    loaded: bool,
    round: usize,
) -> Deviations {
    let nodes: Vec<NodeSpec> = boot::nodes(&[Maker::Onbeat; 3]);
    let name = format!("timing-{}-{cycle_us}-{loaded}-{round}", managing.name());
    let mut bus = Bus::build_with_cycle(programs, &name, managing, &nodes, true, cycle_us);
    bus.respond_in_driver();
    nodes.iter().for_each(|node| bus.start(node.id));
    bus.start(MN);
    bus.wait_operational();
    let load = loaded.then(start_load);
    bus.record.mark();
    bus.run_for(TIME);
    let deviations = Deviations::of(&bus.record.socs_ns, cycle_us);
    drop(load);
    bus.end("timing");
    deviations
}

fn start_load() -> Process {
    let mut command = Command::new("stress-ng");
    command.args(["--quiet", "--cpu", "2", "--sock", "1"]).stdout(Stdio::null());
    Process::spawn(command)
}

//! Checks and figures of the bench `port`.

use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome};

use super::PortResults;
use super::backend::{BASELINE, LIMIT};
use super::case::{PortCase, Quantity};
use super::plan::{LEAST_DISTANCE_NS, warm_up};
use super::programs::Program;
use crate::bench::cyclic::{
    CycleCase, Load, Options, Quantity as _, cycle, distributions, micros, over_rounds, ratios,
    state, topology,
};

pub(super) fn fill(
    outcome: &mut Outcome,
    options: &Options,
    found: &PortResults,
    programs: &[Program],
) {
    for (backend, why_not) in &found.rows {
        if why_not.is_none() {
            checks(outcome, found, backend.name);
        }
    }
    outcome.figure("back ends", rows(found));
    outcome.figure("topology", topology("sends requests", "responds"));
    distributions(outcome, &found.cases, &Quantity::ALL);
    let delay = (Quantity::Delay, "the response delay");
    ratios(outcome, &found.cases, delay, BASELINE, |backend| backend != LIMIT);
    for quantity in [Quantity::Delay, Quantity::Lateness] {
        let name = format!("{}, over rounds", quantity.name());
        outcome.figure(name, over_rounds(&found.cases, quantity, Some(LIMIT)));
    }
    outcome.figure("CPU time per cycle", cpu(found));
    if !programs.is_empty() {
        outcome.figure("XDP programs of the nodes, measured separately", cost(programs));
    }
    outcome.figure("frames", accounts(found));
    notes(outcome, options, found);
}

fn checks(outcome: &mut Outcome, found: &PortResults, row: &str) {
    let sum = |of: fn(&PortCase) -> u64| {
        found.cases.iter().filter(|case| case.backend == row).map(of).sum::<u64>()
    };
    let requests = |case: &PortCase| case.passed[0].count;
    outcome.check(Check::eq(
        format!("{row}: requests that reached the wire"),
        sum(requests),
        sum(|case| case.counters[0].sent),
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: requests answered exactly once"),
        sum(|case| case.passed[1].count),
        sum(requests),
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: frames lost on ingress of a node or refused on egress"),
        sum(|case| case.counters.iter().map(|counters| counters.dropped + counters.failed).sum()),
        0_u64,
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: invalid frames"),
        sum(|case| case.passed.iter().map(|passed| passed.wrong + passed.foreign).sum()),
        0_u64,
        "frames",
    ));
    outcome.check(Check::min(format!("{row}: requests"), sum(requests), 1_u64, "frames"));
}

fn rows(found: &PortResults) -> Counters {
    let mut table = Counters::new(["back end", "description", "state"]);
    for (backend, why_not) in &found.rows {
        let state = state(why_not.as_deref());
        table.row([backend.name, backend.summary, &state]);
    }
    table
}

fn cpu(found: &PortResults) -> Counters {
    let mut table = Counters::new([
        ("cycle", ""),
        ("load", ""),
        ("back end", ""),
        ("managing node", "ns"),
        ("controlled node", "ns"),
        ("both", "ns"),
    ]);
    for case in &found.cases {
        let [mn, cn] = &case.cpu_ns;
        let both: Vec<f64> = mn.iter().zip(cn).map(|(mn, cn)| mn + cn).collect();
        let median = |values: &[f64]| Cell::from(Measurement::of_runs("ns", values).value);
        table.row(case.cells().into_iter().chain([median(mn), median(cn), median(&both)]));
    }
    table
}

fn cost(programs: &[Program]) -> Counters {
    let mut table = Counters::new([
        ("back end", ""),
        ("node", ""),
        ("per run", "ns"),
        ("runs per cycle", ""),
        ("per cycle", "ns"),
    ]);
    for program in programs {
        let (runs, ns) = (program.runs.count as f64, program.runs.time_ns as f64);
        let cycles = program.cycles as f64;
        table.row([
            Cell::from(program.backend),
            program.node.into(),
            (ns / runs).into(),
            (runs / cycles).into(),
            (ns / cycles).into(),
        ]);
    }
    table
}

fn accounts(found: &PortResults) -> Counters {
    let mut table = Counters::new([
        "cycle",
        "load",
        "back end",
        "cycles",
        "missed",
        "requests",
        "responses",
        "after the next request",
        "not matched",
    ]);
    for case in &found.cases {
        let [requests, responses] = case.passed;
        let counts = [
            case.planned,
            case.counters[0].missed,
            requests.count,
            responses.count,
            case.late,
            case.unmatched,
        ];
        table.row(case.cells().into_iter().chain(counts.map(Cell::from)));
    }
    table
}

fn notes(outcome: &mut Outcome, options: &Options, found: &PortResults) {
    outcome.note(format!(
        "Response delay: from the departure of a request toward the controlled node to the arrival of \
         its response on the wire. The XDP programs of the wire stamp both with CLOCK_MONOTONIC, for every \
         back end. The delay includes the transfers into \
         and out of the node's interface; the row \"{LIMIT}\", measured in the same rounds, shows \
         their minimum. Each request is matched with the response of the same number in its round."
    ));
    outcome.note(
        "Lateness of requests: from first + n * period to the request on the wire, including the \
         managing node's own transfer. Cycle-to-cycle jitter: absolute deviation of the interval \
         between two consecutive requests from the period. Instants without a request are counted \
         as missed. \"clock_nanosleep only\" is the wake-up latency of a thread of the same \
         priority, by its own clock: the minimum for any program that sleeps.",
    );
    outcome.note(found.machine.note("request"));
    let mut periods: Vec<u64> = found.cases.iter().map(|case| case.period_ns).collect();
    periods.dedup();
    periods.sort_unstable_by(|a, b| b.cmp(a));
    periods.dedup();
    for period_ns in periods {
        let cases = || found.cases.iter().filter(|case| case.period_ns == period_ns);
        let together: Vec<&str> = found
            .rows
            .iter()
            .map(|(backend, _)| backend.name)
            .filter(|name| cases().any(|case| case.backend == *name && case.together))
            .collect();
        let how = if found.rows.len() == 1 {
            "one row".into()
        } else if together.is_empty() {
            format!(
                "each row in separate consecutive blocks, as less than {} would be between two",
                micros(LEAST_DISTANCE_NS)
            )
        } else {
            format!(
                "{} interleaved, {} between two, in an order that changes between rounds",
                together.join(", "),
                micros(period_ns / together.len() as u64)
            )
        };
        outcome.note(format!(
            "Cycle of {}: {how}; {}, each after {} of warm-up.",
            cycle(period_ns),
            count(u64::from(options.rounds).min(options.cycles), "round"),
            count(warm_up(period_ns), "cycle")
        ));
    }
    if options.loads.contains(&Load::Hackbench) {
        outcome.note(format!("{} Idle and loaded rounds alternate.", Load::HACKBENCH));
    }
    outcome.note(options.note_on_ratios());
    outcome.note(
        "CPU time per cycle: CPU time of the nodes' own threads, including the softirq work on their time. This is all work for a frame up to the next thread.",
    );
    if found.rows.iter().any(|(backend, _)| backend.spins) && found.machine.place.priority.is_some()
    {
        outcome.note(
            "The kernel throttles a thread that spins at real-time priority in favor of other work (conditions: real-time throttling). Only a CPU of its own (isolcpus) \
             prevents this: the tail of packet-spin shows it.",
        );
    }
}

//! From what was found to checks and figures.

use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Distribution, Measurement, Outcome, Ratio, Recorder};

use super::Found;
use super::backend::{BASELINE, Kind, LIMIT};
use super::case::{Case, Quantity};
use super::plan::{LEAST_DISTANCE_NS, warm_up};
use crate::bench::cyclic::{
    CycleCase, Load, Options, beside, conditions, cycle, micros, spread, state, topology, under,
};

/// Places in [`super::case::SHARES`].
const P50: usize = 0;
const P99_9: usize = 2;

pub(super) fn fill(outcome: &mut Outcome, options: &Options, found: &Found) {
    for (backend, why_not) in &found.rows {
        if why_not.is_none() {
            checks(outcome, found, backend.name);
        }
    }
    outcome.figure("back ends", rows(found));
    outcome.figure("topology", topology("asks each cycle", "answers"));
    for quantity in Quantity::ALL {
        for (period_ns, load) in conditions(&found.cases) {
            let name = format!("{}, {}, {load}", quantity.name(), cycle(period_ns));
            outcome.figure(name, distribution(found, quantity, period_ns, load));
        }
    }
    ratios(outcome, found);
    for quantity in [Quantity::Delay, Quantity::Lateness] {
        let name = format!("{}, over rounds", quantity.name());
        outcome.figure(name, over_rounds(found, quantity));
    }
    outcome.figure("CPU time of a cycle", cpu(found));
    if !found.programs.is_empty() {
        outcome.figure("XDP programs of the nodes, while they are counted", programs(found));
    }
    outcome.figure("frames", accounts(found));
    notes(outcome, options, found);
}

fn checks(outcome: &mut Outcome, found: &Found, row: &str) {
    let sum = |of: fn(&Case) -> u64| {
        found.cases.iter().filter(|case| case.backend == row).map(of).sum::<u64>()
    };
    let requests = |case: &Case| case.passed[0].count;
    outcome.check(Check::eq(
        format!("{row}: requests that reached the wire"),
        sum(requests),
        sum(|case| case.done[0].sent),
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: requests answered, each once"),
        sum(|case| case.passed[1].count),
        sum(requests),
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: frames lost on the way into a node or refused on the way out"),
        sum(|case| case.done.iter().map(|done| done.dropped + done.failed).sum()),
        0_u64,
        "frames",
    ));
    outcome.check(Check::eq(
        format!("{row}: frames that are not as they should be"),
        sum(|case| case.passed.iter().map(|passed| passed.wrong + passed.foreign).sum()),
        0_u64,
        "frames",
    ));
    outcome.check(Check::min(format!("{row}: requests"), sum(requests), 1_u64, "frames"));
}

fn rows(found: &Found) -> Counters {
    let mut table = Counters::new(["back end", "what it is", "state"]);
    for (backend, why_not) in &found.rows {
        let state = state(why_not.as_deref());
        table.row([backend.name, backend.summary, &state]);
    }
    table
}

fn distribution(found: &Found, quantity: Quantity, period_ns: u64, load: Load) -> Distribution {
    let mut recorder = Recorder::new();
    for case in under(&found.cases, period_ns, load) {
        if quantity == Quantity::Lateness {
            recorder.merge(&case.wakeups);
        }
        recorder.merge(&case.pooled[quantity as usize]);
    }
    recorder.figure()
}

fn ratios(outcome: &mut Outcome, found: &Found) {
    let rows: Vec<_> = found
        .rows
        .iter()
        .filter(|(backend, _)| backend.name != BASELINE && backend.kind != Kind::Limit)
        .map(|(backend, _)| backend.name)
        .collect();
    for (period_ns, load) in conditions(&found.cases) {
        let named =
            |name: &str| under(&found.cases, period_ns, load).find(|case| case.backend == name);
        let Some(baseline) = named(BASELINE) else { continue };
        for row in rows.iter().filter_map(|name| named(name)) {
            let (Some(value), Some(limit)) = (tail(row), tail(baseline)) else { continue };
            let name = format!(
                "p99.9 of the response delay: {} beside {BASELINE}, {}, {load}",
                row.backend,
                cycle(period_ns)
            );
            let rounds = delays(row, P99_9).into_iter().zip(delays(baseline, P99_9));
            outcome.figure(name, beside(BASELINE, [value, limit], rounds));
        }
    }
}

/// p99.9 of the response delay over all rounds.
fn tail(case: &Case) -> Option<u64> {
    let figure = case.pooled[Quantity::Delay as usize].figure();
    figure.series.first().and_then(|series| series.p99_9)
}

fn delays(case: &Case, percentile: usize) -> Vec<f64> {
    case.rounds[Quantity::Delay as usize].iter().map(|round| round[percentile]).collect()
}

/// Percentiles with their spread, and beside the limit's.
fn over_rounds(found: &Found, quantity: Quantity) -> Counters {
    let mut columns = vec![("cycle", ""), ("load", ""), ("back end", ""), ("rounds", "")];
    for column in ["p50 median", "p50 least", "p50 most"] {
        columns.push((column, "ns"));
    }
    columns.push(("p50 to the limit's", ""));
    for column in ["p99.9 median", "p99.9 least", "p99.9 most"] {
        columns.push((column, "ns"));
    }
    columns.push(("p99.9 to the limit's", ""));
    let mut table = Counters::new(columns);
    for case in &found.cases {
        let limit =
            under(&found.cases, case.period_ns, case.load).find(|other| other.backend == LIMIT);
        let rounds = |case: &Case, percentile: usize| -> Vec<f64> {
            case.rounds[quantity as usize].iter().map(|round| round[percentile]).collect()
        };
        let mut row = Vec::from(case.cells());
        row.push((case.rounds[quantity as usize].len() as u64).into());
        for percentile in [P50, P99_9] {
            let values = rounds(case, percentile);
            let limits = limit.map(|limit| rounds(limit, percentile)).unwrap_or_default();
            let pairs: Vec<_> = values.iter().copied().zip(limits).collect();
            let ratio = Ratio::of_runs("ns", &pairs, LIMIT).ratio;
            row.extend(spread(&values));
            row.push(ratio.into());
        }
        table.row(row);
    }
    table
}

fn cpu(found: &Found) -> Counters {
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

fn programs(found: &Found) -> Counters {
    let mut table = Counters::new([
        ("back end", ""),
        ("node", ""),
        ("a run", "ns"),
        ("runs a cycle", ""),
        ("a cycle", "ns"),
    ]);
    for program in &found.programs {
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

fn accounts(found: &Found) -> Counters {
    let mut table = Counters::new([
        "cycle",
        "load",
        "back end",
        "cycles",
        "missed",
        "requests",
        "responses",
        "later than the next",
        "not told apart",
    ]);
    for case in &found.cases {
        let [requests, responses] = case.passed;
        let counts = [
            case.planned,
            case.done[0].missed,
            requests.count,
            responses.count,
            case.late,
            case.unmatched,
        ];
        table.row(case.cells().into_iter().chain(counts.map(Cell::from)));
    }
    table
}

fn notes(outcome: &mut Outcome, options: &Options, found: &Found) {
    outcome.note(format!(
        "Response delay: from the instant a request leaves the wire towards the controlled node to \
         the instant its response is back on it, by CLOCK_MONOTONIC in the wire's XDP programs, \
         which are the same for every back end. The crossing into the node's interface and the one \
         out of it are inside of what is measured; what they take at least is the row \
         \"{LIMIT}\", measured in the same rounds. Each request is matched with the response of \
         the same number in its round."
    ));
    outcome.note(
        "Lateness of requests: from first + n * period to the request on the wire, the managing \
         node's own crossing included. Cycle-to-cycle jitter: how far two requests one after the \
         other are from a period apart, either way. Instants that passed without a request are \
         counted as missed. \"clock_nanosleep alone\" is how late a thread of the same priority \
         wakes, by its own clock: no program that sleeps can be better.",
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
                "each row in blocks by itself, one after another, as there are not {} between two",
                micros(LEAST_DISTANCE_NS)
            )
        } else {
            format!(
                "{} interleaved, {} apart, in turns that change from round to round",
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
        outcome.note(
            "Load \"hackbench\": 400 processes in 10 groups, in each of which 20 send messages of \
             100 octets to 20 over pipes without a pause; they may run on every CPU. Idle and \
             loaded rounds take turns.",
        );
    }
    outcome.note(options.note_on_ratios());
    outcome.note(
        "CPU time of a cycle: of the nodes' own threads, with the softirq work that is done on \
         their time: all that a frame causes up to the next thread.",
    );
    if found.rows.iter().any(|(backend, _)| backend.spins) && found.machine.place.priority.is_some()
    {
        outcome.note(
            "A thread that spins at real-time priority is taken off its CPU for the kernel's share \
             of other work (conditions: real-time throttling), unless that CPU is its own \
             (isolcpus): the tail of packet-spin shows it.",
        );
    }
}

//! Checks and figures of the bench `irq`.

use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome, Ratio};

use super::accuracy::{self, AccuracyRound, AttributionShares};
use super::overhead::{self, OverheadRound, PacketRate};
use super::{IrqResults, Options};

/// Maximum attribution error by the goal, in percentage points.
const GOAL_POINTS: f64 = 2.0;

/// Maximum share of a CPU's time that may be missing in the accounts, in percent.
const CONSERVED_PERCENT: f64 = 1.0;

pub(super) fn fill(outcome: &mut Outcome, options: &Options, found: &IrqResults) {
    let mut medians = Vec::new();
    for case in &found.accuracy {
        checks(outcome, options, case);
        medians.extend(errors(outcome, case));
    }
    outcome.note(worst(medians));
    outcome.figure("shares of the first flow, by round", shares(&found.accuracy));
    for case in &found.overhead {
        costs(outcome, case);
    }
    outcome.note(format!(
        "{} of {} ms; overhead on CPU {}: sender, receiver and reader share it",
        count(options.rounds as u64, "round"),
        options.slice.as_millis(),
        found.cpu
    ));
    if let Some(one_in) = options.sample {
        outcome.note(format!(
            "sampled: packets are recorded for 1/{one_in} of the time; the caused time is estimated from these"
        ));
    }
    outcome.note(
        "separate: each flow over a device of its own, whose thread's run time is the true cost; \
         shared: both over one device, where each is assumed to cost its median separate cost over \
         all rounds",
    );
}

fn checks(outcome: &mut Outcome, options: &Options, case: &accuracy::AccuracyCase) {
    let sum = |of: fn(&AccuracyRound) -> u64| case.rounds.iter().map(of).sum::<u64>();
    let (charged, sent) = (sum(|round| round.charged_packets), sum(|round| round.small_packets));
    let name = |what: &str| format!("{what}: {}", case.name);
    if options.sample.is_none() {
        outcome.check(Check::eq(name("small packets charged to their readers"), charged, sent, ""));
    }
    let worst = case.rounds.iter().map(|round| round.imbalance).fold(0.0, f64::max) * 100.0;
    outcome.check(Check::max(name("missing in the accounts"), worst, CONSERVED_PERCENT, "%"));
}

/// Returns the median error of each mix, with its name.
fn errors(outcome: &mut Outcome, case: &accuracy::AccuracyCase) -> [(f64, String); 2] {
    let [apart, together]: [fn(&AccuracyRound) -> AttributionShares; 2] =
        [|round| round.apart, |round| round.together];
    [("separate", apart), ("shared", together)].map(|(how, of)| {
        let values = |value: fn(&AttributionShares) -> f64| -> Vec<f64> {
            case.rounds.iter().map(|round| value(&of(round))).collect()
        };
        let mix = format!("{how}: {}", case.name);
        let error = Measurement::of_runs("points", &values(AttributionShares::error));
        let median = (error.value.as_f64(), mix.clone());
        outcome.figure(format!("attribution error, {mix} (goal {GOAL_POINTS})"), error);
        let stated: Vec<f64> = case
            .rounds
            .iter()
            .filter_map(|round| of(round).standard_error)
            .map(|error| error * 100.0)
            .collect();
        if !stated.is_empty() {
            let name = format!("reported standard error, {mix}");
            outcome.figure(name, Measurement::of_runs("points", &stated));
        }
        let name = format!("share of the threads' run time charged, {mix}");
        let of_run_time = values(|shares| shares.of_run_time * 100.0);
        outcome.figure(name, Measurement::of_runs("%", &of_run_time));
        median
    })
}

/// Names the mix with the largest median error.
fn worst(medians: Vec<(f64, String)>) -> String {
    let worst = medians.into_iter().max_by(|(x, _), (y, _)| x.total_cmp(y));
    let (error, mix) = worst.unwrap_or_default();
    let verdict = if error <= GOAL_POINTS { "within" } else { "above" };
    format!(
        "largest median attribution error: {error:.2} points, {verdict} the goal of \
         {GOAL_POINTS} points; {mix}"
    )
}

fn shares(cases: &[accuracy::AccuracyCase]) -> Counters {
    let mut counters = Counters::new([
        ("flows", ""),
        ("round", ""),
        ("truth", "%"),
        ("charged, separate", "%"),
        ("charged, shared", "%"),
    ]);
    for case in cases {
        for (number, round) in case.rounds.iter().enumerate() {
            let percent = |share: f64| Cell::from(share * 100.0);
            counters.row([
                Cell::from(case.name),
                (number as u64 + 1).into(),
                percent(round.apart.truth),
                percent(round.apart.charged),
                percent(round.together.charged),
            ]);
        }
    }
    counters
}

fn costs(outcome: &mut Outcome, case: &overhead::OverheadCase) {
    let name = |what: &str| format!("{what}, {}", case.name);
    let rates = |of: fn(&OverheadRound) -> PacketRate| -> Vec<(f64, f64)> {
        let rates = |round: &OverheadRound| {
            let per_s = |rate: PacketRate| rate.packets_per_s;
            (per_s(of(round)), per_s(round.without))
        };
        case.rounds.iter().map(rates).collect()
    };
    let (with, idle) = (rates(|round| round.with), rates(|round| round.idle));
    for (what, rates) in [
        ("packets per second with the ledger", &with),
        ("packets per second with its programs, which return at once", &idle),
    ] {
        let ratio = Ratio::of_runs("packets/s", rates, "without the ledger");
        outcome.figure(name(what), ratio);
    }
    let ns = |(with, without): &(f64, f64)| 1e9 / with - 1e9 / without;
    let added: Vec<f64> = with.iter().map(ns).collect();
    outcome.figure(
        name("time added to a packet by the ledger, sent, received and read"),
        Measurement::of_runs("ns", &added),
    );
    let calls: Vec<f64> = idle.iter().map(ns).collect();
    let beyond: Vec<f64> = added.iter().zip(&calls).map(|(all, calls)| all - calls).collect();
    outcome.figure(
        name("time added beyond that of programs that return at once"),
        Measurement::of_runs("ns", &beyond),
    );
    let thread = |round: &OverheadRound| Some(round.with.thread_ns? - round.without.thread_ns?);
    let added: Vec<f64> = case.rounds.iter().filter_map(thread).collect();
    if !added.is_empty() {
        let figure = Measurement::of_runs("ns", &added);
        outcome.figure(name("time added to a packet by the ledger, received"), figure);
    }
    let counted = name("run time of the ledger's programs, measured separately");
    outcome.figure(counted, case.programs.table());
}

#[cfg(test)]
mod tests {
    use super::worst;

    #[test]
    fn the_mix_with_the_largest_error_is_named() {
        let note = worst(vec![(0.5, "a".into()), (2.04, "b".into()), (1.0, "c".into())]);
        assert_eq!(
            note,
            "largest median attribution error: 2.04 points, above the goal of 2 points; b"
        );
        assert!(worst(vec![(2.0, "a".into())]).contains("2.00 points, within"));
    }
}

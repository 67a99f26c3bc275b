//! Checks and figures of the bench `powerlink`.

use onbeat_powerlink_node::Sender;
use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Outcome};

use super::PowerlinkResults;
use super::backend::{BASELINE, Backend, LIMIT};
use super::case::{PowerlinkCase, Quantity};
use crate::bench::cyclic::{
    CycleCase, Load, Options, Quantity as _, distributions, over_rounds, ratios, state, topology,
};

pub(super) fn fill(outcome: &mut Outcome, options: &Options, found: &PowerlinkResults) {
    for (backend, why_not) in &found.rows {
        if why_not.is_none() {
            checks(outcome, found, backend);
        }
    }
    outcome.figure("back ends", rows(found));
    outcome.figure("topology", topology("managing", "controlled"));
    distributions(outcome, &found.cases, &Quantity::ALL);
    for quantity in Quantity::ALL {
        // The managing node of the limit is that of another row.
        let compared = |row: &str| row != LIMIT;
        ratios(outcome, &found.cases, (quantity, quantity.name()), BASELINE, compared);
        let limit = (quantity == Quantity::Response).then_some(LIMIT);
        let name = format!("{}, over rounds", quantity.name());
        outcome.figure(name, over_rounds(&found.cases, quantity, limit));
    }
    outcome.figure("frames", accounts(found));
    notes(outcome, options, found);
}

fn checks(outcome: &mut Outcome, found: &PowerlinkResults, backend: &Backend) {
    let row = backend.name;
    let automatic = backend.response() == Sender::Automatic && !backend.reflects;
    let cases = || found.cases.iter().filter(|case| case.backend == row);
    let sum = |of: fn(&PowerlinkCase) -> u64| cases().map(of).sum::<u64>();
    let seen = Check::min(
        format!("{row}: cycles on the wire"),
        sum(|case| case.cycles + case.missed),
        sum(|case| case.wanted),
        "cycles",
    );
    outcome.check(seen);
    let others =
        format!("{row}: foreign frames on the wire, or frames without room for their stamp");
    outcome.check(Check::eq(others, sum(|case| case.foreign + case.lost), 0_u64, "frames"));
    if automatic {
        let by_process = sum(|case| case.responses);
        let name = format!("{row}: responses that the node's process had to send");
        outcome.check(Check::eq(name, by_process, 0_u64, "frames"));
        let name = format!("{row}: polls answered by the back end");
        outcome.check(Check::min(name, sum(|case| case.answered), 1_u64, "frames"));
    }
}

fn rows(found: &PowerlinkResults) -> Counters {
    let mut table =
        Counters::new(["back end", "description", "SoC sender", "response sender", "state"]);
    let by = |sender| match sender {
        Sender::Automatic => "the back end",
        Sender::Process => "the node's thread",
    };
    for (backend, why_not) in &found.rows {
        let state = state(why_not.as_deref());
        let response =
            if backend.reflects { "a program of the bench" } else { by(backend.response()) };
        let soc = by(backend.soc());
        table.row([backend.name, backend.summary, soc, response, &state]);
    }
    table
}

fn accounts(found: &PowerlinkResults) -> Counters {
    let mut table = Counters::new([
        "cycle",
        "load",
        "back end",
        "cycles",
        "without SoC",
        "PRes after the next PReq",
        "no PRes",
        "PRes without PReq",
        "SoC by the back end",
        "PRes by the back end",
        "PRes by the process",
    ]);
    for case in &found.cases {
        let counts = [
            case.cycles,
            case.missed,
            case.late,
            case.unanswered,
            case.unasked,
            case.launched,
            case.answered,
            case.responses,
        ];
        table.row(case.cells().into_iter().chain(counts.map(Cell::from)));
    }
    table
}

fn notes(outcome: &mut Outcome, options: &Options, found: &PowerlinkResults) {
    outcome.note(
        "PReq to PRes: from the departure of a poll toward the controlled node to the arrival of its \
         response on the wire. The XDP programs of the wire stamp both with CLOCK_MONOTONIC, for every back \
         end; the transfers into and out of the node's interface \
         are included. The n-th response belongs to the n-th poll, even if the managing node had \
         continued before it. SoC jitter: absolute deviation of the interval between two \
         consecutive SoC from the cycle; intervals over a missed SoC are left out. Both nodes are \
         complete: they have booted, and exchange values in OPERATIONAL.",
    );
    outcome.note(found.machine.note("poll"));
    if options.includes(LIMIT, true) {
        outcome.note(format!(
            "Row \"{LIMIT}\", measured in the same rounds, shows the delay of the transfers alone: the controlled node \
             has booted, and then an XDP program turns each PReq into a PRes with constant header and redirects it."
        ));
    }
    outcome.note(format!(
        "All networks of one period are in OPERATIONAL at the same time. They run one at a time, in an order that changes between rounds, {}, idle and loaded alternately; the others are \
         paused. Some cycles at the start of each run do not count. The counters of frames by the \
         nodes include them.",
        count(options.rounds.into(), "round")
    ));
    if options.loads.contains(&Load::Hackbench) {
        outcome.note(Load::HACKBENCH);
    }
    outcome.note(options.note_on_ratios());
}

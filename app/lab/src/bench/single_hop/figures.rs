//! Checks and figures of the bench `delay`.

use onbeat_hooks::Detail;
use onbeat_report::format::count;
use onbeat_report::{Check, Counters, Measurement, Outcome, Ratio};

use super::hooks::HookRound;
use super::{Options, hooks, matching};

/// Minimum share of correct matches, of those reported as certain or in order.
const RIGHT: f64 = 0.9999;

pub(super) fn matching(
    outcome: &mut Outcome,
    options: &Options,
    found: &matching::MatchingResults,
) {
    outcome.check(Check::min(
        "matches that are correct, or reported as ambiguous",
        found.check.right_share(),
        RIGHT,
        "",
    ));
    outcome.check(Check::eq("departures without an arrival", found.counts.unmatched, 0_u64, ""));
    let packets = options.packets as f64;
    let rates = |of: fn(&matching::MatchingRound) -> f64, per_s: f64| -> Vec<(f64, f64)> {
        found.rounds.iter().map(|round| (per_s / of(round), per_s / round.plain_s)).collect()
    };
    let limit = "plain reading of both files";
    for (what, of) in [
        ("matching", (|round| round.matching_s) as fn(&matching::MatchingRound) -> f64),
        ("reading packets", |round| round.reading_s),
    ] {
        let figure = Ratio::of_runs("packets/s", &rates(of, packets), limit);
        outcome.figure(format!("{what}: packets that cross the hop"), figure);
        let figure = Ratio::of_runs("GB/s", &rates(of, found.octets as f64 / 1e9), limit);
        outcome.figure(format!("{what}: octets of both captures"), figure);
    }
    if let Some(peak) = found.peak {
        outcome.figure("peak memory while matching", Measurement::new("octets", peak));
    }
    let (truth, counts) = (&found.truth, &found.counts);
    let packets = [
        ("arrived", truth.arrivals),
        ("lost", truth.lost),
        ("sent twice", truth.duplicates),
        ("identical packets", truth.identical),
        ("detected as lost", counts.lost),
        ("detected as duplicates", counts.duplicates),
        ("matched, unambiguous", counts.certain),
        ("matched by order among identical packets", counts.ordered),
        ("matched, ambiguous", counts.ambiguous),
    ];
    outcome.figure("packets of the captures", Counters::named(["packets", "number"], packets));
    outcome.note(
        "times are CPU times; a packet that crosses the hop is read twice, once in each capture",
    );
}

pub(super) fn hooks(
    outcome: &mut Outcome,
    options: &Options,
    found: &[hooks::HookResults],
    cpu: usize,
) {
    found.iter().for_each(|found| case(outcome, found));
    outcome.note(format!(
        "hooks: {} of {} ms on CPU {cpu}; packets of 192 octets, made in the kernel 64 at a time or sent by a packet socket one by \
         one; routed, and dropped after the router in XDP. The time includes no other host's packets",
        count(options.rounds as u64, "round"),
        options.slice.as_millis(),
    ));
}

fn case(outcome: &mut Outcome, found: &hooks::HookResults) {
    let detail = match found.detail {
        Detail::Stages => "stages",
        Detail::Whole => "whole time",
    };
    let case = format!("packets {}, {detail}", found.arrivals.name());
    let runs = |of: fn(&HookRound) -> f64| found.rounds.iter().map(of).collect::<Vec<_>>();
    outcome.check(Check::eq(format!("{case}: reported packets"), found.reported, found.passed, ""));
    let pairs = found.rounds.iter().map(|round| (1e9 / round.with, 1e9 / round.without));
    outcome.figure(
        format!("{case}: through a router with the hooks"),
        Ratio::of_runs("packets/s", &pairs.collect::<Vec<_>>(), "without hooks"),
    );
    outcome.figure(
        format!("{case}: time added to a packet by the hooks"),
        Measurement::of_runs("ns", &runs(|round| round.with - round.without)),
    );
    outcome.figure(
        format!("{case}: of which calls of programs that do nothing"),
        Measurement::of_runs("ns", &runs(|round| round.called - round.without)),
    );
    outcome.figure(
        format!("{case}: run time of programs, measured separately"),
        found.programs.table(),
    );
}

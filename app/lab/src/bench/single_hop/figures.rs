//! From what was found to checks and figures.

use onbeat_hooks::Detail;
use onbeat_report::format::count;
use onbeat_report::{Check, Counters, Measurement, Outcome, Ratio};

use super::hooks::HookRound;
use super::{Options, hooks, matching};

/// Matches that must be right, as a share of those that are told to be certain or in order.
const RIGHT: f64 = 0.9999;

pub(super) fn matching(
    outcome: &mut Outcome,
    options: &Options,
    found: &matching::MatchingResults,
) {
    outcome.check(Check::min(
        "matches that are right, or told to be ambiguous",
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
        ("left twice", truth.duplicates),
        ("alike in everything", truth.identical),
        ("found to be lost", counts.lost),
        ("found to leave again", counts.duplicates),
        ("matched: no other could be meant", counts.certain),
        ("matched by order among alike", counts.ordered),
        ("matched, perhaps with another's", counts.ambiguous),
    ];
    outcome.figure("packets of the captures", Counters::named(["packets", "number"], packets));
    outcome.note(
        "times are those on the CPU; a packet that crosses the hop is read twice, once in each capture",
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
        "hooks: {} of {} ms on CPU {cpu}; packets of 192 octets, made in the kernel 64 at a time or by \
         a packet socket one by one, routed, and dropped behind the router in XDP: no other host's packets \
         are in it",
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
    outcome.check(Check::eq(format!("{case}: told"), found.reported, found.passed, ""));
    let pairs = found.rounds.iter().map(|round| (1e9 / round.with, 1e9 / round.without));
    outcome.figure(
        format!("{case}: through a router with the hooks"),
        Ratio::of_runs("packets/s", &pairs.collect::<Vec<_>>(), "without them"),
    );
    outcome.figure(
        format!("{case}: what the hooks add to a packet"),
        Measurement::of_runs("ns", &runs(|round| round.with - round.without)),
    );
    outcome.figure(
        format!("{case}: of that, calls of programs that do nothing"),
        Measurement::of_runs("ns", &runs(|round| round.called - round.without)),
    );
    outcome.figure(format!("{case}: time of programs while it is counted"), found.programs.table());
}

//! Checks and figures of FRER in user space.

use onbeat_node::config::Backend;
use onbeat_report::{Counters, Outcome, Ratio};

use super::super::Options;
use super::super::account::{RATE, accounts, conservation_checks, times};
use super::super::cpu::Cpus;
use super::{UserSpaceCase, UserSpaceResults, title};
use crate::traffic::BATCH;

/// Adds the results to an outcome.
pub(in crate::bench) fn fill(
    outcome: &mut Outcome,
    options: &Options,
    cpus: &Cpus,
    found: &UserSpaceResults,
) {
    let backend = found.backend;
    for check in conservation_checks(&backend.to_string(), &found.protected) {
        outcome.check(check);
    }
    for case in &found.cases {
        let title = title(case.paths, case.streams);
        let limit = format!("{}, {}", limit(backend), paths(case.paths));
        outcome.figure(format!("{backend}: {title}"), Ratio::of_runs(RATE, &case.pairs, limit));
    }
    let fewest = found.cases.iter().map(|case| case.streams).min().unwrap_or(1);
    for case in found.cases.iter().filter(|case| case.streams > fewest) {
        let of_fewest = |few: &&UserSpaceCase| few.paths == case.paths && few.streams == fewest;
        let Some(few) = found.cases.iter().find(of_fewest) else { continue };
        let pairs: Vec<_> = rates(case).zip(rates(few)).collect();
        let name = format!(
            "{backend}: {} streams relative to {fewest}, {}",
            case.streams,
            paths(case.paths)
        );
        outcome.figure(name, Ratio::of_runs(RATE, &pairs, title(case.paths, fewest)));
    }
    outcome.figure(format!("{backend}: time per frame"), times_of(found));
    outcome.figure(format!("{backend}: frames of the throughput runs"), accounts_of(found));
    notes(outcome, options, cpus, found);
}

/// Name of the limit.
fn limit(backend: Backend) -> &'static str {
    match backend {
        Backend::Xsk => "bare AF_XDP forwarder",
        _ => "bare AF_PACKET ring forwarder",
    }
}

fn paths(paths: usize) -> &'static str {
    if paths == 1 { "one path" } else { "two paths" }
}

/// FRER's frames per second, per round.
fn rates(case: &UserSpaceCase) -> impl Iterator<Item = f64> {
    case.pairs.iter().map(|pair| pair.0)
}

fn times_of(found: &UserSpaceResults) -> Counters {
    times(found.cases.iter().flat_map(|case| {
        let limits = case.pairs.iter().map(|pair| pair.1).collect();
        let bare =
            format!("{}, {}, {} streams", limit(found.backend), paths(case.paths), case.streams);
        [(bare, limits), (title(case.paths, case.streams), rates(case).collect())]
    }))
}

fn accounts_of(found: &UserSpaceResults) -> Counters {
    let bare = found
        .bare
        .iter()
        .map(|account| (format!("{}, {}", limit(found.backend), paths(account.paths)), account));
    let protected = found
        .protected
        .iter()
        .map(|account| (title(account.paths, account.protection.streams()), account));
    accounts(bare.chain(protected))
}

fn notes(outcome: &mut Outcome, options: &Options, cpus: &Cpus, found: &UserSpaceResults) {
    let backend = found.backend;
    outcome.note(match options.offered {
        Some(rate) => format!(
            "{backend}: frames of {} octets from a talker's packet socket, {rate} per second, on another CPU. Both nodes, \
             which are one thread each, run on CPU {}, at normal priority. A time is that between two delivered \
             frames.",
            options.frame_octets, cpus.measured
        ),
        None => format!(
        "{backend}: frames of {} octets from a talker's packet socket. The source, both nodes, \
         which are one thread each, and all kernel work for them run on CPU {}, at one real-time priority. The source sends {BATCH} frames and yields until the nodes have forwarded them. \
         A frame's time is the sum of its costs, including those of source and sink.",
        options.frame_octets, cpus.measured
        ),
    });
    outcome.note(match backend {
        Backend::Xsk => format!(
            "{backend}: the limit has the same AF_XDP sockets and batches, and the same frames in \
             place; its XDP program redirects every frame without parsing. With two paths A copies \
             each frame once, and B drops frames of path 2."
        ),
        _ => format!(
            "{backend}: the limit has the same rings, batches and copies, and parses no frame. \
             With two paths A sends each frame twice, and B drops frames of path 2."
        ),
    });
    if !found.undisturbed && options.offered.is_none() {
        outcome.note(format!(
            "{backend}: without real-time priority, which was refused: the time includes other \
             work of the machine, and the source does not wait for the nodes."
        ));
    }
}

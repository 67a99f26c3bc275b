//! Frames of a chain of nodes, counted and timed, for all benches of FRER.

use onbeat_report::{Cell, Check, Counters, Measurement};

use super::chain::ChainDrops;
use super::frer_chain::{FrerNodeCounters, Protection};

/// Unit of throughput.
pub(super) const RATE: &str = "frames/s";

/// Frames sent into a chain, received from it, and counted on its nodes.
#[derive(Debug)]
pub(super) struct FrameAccount {
    pub(super) paths: usize,
    pub(super) protection: Protection,
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) dropped: ChainDrops,
    pub(super) counted: FrerNodeCounters,
}

/// Checks that frames are conserved, in path order: numbered on A, on the paths, recovered on B,
/// delivered.
pub(super) fn conservation_checks(what: &str, accounts: &[FrameAccount]) -> [Check; 4] {
    let check = |name, value: fn(&FrameAccount) -> u64, limit: fn(&FrameAccount) -> u64| {
        let sum = |of: fn(&FrameAccount) -> u64| accounts.iter().map(of).sum::<u64>();
        Check::eq(format!("{what}: {name}"), sum(value), sum(limit), "frames")
    };
    [
        check(
            "numbered on A or counted as dropped before",
            |account| account.counted.a_input + account.dropped.to_a,
            |account| account.sent,
        ),
        check(
            "copies that reached B or counted as dropped on the paths",
            |account| account.counted.b_input + account.dropped.on_path.iter().sum::<u64>(),
            |account| account.counted.a_output * account.paths as u64,
        ),
        check(
            "copies that B passed or eliminated",
            |account| account.counted.passed + account.counted.discarded,
            |account| account.counted.b_input,
        ),
        check(
            "delivered or counted as dropped after B",
            |account| account.received + account.dropped.to_listener,
            |account| account.counted.passed,
        ),
    ]
}

/// A table of chains.
pub(super) fn accounts<'a>(chains: impl Iterator<Item = (String, &'a FrameAccount)>) -> Counters {
    let mut table = Counters::new([
        "chain",
        "sent",
        "delivered",
        "lost",
        "dropped to A",
        "dropped on path 1",
        "dropped on path 2",
        "dropped to listener",
        "eliminated",
    ]);
    for (name, account) in chains {
        let lost = account.sent.saturating_sub(account.received);
        table.row([
            Cell::from(name),
            account.sent.into(),
            account.received.into(),
            lost.into(),
            account.dropped.to_a.into(),
            account.dropped.on_path[0].into(),
            account.dropped.on_path[1].into(),
            account.dropped.to_listener.into(),
            account.counted.discarded.into(),
        ]);
    }
    table
}

/// A table of chains with their throughput per round, in frames/s.
pub(super) fn times(chains: impl IntoIterator<Item = (String, Vec<f64>)>) -> Counters {
    let mut table = Counters::new([
        ("chain", ""),
        ("throughput", RATE),
        ("median", "ns"),
        ("shortest", "ns"),
        ("longest", "ns"),
    ]);
    for (name, rates) in chains {
        let mut times: Vec<f64> = rates.iter().map(|rate| 1e9 / rate).collect();
        times.sort_by(f64::total_cmp);
        let end = |end: Option<&f64>| Cell::from(end.copied().unwrap_or(f64::NAN));
        table.row([
            name.into(),
            Cell::from(Measurement::of_runs(RATE, &rates).value),
            Cell::from(Measurement::of_runs("ns", &times).value),
            end(times.first()),
            end(times.last()),
        ]);
    }
    table
}

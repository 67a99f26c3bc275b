//! The bench `powerlink`: a complete managing and controlled node by each back end of the port:
//! regularity of cycles, and response time to polls.
//!
//! ```text
//!  managing node       wire                                    controlled node
//!  mn ------------ to_mn  SoC, PReq, PRes: stamp, redirect  to_cn ------------ cn
//! ```
//!
//! `backend` is the table of rows. A `row` is a network in OPERATIONAL, which is paused while others
//! are measured; its `wire` (bpf/powerlink.bpf.c) records frames, `trace` computes delays and
//! intervals, a `case` collects them, and `figures` builds the result.

use onbeat_realtime::interrupt;

mod backend;
mod case;
mod figures;
mod row;
#[cfg(test)]
mod tests;
mod trace;
mod wire;

use std::time::Duration;

use onbeat_report::{Outcome, Progress};

use self::backend::{BACKENDS, Backend};
use self::case::PowerlinkCase;
use self::row::{Row, RowCycles};
use super::cyclic::{self, Bounds, Load, Options, RowState};
use super::port::placement::{LatencyGuard, Machine, Placement};
use crate::load::Hackbench;
use crate::{Result, rounds};

/// Names and descriptions of all rows.
pub fn backends() -> impl Iterator<Item = (&'static str, &'static str)> {
    BACKENDS.iter().map(|backend| (backend.name, backend.summary))
}

/// The default options: all rows.
#[must_use]
pub fn defaults() -> Options {
    Options::defaults(10_000, 5, [5_000, 1_000, 400])
}

/// Checks the options against the limits of this bench.
fn check(options: &Options) -> Result<()> {
    options.check(&Bounds {
        backends: &BACKENDS.iter().map(|backend| backend.name).collect::<Vec<_>>(),
        most_cycles: 1_000_000,
        periods: Duration::from_micros(200)..=Duration::from_secs(1),
        whole_us: true,
    })
}

/// Results of the bench.
type PowerlinkResults = cyclic::CyclicResults<Backend, PowerlinkCase>;

/// Runs the bench.
///
/// # Errors
/// Invalid options; missing support or privileges; [`crate::Error::Interrupted`]. All namespaces and
/// programs are removed then. An unavailable back end is no error, but a row with the reason.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    check(options)?;
    cyclic::run("powerlink", progress, |progress| {
        let found = measure(options, progress)?;
        Ok(move |outcome: &mut Outcome| figures::fill(outcome, options, &found))
    })
}

fn measure(options: &Options, progress: &mut Progress) -> Result<PowerlinkResults> {
    let place = Placement::choose(options.cpus, options.priority)?;
    let loaded = options.loads.contains(&Load::Hackbench);
    // Before any object exists that its tasks could inherit.
    let hackbench = Hackbench::start(if loaded { Hackbench::GROUPS } else { 0 })?;
    let awake = LatencyGuard::begin();
    let wanted = BACKENDS.iter().filter(|backend| options.includes(backend.name, true));
    let mut states: Vec<RowState<Backend>> = wanted.map(|backend| (backend, None)).collect();
    let mut cases = Vec::new();
    for period in &options.periods {
        let period_us = period.as_micros() as u32;
        let mut rows = open(&mut states, options, period_us, &place, progress)?;
        let mut first = 0;
        for (round, counted) in
            rounds::split(options.cycles, options.rounds).into_iter().enumerate()
        {
            for (case, &load) in options.loads.iter().enumerate() {
                let _running = (load == Load::Hackbench).then(|| hackbench.run()).transpose()?;
                // The first row changes each round, so that none always follows the same one.
                first += usize::from(round > 0);
                let at = first % rows.len();
                let (last, begin) = rows.split_at_mut(at);
                for MeasuredRow { row, cases } in begin.iter_mut().chain(last) {
                    let name = row.backend.name;
                    let cycles = RowCycles::new(period_us, counted);
                    let taken = row.run(cycles, &place, || {
                        let round = round + 1;
                        progress.update(|| {
                            let rounds = options.rounds;
                            format!("{period_us} us, round {round} of {rounds}, {load}, {name}")
                        });
                    })?;
                    cases[case].add(counted, &taken);
                }
            }
        }
        let mut of_period: Vec<PowerlinkCase> =
            rows.into_iter().flat_map(|measured| measured.cases).collect();
        // Stable: the rows keep their order.
        of_period.sort_by_key(|case| options.loads.iter().position(|load| *load == case.load));
        cases.extend(of_period);
    }
    Ok(PowerlinkResults { rows: states, cases, machine: Machine::new(place, &awake) })
}

/// A row, and its case per load of the options.
struct MeasuredRow {
    row: Row,
    cases: Vec<PowerlinkCase>,
}

/// Boots a network for each row.
fn open(
    states: &mut [RowState<Backend>],
    options: &Options,
    period_us: u32,
    place: &Placement,
    progress: &mut Progress,
) -> Result<Vec<MeasuredRow>> {
    let events = row::events(rounds::split(options.cycles, options.rounds).into_iter().max());
    let mut rows = Vec::new();
    for (backend, why_not) in states.iter_mut().filter(|(_, why_not)| why_not.is_none()) {
        interrupt::check()?;
        progress.update(|| format!("{period_us} us: booting {}", backend.name));
        match Row::open(backend, period_us, events)? {
            Ok(mut row) => {
                row.boot(place)?;
                let case = |load: &Load| PowerlinkCase::new(backend.name, period_us, *load);
                rows.push(MeasuredRow { row, cases: options.loads.iter().map(case).collect() });
            }
            Err(why) => *why_not = Some(why),
        }
    }
    cyclic::require_any(rows, states)
}

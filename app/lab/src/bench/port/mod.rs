//! The bench `port`: compares the back ends of the real-time port with each other, with a plain libpcap
//! program, and with the minimum possible delay.
//!
//! ```text
//!  managing node       wire                                    controlled node
//!  mn ------------ to_mn  request, response: stamp, redirect  to_cn ------------ cn
//! ```
//!
//! Each back end has a `rig` of its own, whose `wire` observes; `backend` is the table of rows,
//! `stack`, `pcap` and `limit` run on the rigs. A `round` runs some rows for some cycles in the order
//! of `plan`; `series` and `case` compute delays from stamps, and `figures` builds the result.

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt;

pub(super) mod backend;
mod capture;
mod case;
mod figures;
mod frames;
mod limit;
mod node;
mod pcap;
pub(super) mod placement;
mod plan;
mod programs;
pub(super) mod rig;
mod round;
pub(super) mod series;
mod sleeper;
mod stack;
#[cfg(test)]
mod tests;
mod wire;

use std::cmp::Reverse;
use std::time::Duration;

use onbeat_report::{Outcome, Progress, format};

use self::backend::{BACKENDS, Backend};
use self::case::PortCase;
use self::placement::{LatencyGuard, Machine, Placement};
use self::plan::Plan;
use self::programs::Program;
use self::rig::Rig;
use self::round::{RoundCycles, Row};
use super::cyclic::{self, Bounds, Load, Options, RowState};
use crate::load::Hackbench;
use crate::{Result, rounds};

/// Room for the stamps of frames beyond the plan, so that these are noticed.
const SPARE_STAMPS: u64 = 64;

/// Names and descriptions of all rows.
pub fn backends() -> impl Iterator<Item = (&'static str, &'static str)> {
    BACKENDS.iter().map(|backend| (backend.name, backend.summary))
}

/// The default options: all rows but those that occupy a whole CPU.
#[must_use]
pub fn defaults() -> Options {
    Options::defaults(100_000, 10, [5_000, 1_000, 250])
}

/// Checks the options against the limits of this bench.
fn check(options: &Options) -> Result<()> {
    options.check(&Bounds {
        backends: &BACKENDS.iter().map(|backend| backend.name).collect::<Vec<_>>(),
        most_cycles: 10_000_000,
        periods: Duration::from_micros(100)..=Duration::from_secs(1),
        whole_us: false,
    })
}

/// Results of the bench.
type PortResults = cyclic::CyclicResults<Backend, PortCase>;

/// Runs the bench.
///
/// # Errors
/// Invalid options; missing support or privileges; [`crate::Error::Interrupted`]. All namespaces and
/// programs are removed then. An unavailable back end is no error, but a row with the reason.
pub fn run(options: &Options, progress: &mut Progress) -> Result<Outcome> {
    check(options)?;
    cyclic::run("port", progress, |progress| {
        let (found, programs) = measure(options, progress)?;
        Ok(move |outcome: &mut Outcome| figures::fill(outcome, options, &found, &programs))
    })
}

fn measure(options: &Options, progress: &mut Progress) -> Result<(PortResults, Vec<Program>)> {
    let place = Placement::choose(options.cpus, options.priority)?;
    let loaded = options.loads.contains(&Load::Hackbench);
    // Before any object exists that its tasks could inherit.
    let hackbench = Hackbench::start(if loaded { Hackbench::GROUPS } else { 0 })?;
    let awake = LatencyGuard::begin();
    let (mut rows, states) = open(options, progress)?;
    let schedule = Schedule::new(options, &mut rows);
    let mut clock = RemainingTime { planned_ns: schedule.duration_ns() };
    for turn in &schedule.turns {
        let _running = (turn.load == Load::Hackbench).then(|| hackbench.run()).transpose()?;
        for RowGroup { group, cycles, case } in &turn.parts {
            interrupt::check()?;
            let begun = now_ns();
            let (mut members, cases): (Vec<&mut Row>, Vec<&mut PortCase>) = rows
                .iter_mut()
                .enumerate()
                .filter(|(index, _)| group.contains(index))
                .map(|(_, MeasuredRow { row, cases })| (row, &mut cases[*case]))
                .unzip();
            let title = title(&members, *cycles, turn.load, options.rounds);
            let taken = round::run(&mut members, *cycles, &place, || {
                progress.update(|| format!("{title}: {} remaining", clock.left(now_ns() - begun)));
            })?;
            clock.planned_ns -= cycles.duration_ns();
            for (case, taken) in cases.into_iter().zip(taken) {
                case.add(*cycles, taken);
            }
        }
    }
    progress.update(|| "measuring the run time of XDP programs".into());
    let programs = programs::measure(rows.iter_mut().map(|measured| &mut measured.row), &place)?;
    let mut cases: Vec<PortCase> = rows.into_iter().flat_map(|measured| measured.cases).collect();
    // Stable: the rows keep their order.
    cases.sort_by_key(|case| (Reverse(case.period_ns), case.load as u8));
    Ok((PortResults { rows: states, cases, machine: Machine::new(place, &awake) }, programs))
}

/// Builds a rig for each row and opens its back end.
fn open(
    options: &Options,
    progress: &mut Progress,
) -> Result<(Vec<MeasuredRow>, Vec<RowState<Backend>>)> {
    let most = options.periods.iter().flat_map(|period| {
        let warm_up = plan::warm_up(period.as_nanos() as u64);
        rounds::split(options.cycles, options.rounds).into_iter().map(move |n| n + warm_up)
    });
    let stamps = (most.max().unwrap_or(0) + SPARE_STAMPS) as u32;
    let (mut rows, mut states) = (Vec::new(), Vec::new());
    for backend in BACKENDS.iter().filter(|row| options.includes(row.name, !row.spins)) {
        interrupt::check()?;
        progress.update(|| format!("opening {}", backend.name));
        let rig = Rig::build(backend.answers(), stamps)?;
        match backend.open(&rig) {
            Ok((mn, cn)) => {
                rows.push(MeasuredRow { row: Row { backend, mn, cn, rig }, cases: Vec::new() });
                states.push((backend, None));
            }
            Err(why) => states.push((backend, Some(why))),
        }
    }
    Ok((cyclic::require_any(rows, &states)?, states))
}

/// A row, and its case for each load and period.
struct MeasuredRow {
    row: Row,
    cases: Vec<PortCase>,
}

/// Rows that run together.
struct RowGroup {
    group: Vec<usize>,
    cycles: RoundCycles,
    /// Index into the cases of each row.
    case: usize,
}

/// Rounds under one load.
struct LoadRounds {
    load: Load,
    parts: Vec<RowGroup>,
}

/// All rounds in order; each runs idle and loaded, at each period, so that changes of the machine
/// affect all of them.
struct Schedule {
    turns: Vec<LoadRounds>,
}

impl Schedule {
    /// Gives each row an empty case per load and period.
    fn new(options: &Options, rows: &mut [MeasuredRow]) -> Self {
        let spins: Vec<bool> = rows.iter().map(|measured| measured.row.backend.spins).collect();
        let mut turns = Vec::new();
        for (round, counted) in
            rounds::split(options.cycles, options.rounds).into_iter().enumerate()
        {
            let mut case = 0;
            for &load in &options.loads {
                let mut parts = Vec::new();
                for period in &options.periods {
                    let period_ns = period.as_nanos() as u64;
                    let warm_up = plan::warm_up(period_ns);
                    let cycles = RoundCycles { period_ns, warm_up, counted, round: round as u32 };
                    for group in Plan::new(period_ns, &spins).groups {
                        for index in group.iter().filter(|_| round == 0) {
                            let MeasuredRow { row, cases } = &mut rows[*index];
                            let together = group.len() > 1;
                            cases.push(PortCase::new(row.backend.name, period_ns, load, together));
                        }
                        parts.push(RowGroup { group, cycles, case });
                    }
                    case += 1;
                }
                turns.push(LoadRounds { load, parts });
            }
        }
        Self { turns }
    }

    fn duration_ns(&self) -> u64 {
        self.turns.iter().flat_map(|turn| &turn.parts).map(|part| part.cycles.duration_ns()).sum()
    }
}

/// The remaining rounds.
struct RemainingTime {
    planned_ns: u64,
}

impl RemainingTime {
    /// The remaining time as text; `since_ns` of the current round have passed.
    fn left(&self, since_ns: u64) -> String {
        rounds::in_words(self.planned_ns.saturating_sub(since_ns))
    }
}

fn title(rows: &[&mut Row], cycles: RoundCycles, load: Load, rounds: u32) -> String {
    let names: Vec<&str> = rows.iter().map(|row| row.backend.name).collect();
    let period = format::duration_ns(cycles.period_ns as f64);
    format!("round {} of {rounds}, {period}, {load}, {}", cycles.round + 1, names.join(" + "))
}

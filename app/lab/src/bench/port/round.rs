//! A round: some back ends run at the same time for a number of cycles, with two threads each.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use onbeat_realtime::clock::{SECOND, now_ns, sleep_until};
use onbeat_realtime::interrupt;

use super::backend::Backend;
use super::node::{ControlledNode, ManagingNode, PortNodeCounters};
use super::placement::Placement;
use super::plan::Plan;
use super::rig::Rig;
use super::wire::WireCounters;
use crate::{Error, Result};

/// From the start of all threads to the first cycle.
const LEAD_NS: u64 = 20_000_000;
/// Interval at which a thread checks whether the others have started.
const LOOK_NS: u64 = 200_000;
/// Longest uninterrupted run of a node: the maximum delay until it stops.
const SLICE_NS: u64 = 20_000_000;
/// Maximum duration of a round beyond its cycles.
const BOUND_NS: u64 = 60 * SECOND;
/// Time after the last request within which the last response has arrived or is lost.
const DRAIN: Duration = Duration::from_secs(2);
/// Stack size, all of it locked into memory.
const STACK: usize = 256 << 10;

/// A back end with its rig.
pub(super) struct Row {
    pub(super) backend: &'static Backend,
    // Closed before the interfaces are removed.
    pub(super) mn: Box<dyn ManagingNode>,
    pub(super) cn: Box<dyn ControlledNode>,
    pub(super) rig: Rig,
}

/// The cycles of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundCycles {
    pub(super) period_ns: u64,
    /// Cycles of warm-up, which do not count.
    pub(super) warm_up: u64,
    pub(super) counted: u64,
    /// Number of the round at this period and load.
    pub(super) round: u32,
}

impl RoundCycles {
    pub(super) fn all(self) -> u64 {
        self.warm_up + self.counted
    }

    /// Its duration in nanoseconds.
    pub(super) fn duration_ns(self) -> u64 {
        self.all() * self.period_ns + LEAD_NS + 2 * SLICE_NS
    }
}

/// The record of one row in a round.
#[derive(Debug)]
pub(super) struct RoundRecord {
    /// Time of the first planned request, including warm-up.
    pub(super) first_ns: u64,
    pub(super) requests: Vec<u64>,
    pub(super) responses: Vec<u64>,
    pub(super) passed: [WireCounters; 2],
    /// CPU time of the threads in the cycles that count: managing node, controlled node.
    pub(super) cpu_ns: [u64; 2],
    /// Counters of this round: managing node, controlled node.
    pub(super) counters: [PortNodeCounters; 2],
    pub(super) wakeups: Vec<u64>,
}

/// State shared by the threads of a round.
struct RoundState {
    /// Number of threads, and of those that have started.
    threads: usize,
    ready: AtomicUsize,
    start_ns: OnceLock<u64>,
    stop: AtomicBool,
    finished: AtomicUsize,
}

/// Time table of one row.
#[derive(Debug, Clone, Copy)]
struct RowTimes {
    first: u64,
    counts_from: u64,
    end: u64,
}

impl RoundState {
    /// Waits for all threads; returns the times of the row that starts `offset` after the first.
    fn begin(&self, cycles: RoundCycles, offset: u64) -> RowTimes {
        self.ready.fetch_add(1, Ordering::Relaxed);
        while self.ready.load(Ordering::Relaxed) < self.threads && !self.stopped() {
            sleep_until(now_ns() + LOOK_NS);
        }
        let first = *self.start_ns.get_or_init(|| now_ns() + LEAD_NS) + offset;
        // Halfway between two requests.
        let before = |cycle: u64| first + cycle * cycles.period_ns - cycles.period_ns / 2;
        RowTimes { first, counts_from: before(cycles.warm_up), end: before(cycles.all()) }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Stops the round if its thread exits because of an error or a panic.
struct StopGuard<'a>(&'a RoundState);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// CPU time of this thread in the cycles that count.
#[derive(Debug, Default)]
struct CpuMeter {
    from: Option<u64>,
    to: Option<u64>,
}

impl CpuMeter {
    fn sample(&mut self, times: RowTimes) {
        let now = now_ns();
        if self.from.is_none() && now >= times.counts_from {
            self.from = Some(thread_time_ns());
        }
        if self.to.is_none() && now >= times.end {
            self.to = Some(thread_time_ns());
        }
    }

    /// The time until which no sample is needed.
    fn next(&self, times: RowTimes) -> u64 {
        let slice = now_ns() + SLICE_NS;
        match (self.from, self.to) {
            (None, _) => slice.min(times.counts_from),
            (_, None) => slice.min(times.end),
            _ => slice,
        }
    }

    fn ns(&self) -> u64 {
        self.to.zip(self.from).map_or(0, |(to, from)| to.saturating_sub(from))
    }
}

fn manage(
    node: &mut dyn ManagingNode,
    shared: &RoundState,
    place: &Placement,
    cycles: RoundCycles,
    offset: u64,
) -> Result<(u64, u64)> {
    let _stop = StopGuard(shared);
    let placed = place.take(place.mn_cpu);
    let times = shared.begin(cycles, offset);
    let _placed = placed?;
    node.start_requests(times.first, cycles.period_ns)?;
    let mut meter = CpuMeter::default();
    while meter.to.is_none() && !shared.stopped() {
        node.serve(meter.next(times))?;
        meter.sample(times);
    }
    node.finish()?;
    shared.finished.fetch_add(1, Ordering::Relaxed);
    while !shared.stopped() {
        node.serve(now_ns() + SLICE_NS)?;
    }
    Ok((times.first, meter.ns()))
}

fn control(
    node: &mut dyn ControlledNode,
    shared: &RoundState,
    place: &Placement,
    cycles: RoundCycles,
    offset: u64,
) -> Result<u64> {
    let _stop = StopGuard(shared);
    let placed = place.take(place.cn_cpu);
    let times = shared.begin(cycles, offset);
    let _placed = placed?;
    let mut meter = CpuMeter::default();
    while !shared.stopped() {
        node.serve(meter.next(times))?;
        meter.sample(times);
    }
    Ok(meter.ns())
}

/// Runs a round of these rows; `tick` is called periodically.
pub(super) fn run(
    rows: &mut [&mut Row],
    cycles: RoundCycles,
    place: &Placement,
    mut tick: impl FnMut(),
) -> Result<Vec<RoundRecord>> {
    let count = rows.len();
    let mut before = Vec::with_capacity(count);
    for row in rows.iter_mut() {
        row.rig.wire.begin()?;
        row.mn.take_wakeups();
        before.push([row.mn.counters()?, row.cn.counters()?]);
    }
    let shared = RoundState {
        threads: 2 * count,
        ready: AtomicUsize::new(0),
        start_ns: OnceLock::new(),
        stop: AtomicBool::new(false),
        finished: AtomicUsize::new(0),
    };
    let (threads, drained) = thread::scope(|scope| {
        let mut threads = Vec::with_capacity(count);
        let mut wires = Vec::with_capacity(count);
        let shared = &shared;
        for (position, row) in rows.iter_mut().enumerate() {
            let offset = Plan::offset_ns(cycles.period_ns, count, position, cycles.round);
            let Row { mn, cn, rig, .. } = &mut **row;
            wires.push(&mut rig.wire);
            let thread =
                |role: &str| thread::Builder::new().name(format!("bench-{role}")).stack_size(STACK);
            let mn = thread("mn")
                .spawn_scoped(scope, move || manage(&mut **mn, shared, place, cycles, offset));
            let cn = thread("cn")
                .spawn_scoped(scope, move || control(&mut **cn, shared, place, cycles, offset));
            if mn.is_err() || cn.is_err() {
                shared.stop();
            }
            threads.push((mn, cn));
        }
        let over = now_ns() + cycles.duration_ns() + BOUND_NS;
        let finished = || shared.finished.load(Ordering::Relaxed) == count;
        let mut waited = Ok(());
        while waited.is_ok() && !finished() && !shared.stopped() && now_ns() < over {
            waited = interrupt::pause_until(now_ns() + SLICE_NS, &mut tick);
        }
        let timely = finished() || shared.stopped();
        let mut complete = || {
            wires.iter_mut().all(|wire| {
                wire.passed().is_ok_and(|[requests, responses]| requests.count <= responses.count)
            })
        };
        let drained = waited.and_then(|()| interrupt::wait_until(DRAIN, &mut complete));
        shared.stop();
        let joined: Vec<_> = threads
            .into_iter()
            .map(|(mn, cn)| {
                let mn =
                    mn.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
                let cn =
                    cn.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
                (mn, cn)
            })
            .collect();
        (joined, drained.map(|_| timely))
    });
    if !drained? {
        let seconds = (cycles.duration_ns() + BOUND_NS) as f64 / SECOND as f64;
        return Err(Error::Timeout { what: "the end of a round".into(), seconds });
    }
    let mut taken = Vec::with_capacity(count);
    for ((row, before), (mn, cn)) in rows.iter_mut().zip(before).zip(threads) {
        let started = |error| Error::io("start a thread", error);
        let (first_ns, mn_ns) = mn.map_err(started)??;
        let cn_ns = cn.map_err(started)??;
        let [requests, responses] = row.rig.wire.stamps()?;
        let counters = [row.mn.counters()?.since(before[0]), row.cn.counters()?.since(before[1])];
        taken.push(RoundRecord {
            first_ns,
            requests,
            responses,
            passed: row.rig.wire.passed()?,
            cpu_ns: [mn_ns, cn_ns],
            counters,
            wakeups: row.mn.take_wakeups(),
        });
    }
    Ok(taken)
}

fn thread_time_ns() -> u64 {
    // The clock exists on every Linux.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}

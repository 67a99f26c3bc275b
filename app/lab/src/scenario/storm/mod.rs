//! The experiment of the paper "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS
//! 2006): a real-time task and a UDP server on one CPU, which also receives packets for the server;
//! with the stock kernel, and with `onbeat irq guard`.
//!
//! ```text
//!            storm                  CPU of the server: task (SCHED_FIFO 50), server (normal),
//!   client ========== server                           receiver (SCHED_FIFO 80), softirq
//!            stamps                 first other CPU:   client, guard, ledger's reader
//! ```
//!
//! The stock kernel receives packets in softirq on the server's CPU (RPS), as with a NIC that has its
//! interrupt there. An addition to the paper: a receiver at high priority while a process at low
//! priority is flooded by another interface.
//!
//! `actors` are the processes, `client` sends, `rig` is the network, `measure` and `latency` are one
//! measurement each; `figures` builds the result.

mod actors;
mod board;
mod client;
mod figures;
mod latency;
mod measure;
mod rig;

use std::num::NonZeroU32;
use std::time::Duration;

use onbeat_realtime::Profile;
use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_report::Recorder;

use self::client::Pattern;
use self::measure::{Length, StormResult, Task, measure, top_rate};
use self::rig::{Rig, Side};
use super::options::SeedOptions;
use super::stage::Stage;
use crate::cpus::CpuLock;
use crate::{Error, Result, Topology, cpus, rounds};

/// The paper's rates, in 10^3 packets/s; used here as shares of this machine's maximum.
const PAPER_RATES: [f64; 8] = [4.2, 8.6, 16.6, 31.1, 54.1, 87.3, 124.9, 218.0];
/// The paper's times, in seconds: working time, sleeping time, period of jobs.
const WORK_S: f64 = 100.0;
const SLEEP_S: f64 = 10.0;
const PERIOD_S: f64 = 1.0;
/// The share of a job in its period: 0.95 in the paper, which leaves 5 % to interrupts. Current kernels
/// reserve these 5 % for normal processes (RT throttling, the deadline server).
const UTILIZATION: f64 = 0.85;
/// The mean size of a burst in the paper.
const BURST: f64 = 5000.0;
/// Maximum wait for another run that uses the CPU.
const HOLDER_BOUND: Duration = Duration::from_secs(600);
/// Maximum number of attempts of a measurement in which the task gets no CPU time.
const ATTEMPTS: u64 = 5;

pub(super) fn network() -> Topology {
    rig::network()
}

/// Parameters of the experiment on this machine.
#[derive(Debug, Clone, Copy)]
struct Plan {
    scale: f64,
    seed: u64,
    /// The client's CPU, and the server's.
    cpus: [u16; 2],
    length: Length,
    period_ns: u64,
    /// Work of a job.
    work_ns: u64,
    /// Maximum datagrams per second.
    top: u64,
}

/// Results at one rate.
#[derive(Debug, Clone)]
struct Row {
    /// Datagrams per second; 0: none.
    rate: u64,
    /// Stock and guarded, in each round.
    busy: [Vec<StormResult>; 2],
    bursts: [StormResult; 2],
    /// Measurements repeated because the task got no CPU time.
    repeated: u64,
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Duration of each run, relative to the 110 s of Zhang and West (RTSS 2006)
    #[arg(long, value_name = "NUMBER", default_value_t = 0.05)]
    scale: f64,
    /// Repeat the measurement of accounting errors N times, for their spread
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    rounds: NonZeroU32,
    #[command(flatten)]
    seed: SeedOptions,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let scale = options.scale;
    if !(0.005..=1.0).contains(&scale) {
        let reason = "use 0.005 (runs of half a second) to 1 (the paper's 110 s)".into();
        return Err(Error::Option { option: "scale", value: scale.to_string(), reason });
    }
    let usable = cpus::usable()?;
    let [first, .., last] = usable[..] else {
        return Err(Error::Invalid(
            "requires two CPUs: one for the server, one for the sender".to_owned(),
        ));
    };
    stage.draw(&network());
    // This program, and all threads that it starts, do not run on the receiving CPU.
    let name = "onbeat lab run interrupt-storm";
    let _cpu = CpuLock::take(last, name, HOLDER_BOUND, |holder| {
        stage.show_step(&format!("waiting for CPU {last}, where {holder} runs real-time tasks"));
    })?;
    let _place = Profile::default().on_cpus([first].into_iter().collect()).enter()?;
    stage.show_step("building the network");
    let mut rig = Rig::build(last)?;
    let before = rig.threads(Side::Guarded)?;
    let plan = plan(stage, &rig, [first, last], options)?;
    let mut rows = Vec::new();
    for (number, rate) in rates(plan.top).enumerate() {
        rows.push(row(stage, &rig, &plan, number as u64, rate)?);
    }
    for _ in 1..options.rounds.get() {
        for row in &mut rows {
            row.repeat(stage, &rig, &plan)?;
        }
    }
    let mut recorder = Recorder::new();
    let mut stamped = Vec::new();
    for flooded in [false, true] {
        for side in Side::BOTH {
            interrupt::check()?;
            stage.show_step(&format!("{}: a receiver at high priority", side.name()));
            let for_ns = plan.length.work_ns;
            let flood = flooded.then_some(plan.top);
            let found = latency::measure(&rig, side, last, for_ns, flood, &mut recorder)?;
            stamped.push((side, flooded, found));
        }
    }
    let refused = rig.refused();
    let left = rig.end_guard()?;
    let after = rig.threads(Side::Guarded)?;
    figures::checks(stage, &rows, &stamped, (before, left, after));
    figures::fill(stage, &plan, &rows, &stamped, &recorder);
    refused.into_iter().for_each(|refused| stage.note(refused));
    Ok(())
}

/// Measures the speed of this machine, and derives the parameters.
fn plan(stage: &mut Stage<'_>, rig: &Rig, cpus: [u16; 2], options: &Options) -> Result<Plan> {
    let Options { scale, rounds, seed: SeedOptions { seed } } = *options;
    let ns = |seconds: f64| (seconds * scale * SECOND as f64) as u64;
    let length = Length { work_ns: ns(WORK_S), sleep_ns: ns(SLEEP_S) };
    stage.show_step("the sender only");
    let top = top_rate(rig, Side::Stock, cpus[1], length.sleep_ns.max(SECOND / 5))?;
    let period_ns = ns(PERIOD_S);
    let work_ns = (UTILIZATION * period_ns as f64) as u64;
    let runs = (2 + 2 * u64::from(rounds.get())) * (PAPER_RATES.len() as u64 + 1);
    let takes = runs * (length.work_ns + length.sleep_ns + SECOND / 2) + 4 * length.work_ns;
    stage.progress.line(&format!("estimated duration: {}", rounds::in_words(takes)));
    Ok(Plan { scale, seed, cpus, length, period_ns, work_ns, top })
}

/// 0 first, then the paper's rates, as shares of the highest.
fn rates(top: u64) -> impl Iterator<Item = u64> {
    let highest = PAPER_RATES[PAPER_RATES.len() - 1];
    let shares = PAPER_RATES.into_iter().map(move |rate| rate / highest);
    std::iter::once(0).chain(shares.map(move |share| (share * top as f64) as u64))
}

/// Measures stock and guarded alternately, so that disturbances affect both.
fn row(stage: &mut Stage<'_>, rig: &Rig, plan: &Plan, number: u64, rate: u64) -> Result<Row> {
    let mut row = Row { rate, busy: Default::default(), bursts: Default::default(), repeated: 0 };
    row.repeat(stage, rig, plan)?;
    let task = Task::Periodic { period_ns: plan.period_ns, work_ns: plan.work_ns };
    let mean = ((BURST * plan.scale) as u64).max(2);
    let bursts = Pattern::Bursts { rate, mean, top: plan.top, seed: plan.seed + number };
    for (at, side) in Side::BOTH.into_iter().enumerate() {
        row.bursts[at] = row.measure(stage, rig, plan, side, task, bursts)?;
    }
    Ok(row)
}

impl Row {
    /// Adds a round of the computing task.
    fn repeat(&mut self, stage: &mut Stage<'_>, rig: &Rig, plan: &Plan) -> Result<()> {
        let constant = Pattern::Constant { rate: self.rate };
        for (at, side) in Side::BOTH.into_iter().enumerate() {
            let found = self.measure(stage, rig, plan, side, Task::Busy, constant)?;
            self.busy[at].push(found);
        }
        Ok(())
    }

    fn measure(
        &mut self,
        stage: &mut Stage<'_>,
        rig: &Rig,
        plan: &Plan,
        side: Side,
        task: Task,
        pattern: Pattern,
    ) -> Result<StormResult> {
        let (name, rate) = (side.name(), self.rate);
        let what = match task {
            Task::Busy => "computing",
            Task::Periodic { .. } => "with deadlines",
        };
        let pattern = (rate > 0).then_some(pattern);
        let (found, repeated) = until_it_ran(|| {
            interrupt::check()?;
            stage.show_step(&format!("{name}: a task {what}, {rate} packets/s"));
            measure(rig, side, plan.cpus, task, plan.length, pattern)
        })?;
        self.repeated += repeated;
        Ok(found)
    }
}

/// Measures until the task got CPU time, at most [`ATTEMPTS`] times, and counts the repetitions. Other
/// real-time tasks of the host may use the CPU for the whole measurement; such a run is no result of
/// the stock kernel or the guard.
fn until_it_ran(mut measure: impl FnMut() -> Result<StormResult>) -> Result<(StormResult, u64)> {
    let mut repeated = 0;
    loop {
        let found = measure()?;
        if !found.is_starved() || repeated + 1 == ATTEMPTS {
            return Ok((found, repeated));
        }
        repeated += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_without_cpu_time_is_repeated_and_counted() {
        let starved = StormResult::default();
        let ran = StormResult { worked_ns: 1, ..starved };
        // It had CPU time and did no work: a valid result.
        let idle = StormResult { kernel_ns: 1.0, ..starved };
        let play = |mut rest: Vec<StormResult>| {
            let (found, repeated) = until_it_ran(|| Ok(rest.remove(0))).unwrap();
            (found.worked_ns, repeated, rest.len())
        };
        assert_eq!(play(vec![ran, ran]), (1, 0, 1));
        assert_eq!(play(vec![idle, ran]), (0, 0, 1));
        assert_eq!(play(vec![starved, starved, ran]), (1, 2, 0));
        // The check of idle runs fails then.
        assert_eq!(play(vec![starved; 9]), (0, ATTEMPTS - 1, 9 - ATTEMPTS as usize));
    }
}

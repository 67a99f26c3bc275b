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
//! `actors` are the processes, `client` sends, `rig` is the network, `conditions` disturb, `measure` and
//! `latency` are one measurement each; `figures` builds the result.

mod actors;
mod board;
mod client;
mod conditions;
mod figures;
mod latency;
mod measure;
mod rig;

use std::time::Duration;

use onbeat_realtime::Profile;
use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_report::Recorder;
use onbeat_terminal::values::one_of;

use self::client::Pattern;
use self::conditions::{Condition, Disturbance};
use self::measure::{Length, StormResult, Task, measure, start_ledger, top_rate};
use self::rig::{Rig, Side};
use super::options::SeedOptions;
use super::stage::Stage;
use crate::cpus::CpuLock;
use crate::{Error, Result, Topology, cpus, rounds};

/// The paper's rates, in 10^3 packets/s; used here as shares of this machine's maximum.
const PAPER_RATES: [f64; 8] = [4.2, 8.6, 16.6, 31.1, 54.1, 87.3, 124.9, 218.0];
/// The paper's deadlines missed by rate, without and with its scheduling, in percent.
const PAPER_MISSES: [[f64; 8]; 2] = [[0.0, 0.0, 0.0, 15.0, 55.0, 95.0, 100.0, 100.0], [0.0; 8]];
/// The paper's shares of packets that the server received, in percent.
const PAPER_SHARES: [[f64; 8]; 2] =
    [[8.0, 5.0, 3.0, 1.0, 0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 8.0, 8.0, 7.0, 7.0, 6.0]];
/// The paper's interrupt times, in ticks of 10 ms per 100 s.
const PAPER_INTERRUPTS: [[f64; 8]; 2] =
    [[100.0, 400.0, 800.0, 1300.0, 1700.0, 1800.0, 2400.0, 2600.0], [100.0; 8]];
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
    runs: u32,
    /// Whether only deadlines and the server's share are measured.
    deadlines_only: bool,
    /// The client's CPU, and the server's.
    cpus: [u16; 2],
    length: Length,
    period_ns: u64,
    /// Work of a job.
    work_ns: u64,
    /// Whether the task's CPU time shows CPU steal.
    records_steal: bool,
    /// Maximum datagrams per second.
    top: u64,
}

/// Results at one rate, one of each run.
#[derive(Debug, Clone)]
struct Row {
    /// The paper's rate, by its number from 1 on, and datagrams per second; 0: none.
    number: usize,
    rate: u64,
    /// By [`Side::ALL`]; the control is with deadlines only.
    busy: [Vec<StormResult>; 3],
    bursts: [Vec<StormResult>; 3],
    /// Measurements repeated because the task got no CPU time.
    repeated: u64,
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Duration of each run, relative to the 110 s of Zhang and West (RTSS 2006)
    #[arg(long, value_name = "NUMBER", default_value_t = 0.05)]
    scale: f64,
    /// Repeat each measurement this number of times, stock and guard alternating
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measure at one of the eight rates only: 1 is the lowest
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=8))]
    rate: Option<u8>,
    /// Measure deadlines and the server's packets only
    #[arg(long)]
    deadlines_only: bool,
    /// Measure beside loads and changes of settings
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = one_of(Condition::ALL))]
    beside: Vec<Condition>,
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
    let mut rig = Rig::build(last, options.beside.contains(&Condition::Rps))?;
    let before = rig.threads(Side::Guarded)?;
    let plan = plan(stage, &rig, [first, last], options)?;
    let disturbance = Disturbance::start(&options.beside, &rig, &usable)?;
    let mut rows = Vec::new();
    for (number, rate) in rates(plan.top).enumerate() {
        if options.rate.is_none_or(|only| usize::from(only) == number) {
            rows.push(row(stage, &rig, &plan, number, rate)?);
        }
    }
    let mut recorder = Recorder::new();
    let mut stamped = Vec::new();
    let latencies = [false, true].into_iter().filter(|_| !plan.deadlines_only);
    for flooded in latencies {
        for side in Side::BOTH {
            interrupt::check()?;
            stage.show_step(&format!("{}: a receiver at high priority", side.name()));
            let for_ns = plan.length.work_ns;
            let flood = flooded.then_some(plan.top);
            let found = latency::measure(&rig, side, last, for_ns, flood, &mut recorder)?;
            stamped.push((side, flooded, found));
        }
    }
    drop(disturbance);
    let refused = rig.refused();
    let left = rig.end_guard()?;
    let after = rig.threads(Side::Guarded)?;
    figures::checks(stage, &rows, &stamped, (before, left, after));
    figures::fill(stage, &plan, &rows, &stamped, &recorder);
    for condition in &options.beside {
        stage.note(format!("beside: {}", condition.text()));
    }
    refused.into_iter().for_each(|refused| stage.note(refused));
    Ok(())
}

/// Measures the speed of this machine, and derives the parameters.
fn plan(stage: &mut Stage<'_>, rig: &Rig, cpus: [u16; 2], options: &Options) -> Result<Plan> {
    let Options { scale, runs, deadlines_only, seed: SeedOptions { seed }, .. } = *options;
    let ns = |seconds: f64| (seconds * scale * SECOND as f64) as u64;
    let length = Length { work_ns: ns(WORK_S), sleep_ns: ns(SLEEP_S) };
    stage.show_step("the sender only");
    let top = top_rate(rig, Side::Stock, cpus[1], length.sleep_ns.max(SECOND / 5))?;
    let period_ns = ns(PERIOD_S);
    let work_ns = (UTILIZATION * period_ns as f64) as u64;
    let records_steal = onbeat_irq::host::irq_time_accounting() == Some(false);
    let rates = if options.rate.is_some() { 1 } else { PAPER_RATES.len() as u64 + 1 };
    let (kinds, latencies) = if deadlines_only { (3, 0) } else { (5, 4) };
    let takes = kinds * rates * u64::from(runs) * (length.work_ns + length.sleep_ns + SECOND / 2)
        + latencies * length.work_ns;
    stage.progress.line(&format!("estimated duration: {}", rounds::in_words(takes)));
    Ok(Plan {
        scale,
        seed,
        runs,
        deadlines_only,
        cpus,
        length,
        period_ns,
        work_ns,
        records_steal,
        top,
    })
}

/// 0 first, then the paper's rates, as shares of the highest.
fn rates(top: u64) -> impl Iterator<Item = u64> {
    let highest = PAPER_RATES[PAPER_RATES.len() - 1];
    let shares = PAPER_RATES.into_iter().map(move |rate| rate / highest);
    std::iter::once(0).chain(shares.map(move |share| (share * top as f64) as u64))
}

/// Measures all sides alternately, so that disturbances affect each.
fn row(stage: &mut Stage<'_>, rig: &Rig, plan: &Plan, number: usize, rate: u64) -> Result<Row> {
    let mut row =
        Row { number, rate, busy: Default::default(), bursts: Default::default(), repeated: 0 };
    let Plan { period_ns, work_ns, records_steal, .. } = *plan;
    let mean = ((BURST * plan.scale) as u64).max(2);
    let constant = Pattern::Constant { rate };
    for run in 0..plan.runs {
        let seed = plan.seed + number as u64 + u64::from(run) * PAPER_RATES.len() as u64;
        let bursts = Pattern::Bursts { rate, mean, top: plan.top, seed };
        let periodic = Task::Periodic { period_ns, work_ns, records_steal };
        // Not for each measurement, since its start takes time; its table would not have room for the processes of all.
        let tracer = start_ledger(plan.cpus)?;
        for step in 0..Side::ALL.len() {
            let at = (run as usize + step) % Side::ALL.len();
            let side = Side::ALL[at];
            let kinds = [
                ("with deadlines", periodic, bursts, &mut row.bursts[at]),
                ("computing", Task::Busy, constant, &mut row.busy[at]),
            ];
            for (what, task, pattern, results) in kinds {
                let without = plan.deadlines_only || side == Side::Control;
                if without && matches!(task, Task::Busy) {
                    continue;
                }
                let name = side.name();
                let pattern = (rate > 0).then_some(pattern);
                let (found, repeated) = until_it_ran(|| {
                    interrupt::check()?;
                    let run = run + 1;
                    stage.show_step(&format!("{name}: a task {what}, {rate} packets/s, run {run}"));
                    measure(rig, &tracer, side, plan.cpus, task, plan.length, pattern)
                })?;
                tracing::debug!("{name}: {rate} packets/s, run {}: {found:?}", run + 1);
                results.push(found);
                row.repeated += repeated;
            }
        }
    }
    Ok(row)
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

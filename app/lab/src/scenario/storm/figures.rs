//! Checks of the scenario, and tables of the paper.

use onbeat_irq_core::TICK_NS;
use onbeat_realtime::clock::SECOND;
use onbeat_report::{Cell, Check, Column, Counters, Number, Recorder, Sweep};

use super::latency::{RECEIVER_PRIORITY, STAMPS, StampResult};
use super::measure::{StormResult, TASK_PRIORITY};
use super::rig::Side;
use super::{
    PAPER_INTERRUPTS, PAPER_MISSES, PAPER_SHARES, PERIOD_S, Plan, Row, UTILIZATION, WORK_S,
};
use crate::scenario::stage::Stage;

/// A side, whether it was flooded, and the result.
type Stamps = (Side, bool, StampResult);

/// All measurements.
fn results(rows: &[Row]) -> impl Iterator<Item = &StormResult> {
    rows.iter().flat_map(|row| row.busy.iter().chain(&row.bursts)).flatten()
}

/// Checks that hold on any machine, independent of its speed. `left` counts NAPI threads during the
/// guarded run, settings that could not be restored, and NAPI threads after it.
pub(super) fn checks(
    stage: &mut Stage<'_>,
    rows: &[Row],
    stamped: &[Stamps],
    (before, left, after): (u64, u64, u64),
) {
    let all = || results(rows);
    let invented: u64 = all().map(|found| found.received.saturating_sub(found.sent)).sum();
    stage.check(Check::eq("received and not sent", invented, 0_u64, "packets"));
    let late: u64 = all().map(|found| found.in_time.saturating_sub(found.jobs)).sum();
    stage.check(Check::eq("jobs completed in time beyond those released", late, 0_u64, "jobs"));
    let idle = all().filter(|found| found.worked_ns == 0).count() as u64;
    stage.check(Check::eq("runs without work of the task", idle, 0_u64, "runs"));
    let stamps = stamped.iter().map(|(_, _, found)| found.received.saturating_sub(found.sent));
    stage.check(Check::eq("stamps received and not sent", stamps.sum::<u64>(), 0_u64, "packets"));

    let guarded = || stamped.iter().filter(|(side, ..)| *side == Side::Guarded);
    let follow = |way: usize| guarded().map(move |(_, _, found)| found.priorities[way]);
    let wanted = u64::from(RECEIVER_PRIORITY);
    // Without a guarded run there is no priority to check.
    if let (Some(lowest), Some(highest)) = (follow(0).min(), follow(1).max()) {
        stage.check(Check::eq(
            "guard: priority of the threads that receive the stamps",
            lowest,
            wanted,
            "",
        ));
        stage.check(Check::eq(
            "guard: priority of the threads that receive the storm",
            highest,
            0_u64,
            "",
        ));
    }
    stage.check(Check::min("guard: NAPI threads while it ran", before, 2_u64, "threads"));
    stage.check(Check::eq("guard: settings not restored", left, 0_u64, "settings"));
    stage.check(Check::eq("guard: NAPI threads after its exit", after, 0_u64, "threads"));
}

pub(super) fn fill(
    stage: &mut Stage<'_>,
    plan: &Plan,
    rows: &[Row],
    stamped: &[Stamps],
    recorder: &Recorder,
) {
    stage.figure("deadlines missed, packets in bursts", misses(rows));
    stage.figure("late jobs of all runs, packets in bursts", late_jobs(rows));
    stage.figure("packets received by the server, packets in bursts", shares(rows));
    stage.figure("packets of all runs, packets in bursts", packets(rows));
    if !plan.deadlines_only {
        stage.figure("accounting error of the task's time, relative to its work", accounting(rows));
        stage.figure("interrupt time charged to the task", interrupts(plan, rows));
        stage.figure("work of the task, computing", work(rows));
        let latencies = "latency at high priority under a flood at low priority";
        stage.figure(latencies, recorder.figure());
        stage.figure("stamps and flood", flood(stamped));
    }
    notes(stage, plan, rows);
}

/// A share in percent.
fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// Values by rate, of each run and side. The paper's values of the same rates are beside.
fn by_rate(
    rows: &[Row],
    unit: &str,
    paper: Option<&[[f64; 8]; 2]>,
    of: impl Fn(&Row, usize) -> Vec<f64>,
) -> Sweep {
    let mut sweep = Sweep::new(("sent", "packets/s"), unit);
    for (at, side) in Side::ALL.into_iter().enumerate() {
        let runs: Vec<(Number, Vec<f64>)> =
            rows.iter().map(|row| (row.rate.into(), of(row, at))).collect();
        if runs.iter().all(|(_, values)| values.is_empty()) {
            continue;
        }
        let name = side.name();
        sweep = sweep.runs(name, runs.iter().map(|(rate, values)| (*rate, &values[..])));
    }
    for (values, name) in paper.into_iter().flatten().zip(["paper: Linux", "paper: Linux-ISA"]) {
        let value = |row: &Row| Some((row.rate.into(), *values.get(row.number.checked_sub(1)?)?));
        sweep = sweep.published(name, rows.iter().filter_map(value));
    }
    sweep
}

/// Time of the task's work without interruption: the time that it should be charged.
fn due_ns(found: &StormResult) -> f64 {
    found.worked_ns as f64
}

/// The mean of a value over the runs.
fn mean(runs: &[StormResult], of: impl Fn(&StormResult) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

/// A way to account the task's time, with its side.
type Account = (&'static str, usize, fn(&StormResult) -> f64);

const ACCOUNTS: [Account; 5] = [
    ("stock, kernel", 0, |found| found.kernel_ns),
    ("stock, paper's ticks", 0, |found| found.by_ticks_ns),
    ("stock, ledger", 0, |found| found.by_ledger_ns),
    ("guard, kernel", 1, |found| found.kernel_ns),
    ("guard, ledger", 1, |found| found.by_ledger_ns),
];

fn accounting(rows: &[Row]) -> Sweep {
    ACCOUNTS.into_iter().fold(Sweep::new(("sent", "packets/s"), "%"), |sweep, (name, at, time)| {
        let error = |found: &StormResult| percent(time(found) - due_ns(found), due_ns(found));
        let of = |row: &Row| (row.rate.into(), row.busy[at].iter().map(error).collect());
        let runs: Vec<(Number, Vec<f64>)> = rows.iter().map(of).collect();
        sweep.runs(name, runs.iter().map(|(rate, values)| (*rate, &values[..])))
    })
}

/// Without jobs that were late by CPU steal.
fn misses(rows: &[Row]) -> Sweep {
    by_rate(rows, "%", Some(&PAPER_MISSES), |row, at| {
        let share = |found: &StormResult| {
            percent(found.missed() as f64, (found.jobs - found.stolen) as f64)
        };
        let judged = row.bursts[at].iter().filter(|found| found.jobs > found.stolen);
        judged.map(share).collect()
    })
}

/// The number of jobs of all runs; those late by CPU steal are apart.
fn late_jobs(rows: &[Row]) -> Counters {
    let names = Side::ALL.iter().flat_map(|side| {
        ["jobs", "late", "late, CPU steal"]
            .map(|name| Column::from(&*format!("{}: {name}", side.name())))
    });
    let first = Column::from(("sent", "packets/s"));
    let mut table = Counters::new(std::iter::once(first).chain(names));
    for row in rows {
        let sum = |at: usize, of: fn(&StormResult) -> u64| {
            Cell::from(row.bursts[at].iter().map(of).sum::<u64>())
        };
        let cells = (0..Side::ALL.len()).flat_map(|at| {
            [
                sum(at, |found| found.jobs),
                sum(at, StormResult::missed),
                sum(at, |found| found.stolen),
            ]
        });
        table.row(std::iter::once(Cell::from(row.rate)).chain(cells));
    }
    table
}

/// Packets that were sent and received in all runs. A share alone does not show a sender that was slower on one side.
fn packets(rows: &[Row]) -> Counters {
    let names = Side::ALL.iter().flat_map(|side| {
        ["sent", "received"].map(|name| Column::from(&*format!("{}: {name}", side.name())))
    });
    let first = Column::from(("rate", "packets/s"));
    let mut table = Counters::new(std::iter::once(first).chain(names));
    for row in rows {
        let sum = |at: usize, of: fn(&StormResult) -> u64| {
            Cell::from(row.bursts[at].iter().map(of).sum::<u64>())
        };
        let cells = (0..Side::ALL.len())
            .flat_map(|at| [sum(at, |found| found.sent), sum(at, |found| found.received)]);
        table.row(std::iter::once(Cell::from(row.rate)).chain(cells));
    }
    table
}

/// In the paper's unit: ticks of 10 ms per 100 s of the task's work.
fn interrupts(plan: &Plan, rows: &[Row]) -> Sweep {
    let hundred = WORK_S * SECOND as f64 / plan.length.work_ns as f64;
    by_rate(rows, "jiffies/100 s", Some(&PAPER_INTERRUPTS), |row, at| {
        let ticks = |found: &StormResult| found.suffered_ns as f64 * hundred / TICK_NS as f64;
        row.busy[at].iter().map(ticks).collect()
    })
}

fn shares(rows: &[Row]) -> Sweep {
    by_rate(rows, "%", Some(&PAPER_SHARES), |row, at| {
        let sent = row.bursts[at].iter().filter(|found| found.sent > 0);
        sent.map(|found| percent(found.received as f64, found.sent as f64)).collect()
    })
}

/// Relative to its mean work on the same side without packets.
fn work(rows: &[Row]) -> Sweep {
    let alone = rows.iter().find(|row| row.rate == 0);
    by_rate(rows, "% of undisturbed", None, |row, at| {
        let alone = alone.map_or(f64::NAN, |row| mean(&row.busy[at], due_ns));
        row.busy[at].iter().map(|found| percent(due_ns(found), alone)).collect()
    })
}

fn flood(stamped: &[Stamps]) -> Counters {
    let mut table = Counters::new([
        "side",
        "flood",
        "stamps sent",
        "stamps lost",
        "flood sent",
        "flood received",
    ]);
    for (side, flooded, found) in stamped {
        table.row([
            Cell::from(side.name()),
            Cell::from(if *flooded { "yes" } else { "no" }),
            Cell::from(found.sent),
            Cell::from(found.sent.saturating_sub(found.received)),
            Cell::from(found.flood_sent),
            Cell::from(found.flood_received),
        ]);
    }
    table
}

fn notes(stage: &mut Stage<'_>, plan: &Plan, rows: &[Row]) {
    let ms = |ns: u64| ns as f64 / 1e6;
    stage.note(format!(
        "scale {}: the task works for {:.0} ms and sleeps for {:.0} ms; with deadlines its jobs \
         require {:.0} % of each {:.1} ms ({WORK_S} s, 10 s, and 95 % of {PERIOD_S} s in the \
         paper); bursts are shorter by the same factor",
        plan.scale,
        ms(plan.length.work_ns),
        ms(plan.length.sleep_ns),
        100.0 * UTILIZATION,
        ms(plan.period_ns),
    ));
    stage.note(format!(
        "all on CPU {}: the task at SCHED_FIFO {TASK_PRIORITY}, the server at normal priority, the receiver of stamps at SCHED_FIFO {RECEIVER_PRIORITY}; \
         also all softirq work: stock in softirq (RPS), guard in NAPI threads; {STAMPS} stamps per second",
        plan.cpus[1]
    ));
    stage.note(format!("highest rate of this machine: {} packets/s of 512 octets", plan.top));
    stage.note(
        "the task counts its work in units of their median duration without interruption, 32 at a time. It thus follows a machine whose speed varies",
    );
    stage.note(
        "the ledger runs on both sides, which includes its cost; RT throttling reserves 5 % of \
         each second, if the host has enabled it (kernel.sched_rt_runtime_us)",
    );
    stage.note(
        "late by CPU steal: without it, the job and those before it would have been in time. It is 1 ms or more since the task was \
         idle: its time, less its CPU time and the time of other threads on its CPU",
    );
    stage.note(
        "control: packets are sent as on the other sides, and received on the sender's CPU. Jobs that are late there are late by the machine",
    );
    if !plan.records_steal {
        stage.note(
            "CPU steal is not known: the kernel's CPU times exclude interrupts or are not readable",
        );
    }
    let repeated: u64 = rows.iter().map(|row| row.repeated).sum();
    if repeated > 0 {
        stage.note(format!(
            "measurements repeated because the task got no CPU time while other real-time tasks \
             used CPU {}: {repeated}; their values are in no table",
            plan.cpus[1]
        ));
    }
    let (missing, measured) = results(rows).fold((0, 0), |(missing, measured), found| {
        (missing + found.imbalance_ns, measured + found.measured_ns)
    });
    stage.note(format!(
        "the ledger's accounts of the CPU have an error of {:.3} % of the measured time",
        percent(missing as f64, measured.max(1) as f64)
    ));
}

//! From what was found to checks and the paper's tables.

use onbeat_irq_core::TICK_NS;
use onbeat_realtime::clock::SECOND;
use onbeat_report::{Cell, Check, Counters, Recorder};

use super::latency::{RECEIVER_PRIORITY, STAMPS, StampResult};
use super::measure::{StormResult, TASK_PRIORITY};
use super::rig::Side;
use super::{PERIOD_S, Plan, Row, UTILISATION, WORK_S};
use crate::scenario::stage::Stage;

/// A side, whether it was flooded, and what was found.
type Stamps = (Side, bool, StampResult);

/// What must hold on any machine; how fast it is, is no question of these. `left` counts threads of
/// NAPI before, settings that could not be put back, threads after.
pub(super) fn checks(
    stage: &mut Stage<'_>,
    rows: &[Row],
    stamped: &[Stamps],
    (before, left, after): (u64, u64, u64),
) {
    let all = || rows.iter().flat_map(|row| row.busy.iter().chain(&row.bursts));
    let invented: u64 = all().map(|found| found.received.saturating_sub(found.sent)).sum();
    stage.check(Check::eq("received and not sent", invented, 0_u64, "packets"));
    let late: u64 = all().map(|found| found.in_time.saturating_sub(found.jobs)).sum();
    stage.check(Check::eq("jobs in time beyond those released", late, 0_u64, "jobs"));
    let idle = all().filter(|found| found.worked_ns == 0).count() as u64;
    stage.check(Check::eq("runs in which the task did nothing", idle, 0_u64, "runs"));
    let stamps = stamped.iter().map(|(_, _, found)| found.received.saturating_sub(found.sent));
    stage.check(Check::eq("stamps received and not sent", stamps.sum::<u64>(), 0_u64, "packets"));

    let guarded = || stamped.iter().filter(|(side, ..)| *side == Side::Guarded);
    let follow = |way: usize| guarded().map(move |(_, _, found)| found.priorities[way]);
    let wanted = u64::from(RECEIVER_PRIORITY);
    // Without a guarded run there is no priority to check.
    if let (Some(lowest), Some(highest)) = (follow(0).min(), follow(1).max()) {
        stage.check(Check::eq("guard: priority of what receives the stamps", lowest, wanted, ""));
        stage.check(Check::eq("guard: priority of what receives the storm", highest, 0_u64, ""));
    }
    stage.check(Check::min("guard: threads of NAPI while it ran", before, 2_u64, "threads"));
    stage.check(Check::eq("guard: settings not put back", left, 0_u64, "settings"));
    stage.check(Check::eq("guard: threads of NAPI after it", after, 0_u64, "threads"));
}

pub(super) fn fill(
    stage: &mut Stage<'_>,
    plan: &Plan,
    rows: &[Row],
    stamped: &[Stamps],
    recorder: &Recorder,
) {
    stage.figure("accounting error, of the task's time by its work", accounting(rows));
    stage.figure("deadlines missed, packets in bursts", misses(rows));
    stage.figure("interrupt time on the task's time", interrupts(plan, rows));
    stage.figure("packets that the server received, packets in bursts", shares(rows));
    stage.figure("work that the task did, computing", work(rows));
    stage.figure("high priority under a flood of low priority", recorder.figure());
    stage.figure("stamps and flood", flood(stamped));
    notes(stage, plan, rows);
}

/// A share in percent.
fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// Stock and guarded of each rate, in one column each.
fn by_rate<'a>(
    rows: &'a [Row],
    unit: &str,
    of: impl Fn(&'a Row, usize) -> Option<f64>,
) -> Counters {
    let mut table = Counters::new([("sent", "packets/s"), ("stock", unit), ("guard", unit)]);
    for row in rows {
        let cell = |at| of(row, at).map_or(Cell::Text("-".into()), Cell::from);
        table.row([Cell::from(row.rate), cell(0), cell(1)]);
    }
    table
}

/// What the task's work takes when nothing interrupts it: what it should be charged.
fn due_ns(found: &StormResult) -> f64 {
    found.worked_ns as f64
}

fn accounting(rows: &[Row]) -> Counters {
    let mut table = Counters::new([
        ("sent", "packets/s"),
        ("stock, kernel", "%"),
        ("stock, paper's ticks", "%"),
        ("stock, ledger", "%"),
        ("guard, kernel", "%"),
        ("guard, ledger", "%"),
    ]);
    for row in rows {
        let error = |at: usize, time: fn(&StormResult) -> f64| {
            let (found, due) = (&row.busy[at], due_ns(&row.busy[at]));
            Cell::from(percent(time(found) - due, due))
        };
        table.row([
            Cell::from(row.rate),
            error(0, |found| found.kernel_ns),
            error(0, |found| found.by_ticks_ns),
            error(0, |found| found.by_ledger_ns),
            error(1, |found| found.kernel_ns),
            error(1, |found| found.by_ledger_ns),
        ]);
    }
    table
}

fn misses(rows: &[Row]) -> Counters {
    by_rate(rows, "%", |row, at| {
        let found = &row.bursts[at];
        Some(percent(found.jobs.saturating_sub(found.in_time) as f64, found.jobs as f64))
    })
}

/// In the paper's unit: ticks of 10 ms in 100 s of the task's work.
fn interrupts(plan: &Plan, rows: &[Row]) -> Counters {
    let hundred = WORK_S * SECOND as f64 / plan.length.work_ns as f64;
    let jiffies =
        move |row: &Row, at: usize| row.busy[at].suffered_ns as f64 * hundred / TICK_NS as f64;
    by_rate(rows, "jiffies/100 s", move |row, at| Some(jiffies(row, at)))
}

fn shares(rows: &[Row]) -> Counters {
    by_rate(rows, "%", |row, at| {
        let StormResult { sent, received, .. } = row.bursts[at];
        (sent > 0).then(|| percent(received as f64, sent as f64))
    })
}

/// Beside what it did on the same side without packets.
fn work(rows: &[Row]) -> Counters {
    let alone = |at: usize| rows.first().map_or(f64::NAN, |row| due_ns(&row.busy[at]));
    by_rate(rows, "% of alone", move |row, at| Some(percent(due_ns(&row.busy[at]), alone(at))))
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
        "scale {}: the task works for {:.0} ms and sleeps for {:.0} ms; with deadlines it has {:.0} % \
         of each {:.1} ms to do ({WORK_S} s, 10 s, and 95 % of {PERIOD_S} s in the paper); bursts are as \
         much shorter",
        plan.scale,
        ms(plan.length.work_ns),
        ms(plan.length.sleep_ns),
        100.0 * UTILISATION,
        ms(plan.period_ns),
    ));
    stage.note(format!(
        "all on CPU {}: the task at SCHED_FIFO {TASK_PRIORITY}, the server normal, the receiver of \
         stamps at SCHED_FIFO {RECEIVER_PRIORITY}, and all bottom halves: stock in softirq (RPS), \
         guard in threads of NAPI; {STAMPS} stamps a second",
        plan.cpu
    ));
    stage.note(format!("highest rate of this machine: {} packets/s of 512 octets", plan.top));
    stage.note(
        "work is counted by the task itself, in what its pieces take when nothing interrupts them \
         (their median, 32 at a time), so that it follows a machine whose speed changes",
    );
    stage.note(
        "the ledger runs on both sides, and its cost with it; RT throttling keeps 5 % of each second \
         from the task, where the host has it on (kernel.sched_rt_runtime_us)",
    );
    let repeated: u64 = rows.iter().map(|row| row.repeated).sum();
    if repeated > 0 {
        stage.note(format!(
            "measurements repeated since the task got no CPU time, other real-time tasks having used CPU \
             {}: {repeated}; their values are in no table",
            plan.cpu
        ));
    }
    let all = || rows.iter().flat_map(|row| row.busy.iter().chain(&row.bursts));
    let (missing, measured) = all().fold((0, 0), |(missing, measured), found| {
        (missing + found.imbalance_ns, measured + found.measured_ns)
    });
    stage.note(format!(
        "the ledger's accounts of the CPU are off by {:.3} % of the time measured",
        percent(missing as f64, measured.max(1) as f64)
    ));
}

//! Checks of the scenario, and tables of the paper.

use onbeat_irq_core::TICK_NS;
use onbeat_realtime::clock::SECOND;
use onbeat_report::{Cell, Check, Counters, Recorder};

use super::latency::{RECEIVER_PRIORITY, STAMPS, StampResult};
use super::measure::{StormResult, TASK_PRIORITY};
use super::rig::Side;
use super::{PERIOD_S, Plan, Row, UTILIZATION, WORK_S};
use crate::scenario::stage::Stage;

/// A side, whether it was flooded, and the result.
type Stamps = (Side, bool, StampResult);

/// Checks that hold on any machine, independent of its speed. `left` counts NAPI threads during the
/// guarded run, settings that could not be restored, and NAPI threads after it.
pub(super) fn checks(
    stage: &mut Stage<'_>,
    rows: &[Row],
    stamped: &[Stamps],
    (before, left, after): (u64, u64, u64),
) {
    let all = || rows.iter().flat_map(|row| row.busy.iter().flatten().chain(&row.bursts));
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
    stage.figure("accounting error of the task's time, relative to its work", accounting(rows));
    if rows.iter().any(|row| row.busy[0].len() > 1) {
        stage.figure("accounting error of the task's time, by round", spread(rows));
    }
    stage.figure("deadlines missed, packets in bursts", misses(rows));
    stage.figure("interrupt time charged to the task", interrupts(plan, rows));
    stage.figure("packets received by the server, packets in bursts", shares(rows));
    stage.figure("work of the task, computing", work(rows));
    stage.figure("latency at high priority under a flood at low priority", recorder.figure());
    stage.figure("stamps and flood", flood(stamped));
    notes(stage, plan, rows);
}

/// A share in percent.
fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// A table by rate, with one column each for stock and guarded.
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

/// Time of the task's work without interruption: the time that it should be charged.
fn due_ns(found: &StormResult) -> f64 {
    found.worked_ns as f64
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

/// The accounting errors of all rounds, in percent of the due time, ascending.
fn errors(row: &Row, (_, side, time): Account) -> Vec<f64> {
    let error = |found: &StormResult| percent(time(found) - due_ns(found), due_ns(found));
    sorted(row.busy[side].iter().map(error))
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values.
fn median(values: &[f64]) -> f64 {
    let [low, high] = [(values.len() - 1) / 2, values.len() / 2];
    (values[low] + values[high]) / 2.0
}

/// The median of the rounds on a side.
fn median_of(row: &Row, side: usize, of: impl Fn(&StormResult) -> f64) -> f64 {
    median(&sorted(row.busy[side].iter().map(of)))
}

/// Medians.
fn accounting(rows: &[Row]) -> Counters {
    let names = ACCOUNTS.iter().map(|(name, ..)| (*name, "%"));
    let mut table = Counters::new(std::iter::once(("sent", "packets/s")).chain(names));
    for row in rows {
        let errors = ACCOUNTS.iter().map(|account| Cell::from(median(&errors(row, *account))));
        table.row(std::iter::once(Cell::from(row.rate)).chain(errors));
    }
    table
}

fn spread(rows: &[Row]) -> Counters {
    let mut table = Counters::new([
        ("sent", "packets/s"),
        ("time", ""),
        ("median", "%"),
        ("minimum", "%"),
        ("maximum", "%"),
    ]);
    for row in rows {
        for account in ACCOUNTS {
            let errors = errors(row, account);
            let ends = [errors[0], errors[errors.len() - 1]];
            table.row([
                Cell::from(row.rate),
                Cell::Text(account.0.into()),
                median(&errors).into(),
                ends[0].into(),
                ends[1].into(),
            ]);
        }
    }
    table
}

fn misses(rows: &[Row]) -> Counters {
    by_rate(rows, "%", |row, at| {
        let found = &row.bursts[at];
        Some(percent(found.jobs.saturating_sub(found.in_time) as f64, found.jobs as f64))
    })
}

/// In the paper's unit: ticks of 10 ms per 100 s of the task's work.
fn interrupts(plan: &Plan, rows: &[Row]) -> Counters {
    let hundred = WORK_S * SECOND as f64 / plan.length.work_ns as f64;
    let jiffies = move |row: &Row, at: usize| {
        median_of(row, at, |found| found.suffered_ns as f64 * hundred / TICK_NS as f64)
    };
    by_rate(rows, "jiffies/100 s", move |row, at| Some(jiffies(row, at)))
}

fn shares(rows: &[Row]) -> Counters {
    by_rate(rows, "%", |row, at| {
        let StormResult { sent, received, .. } = row.bursts[at];
        (sent > 0).then(|| percent(received as f64, sent as f64))
    })
}

/// Relative to its work on the same side without packets.
fn work(rows: &[Row]) -> Counters {
    let alone = |at: usize| rows.first().map_or(f64::NAN, |row| median_of(row, at, due_ns));
    by_rate(rows, "% of undisturbed", move |row, at| {
        Some(percent(median_of(row, at, due_ns), alone(at)))
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
        "the paper's accounting errors: up to 60 % with Linux 2.6.14, below 20 % and mostly below 5 % with its \
         algorithm",
    );
    let repeated: u64 = rows.iter().map(|row| row.repeated).sum();
    if repeated > 0 {
        stage.note(format!(
            "measurements repeated because the task got no CPU time while other real-time tasks \
             used CPU {}: {repeated}; their values are in no table",
            plan.cpus[1]
        ));
    }
    let all = || rows.iter().flat_map(|row| row.busy.iter().flatten().chain(&row.bursts));
    let (missing, measured) = all().fold((0, 0), |(missing, measured), found| {
        (missing + found.imbalance_ns, measured + found.measured_ns)
    });
    stage.note(format!(
        "the ledger's accounts of the CPU have an error of {:.3} % of the measured time",
        percent(missing as f64, measured.max(1) as f64)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate: u64, kernel_ms: [u64; 3]) -> Row {
        let found = |ms: u64| StormResult {
            worked_ns: 100_000_000,
            kernel_ns: (ms * 1_000_000) as f64,
            ..StormResult::default()
        };
        let busy = [kernel_ms.map(found).into(), kernel_ms.map(found).into()];
        Row { rate, busy, bursts: Default::default(), repeated: 0 }
    }

    #[test]
    fn errors_of_rounds_have_median_and_ends() {
        let rows = [row(0, [101, 100, 102]), row(5_000, [160, 120, 150])];
        let table = spread(&rows);
        assert_eq!(table.rows.len(), rows.len() * ACCOUNTS.len());
        let kernel = &table.rows[ACCOUNTS.len()];
        let texts = kernel.iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>();
        let cells = [5_000_u64.into(), Cell::Text("stock, kernel".into()), 50.0.into()];
        assert_eq!(kernel[..3], cells, "{texts:?}");
        assert_eq!(kernel[3..], [Cell::from(20.0), Cell::from(60.0)], "{texts:?}");
        assert_eq!(accounting(&rows).rows[1][1], Cell::from(50.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}

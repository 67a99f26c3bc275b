//! A recording as a result: tables, time lines, and checks of the accounts.

use onbeat_irq_core::charge::{Accounts, Process};
use onbeat_irq_core::names::Names;
use onbeat_irq_core::recording::{Correction, Summary, Timelines};
use onbeat_irq_core::view::{DeviceShare, Fold, GroupKey, Groups, Table};
use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Measurement, Outcome, Run, TimeSeries};

use super::rows::Rows;
use crate::top::cells::{by_evidence, windows};
use crate::top::group_of_cpu;

/// Maximum number of rows of a table; the rest have negligible time.
const ROWS: usize = 100;

/// The share of a CPU's softirq time that may be missing: softirqs in progress at the reading.
const MISSING_PERCENT: f64 = 1.0;

/// The time from which a CPU is checked: below it, softirqs in progress at both ends dominate.
const CHECKED_FROM_NS: u64 = 50_000_000;

pub(super) fn of(
    run: Run,
    mut summary: Summary,
    lines: &Timelines<String>,
    by: GroupKey,
) -> Outcome {
    let estimate = summary.estimate();
    let total = &estimate.accounts;
    let length_ns = summary.length_ns;
    let mut table = Table::of_estimate(&estimate, length_ns, &mut summary);
    table.groups = groups(&table, &mut summary, by);
    let devices = devices(&table);
    table.fold(Fold { most_rows: ROWS, ..Fold::default() });
    let conditions = summary.trailer.as_ref().map(|end| end.conditions.clone()).unwrap_or_default();
    let mut outcome = run.finish();
    outcome.checks = checks(&summary);
    // Conditions of the recording, not of its analysis.
    outcome.conditions = serde_json::from_value(conditions).unwrap_or_default();
    outcome.started.clone_from(&summary.header.started);
    outcome.duration_s = length_ns as f64 / 1e9;
    outcome.notes = notes(&summary, &table);
    picture(&mut outcome, lines);
    outcome.figure("softirq time", share(total.measured_ns, length_ns));
    outcome.figure("hard interrupt time", share(total.hardirq_ns, length_ns));
    outcome.figure("caused by processes without a name", share(table.unnamed_ns, length_ns));
    match summary.own.programs_ns {
        Some(ns) => outcome.figure("onbeat's own programs", share(ns, summary.own_length_ns)),
        None => outcome.notes.push("the time of onbeat's own programs was not measured".into()),
    }
    outcome.figure("onbeat's own process", share(summary.own.process_ns, length_ns));
    if let Some(groups) = &table.groups {
        let name = format!("caused and suffered, by {}", by.title());
        outcome.figure(name, grouped(&table, groups));
    }
    outcome.figure("caused and suffered, by process", processes(&table));
    outcome.figure("caused, by process, device and direction", devices);
    outcome.figure("caused by no process", unowned(&table));
    outcome.figure("hard interrupts", interrupts(&table));
    outcome.figure("caused, by evidence", evidence(&table));
    outcome.figure("softirq time by context", ran_on(&table));
    outcome.figure("user and system time, by the kernel and corrected", times(&mut summary));
    outcome.figure("CPUs", cpus(&summary));
    outcome
}

/// The time lines, as the first figures.
fn picture(outcome: &mut Outcome, lines: &Timelines<String>) {
    for (name, groups, rest) in [
        (
            "caused, over time",
            &lines.caused,
            &[("others", &lines.others_caused), ("no process", &lines.unowned)][..],
        ),
        ("suffered, over time", &lines.suffered, &[("others", &lines.others_suffered)]),
    ] {
        let mut figure = TimeSeries::continuous("% of a CPU");
        figure = figure.series("all softirqs", percent(&lines.all));
        for (group, line) in groups {
            figure = figure.series(group.clone(), percent(line));
        }
        for (name, line) in rest {
            if line.iter().any(|(_, share)| *share > 0.0) {
                figure = figure.series(*name, percent(line));
            }
        }
        outcome.figure(name, figure);
    }
}

fn groups(table: &Table, summary: &mut Summary, by: GroupKey) -> Option<Groups> {
    match by {
        GroupKey::Process => None,
        GroupKey::Cpu | GroupKey::Node => {
            let length_ns = summary.length_ns;
            let cpus: Vec<_> = summary.estimates().collect();
            let nodes = summary.header.nodes.iter().copied().collect();
            let tables: Vec<(Option<String>, Table)> = cpus
                .iter()
                .map(|(cpu, estimate)| {
                    let table = Table::of_estimate(estimate, length_ns, summary);
                    (group_of_cpu(by, *cpu, &nodes), table)
                })
                .collect();
            Some(Groups::of_cpus(by, tables.iter().map(|(name, table)| (name.clone(), table))))
        }
        _ => Some(Groups::of(by, table)),
    }
}

fn checks(summary: &Summary) -> Vec<Check> {
    let missing = |accounts: &Accounts| {
        let measured_ns = accounts.measured_ns.max(1) as f64;
        accounts.imbalance_ns() as f64 / measured_ns * 100.0
    };
    // A recording has at least one interval; without any it measured nothing.
    let intervals = Check::min("intervals recorded", summary.intervals, 1_u64, "");
    // CPUs continued during the last reading of a recording that was cut off.
    let whole = summary.trailer.is_some();
    let checked =
        summary.cpus.iter().filter(|(_, cpu)| whole && cpu.measured_ns >= CHECKED_FROM_NS);
    let mut checks: Vec<Check> = checked
        .map(|(cpu, accounts)| {
            let name = format!("CPU {cpu}: missing in the accounts");
            Check::max(name, missing(accounts), MISSING_PERCENT, "%")
        })
        .collect();
    checks.push(intervals);
    let lost = summary.unrecorded_ns;
    checks.push(Check::eq("time without room in the kernel's table", lost, 0_u64, "ns"));
    if let Some(end) = &summary.trailer {
        checks.push(Check::eq("ticks lost", end.lost_events, 0_u64, ""));
    }
    checks
}

fn notes(summary: &Summary, table: &Table) -> Vec<String> {
    let mut notes = Vec::new();
    if summary.trailer.is_none() {
        notes.push(
            "the recording was cut off, or is still running: this is its recorded part".into(),
        );
    }
    if !summary.header.command.is_empty() {
        notes.push(format!("recorded while this ran: {}", summary.header.command.join(" ")));
    }
    notes.push("shares are of one CPU; packets are counted in the protocols, after GRO".into());
    notes.push(
        match summary.header.irq_time_accounting {
            Some(true) => {
                "this kernel excludes softirq time from processes' time: only the time that they \
                 caused is added"
            }
            Some(false) => {
                "this kernel charges softirq time to the interrupted process: the time that a \
                 process suffered is subtracted, the time that it caused is added"
            }
            None => {
                "it is unknown whether this kernel charges softirq time to the interrupted \
                 process: this is assumed"
            }
        }
        .into(),
    );
    match (summary.header.tick_ns, summary.per_tick) {
        (Some(tick_ns), Some(interrupts)) => notes.push(format!(
            "by ticks: the algorithm of Zhang and West (RTSS 2006) with a tick of {} ms; at \
             the end, one tick was the time of {interrupts} packet{}",
            tick_ns / 1_000_000,
            if interrupts == 1 { "" } else { "s" }
        )),
        (None, _) if summary.header.sample_one_in.is_some() => {
            notes.push("by ticks: not in a sampled recording, since it counts each packet".into());
        }
        (Some(_), None) => notes.push("by ticks: no packet was handled".into()),
        (None, _) => notes.push("by ticks: this kernel had no clock for it".into()),
    }
    notes.push(
        "kernel times are in clock ticks; those of processes that exited are from the snapshot \
         before"
            .into(),
    );
    if let Some(ns) = summary.header.interrupt_entry_ns {
        notes.push(format!(
            "each hard interrupt of a process contains {ns} ns around its handler, a mean measured at \
             the start of the recording"
        ));
    }
    if !summary.header.absent.is_empty() {
        notes.push(format!(
            "hard interrupts: the kernel has no tracepoints {}",
            summary.header.absent.join(", ")
        ));
    }
    if let Some(sample) = table.sample {
        let all_ns = sample.looked_at_ns + sample.skipped_ns;
        notes.push(format!(
            "packets were sampled in {:.1} % of the time of all polls, in {} at random; caused time is estimated from these, with one standard error \
             (/usr/share/doc/onbeat/docs/reference/softirq-time.md); suffered \
             time and the time of each CPU are measured",
            percent_of(sample.looked_at_ns, all_ns),
            windows(sample.windows)
        ));
    }
    if table.processes.iter().any(|row| row.estimate) {
        notes.push(
            "evidence \"estimate\": the owner was inferred, by an earlier version. Corrected times exclude it"
                .into(),
        );
    }
    if let Some(others) = &table.others {
        notes.push(format!(
            "tables list the first {ROWS} rows; the row \"{OTHERS}\" has {}",
            count(others.processes, "other process")
        ));
    }
    notes
}

fn share(ns: u64, length_ns: u64) -> Measurement {
    Measurement::new("% of a CPU", percent_of(ns, length_ns))
}

fn percent_of(ns: u64, of_ns: u64) -> f64 {
    ns as f64 / of_ns.max(1) as f64 * 100.0
}

fn processes(table: &Table) -> Counters {
    let mut rows = Rows::new(
        table,
        [
            ("pid", ""),
            ("command", ""),
            ("control group", ""),
            ("container", ""),
            ("caused", "ns"),
            ("suffered", "ns"),
            ("packets", ""),
            ("per packet", "ns"),
            ("estimate", ""),
        ],
    );
    for row in &table.processes {
        rows.row(
            [
                Cell::from(row.pid.to_string()),
                text(&row.command),
                text(&row.cgroup),
                text(&row.container),
                row.caused_ns.into(),
                row.suffered_ns.into(),
                row.packets.into(),
                per_packet(row.ns_per_packet),
                if row.estimate { "yes" } else { "" }.into(),
            ],
            row.standard_error,
        );
    }
    if let Some(others) = &table.others {
        let empty = || Cell::from("");
        rows.row(
            [
                empty(),
                OTHERS.into(),
                empty(),
                empty(),
                others.caused_ns.into(),
                others.suffered_ns.into(),
                others.packets.into(),
                per_packet(others.ns_per_packet),
                empty(),
            ],
            others.standard_error,
        );
    }
    rows.counters
}

/// The name of folded rows.
const OTHERS: &str = "others";

fn grouped(table: &Table, groups: &Groups) -> Counters {
    let mut rows = Rows::new(
        table,
        [
            (groups.by.title(), ""),
            ("processes", ""),
            ("caused", "ns"),
            ("suffered", "ns"),
            ("packets", ""),
            ("per packet", "ns"),
        ],
    );
    let named = groups.rows.iter().map(|row| (row.name.as_deref().unwrap_or("none"), row));
    for (name, row) in named.chain(groups.others.iter().map(|row| (OTHERS, row))) {
        rows.row(
            [
                Cell::from(name),
                row.processes.into(),
                row.caused_ns.into(),
                row.suffered_ns.into(),
                row.packets.into(),
                per_packet(row.ns_per_packet),
            ],
            row.standard_error,
        );
    }
    rows.counters
}

fn text(text: &Option<String>) -> Cell {
    text.clone().unwrap_or_default().into()
}

fn devices(table: &Table) -> Counters {
    let mut rows = Rows::new(
        table,
        [
            ("pid", ""),
            ("command", ""),
            ("device", ""),
            ("direction", ""),
            ("time", "ns"),
            ("packets", ""),
            ("per packet", "ns"),
            ("evidence", ""),
        ],
    );
    let parts =
        table.processes.iter().flat_map(|row| row.parts.iter().map(move |part| (row, part)));
    let mut others: Option<DeviceShare> = None;
    for (index, (row, part)) in parts.enumerate() {
        if index >= ROWS {
            let part = DeviceShare { device: String::new(), ..part.clone() };
            others = Some(others.map_or(part.clone(), |sum| sum.plus(&part)));
            continue;
        }
        let per = (part.packets != 0).then(|| part.ns as f64 / part.packets as f64);
        rows.row(
            [
                Cell::from(row.pid.to_string()),
                text(&row.command),
                part.device.as_str().into(),
                part.direction.name().into(),
                part.ns.into(),
                part.packets.into(),
                per_packet(per),
                part.by.name().into(),
            ],
            part.standard_error,
        );
    }
    if let Some(others) = others {
        let per = (others.packets != 0).then(|| others.ns as f64 / others.packets as f64);
        let empty = || Cell::from("");
        rows.row(
            [
                empty(),
                OTHERS.into(),
                empty(),
                empty(),
                others.ns.into(),
                others.packets.into(),
                per_packet(per),
                empty(),
            ],
            others.standard_error,
        );
    }
    rows.counters
}

fn unowned(table: &Table) -> Counters {
    let mut rows = Rows::new(
        table,
        [
            ("class", ""),
            ("reason", ""),
            ("device", ""),
            ("egress device", ""),
            ("time", "ns"),
            ("packets", ""),
            ("per packet", "ns"),
        ],
    );
    for row in &table.unowned {
        rows.row(
            [
                Cell::from(row.class),
                text(&row.reason),
                text(&row.device),
                text(&row.to),
                row.ns.into(),
                row.packets.into(),
                per_packet(row.ns_per_packet),
            ],
            row.standard_error,
        );
    }
    rows.counters
}

fn interrupts(table: &Table) -> Counters {
    let mut counters = Counters::new([
        ("class", ""),
        ("line", ""),
        ("sender", ""),
        ("time", "ns"),
        ("interrupts", ""),
    ]);
    for row in table.interrupts.iter().take(ROWS) {
        counters.row([
            Cell::from(row.class),
            text(&row.line),
            text(&row.sender),
            row.ns.into(),
            row.count.into(),
        ]);
    }
    counters
}

fn evidence(table: &Table) -> Counters {
    Counters::named([("evidence", ""), ("time", "ns")], by_evidence(table))
}

fn ran_on(table: &Table) -> Counters {
    let ran = table.ran_on;
    Counters::named(
        [("context", ""), ("time", "ns")],
        [
            ("processes", ran.processes_ns),
            ("idle", ran.idle_ns),
            ("ksoftirqd", ran.ksoftirqd_ns),
            ("NAPI threads", ran.napi_threads_ns),
        ],
    )
}

/// Largest error first.
fn times(summary: &mut Summary) -> Counters {
    let mut counters = Counters::new([
        ("pid", ""),
        ("command", ""),
        ("user, kernel", "ns"),
        ("system, kernel", "ns"),
        ("user, exact", "ns"),
        ("system, exact", "ns"),
        ("user, by ticks", "ns"),
        ("system, by ticks", "ns"),
        ("error, exact", "ns"),
        ("error, by ticks", "ns"),
    ]);
    let mut rows: Vec<(Process, Correction)> =
        summary.corrections.iter().map(|(process, correction)| (*process, *correction)).collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.exact_ns.unsigned_abs()));
    let ticks = summary.header.tick_ns.is_some();
    for (process, row) in rows.into_iter().take(ROWS) {
        let (user, system) = row.corrected(row.exact_ns);
        let by_ticks = row.corrected(row.by_ticks_ns);
        let of_ticks = |ns: u64| Cell::from(ticks.then_some(ns));
        counters.row([
            Cell::from(process.pid.to_string()),
            command(summary, process).into(),
            row.user_ns.into(),
            row.system_ns.into(),
            user.into(),
            system.into(),
            of_ticks(by_ticks.0),
            of_ticks(by_ticks.1),
            (row.exact_ns as f64).into(),
            ticks.then_some(row.by_ticks_ns as f64).into(),
        ]);
    }
    counters
}

fn cpus(summary: &Summary) -> Counters {
    let mut counters = Counters::new([
        ("CPU", ""),
        ("softirq time", "ns"),
        ("caused by processes", "ns"),
        ("caused by no process", "ns"),
        ("suffered by processes", "ns"),
        ("hard interrupt time", "ns"),
        ("missing", "ns"),
    ]);
    for (cpu, estimate) in summary.estimates() {
        let accounts = estimate.accounts;
        counters.row([
            Cell::from(cpu.to_string()),
            accounts.measured_ns.into(),
            accounts.owned_ns().into(),
            accounts.unowned_ns().into(),
            accounts.suffered_by_processes_ns().into(),
            accounts.hardirq_ns.into(),
            accounts.imbalance_ns().into(),
        ]);
    }
    counters
}

fn per_packet(ns: Option<f64>) -> Cell {
    ns.map(f64::round).into()
}

fn command(summary: &mut Summary, process: Process) -> String {
    let known = summary.process(process).description;
    known.map_or("(exited)".into(), |about| about.command.to_string())
}

fn percent(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    line.iter().map(|(at_s, share)| (*at_s, share * 100.0)).collect()
}

//! Sums of the ledger since the start, as metrics in a file for the textfile collector of node_exporter.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onbeat_irq_core::view::{GroupKey, GroupRow, Table};
use onbeat_report::metrics::{
    LastWrite, MetricType, MetricsFile, MetricsFileError, MetricsText, seconds,
};

use crate::top::cells::by_evidence;
use crate::top::{self, Snapshot, TableOptions};
use crate::watch::Watch;

/// Groups with metrics of their own. Those beyond are summed together, since a user without privileges can create any
/// number of commands and control groups.
const MAX_GROUPS: usize = 1000;
/// Maximum length of the name of such a group, in octets.
const MAX_NAME: usize = 512;
/// A group without additions for this time may leave its place to another: sessions and jobs come and go.
const QUIET_NS: u64 = 3600 * 1_000_000_000;
/// The groups of processes that have none, and of those beyond the limits.
const NONE: &str = "(none)";
const OTHERS: &str = "(others)";

/// Sums of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    caused_ns: u64,
    suffered_ns: u64,
    packets: u64,
    /// Measured time at the last addition.
    at_ns: u64,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.caused_ns += other.caused_ns;
        self.suffered_ns += other.suffered_ns;
        self.packets += other.packets;
        self.at_ns = self.at_ns.max(other.at_ns);
    }
}

/// Time and a number of packets or interrupts.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    ns: u64,
    count: u64,
}

impl Amount {
    fn add(&mut self, ns: u64, count: u64) {
        self.ns += ns;
        self.count += count;
    }
}

/// The sums since the start.
#[derive(Debug, Default)]
struct Totals {
    by: GroupKey,
    /// Measured time.
    length_ns: u64,
    groups: BTreeMap<String, Sums>,
    evidence: BTreeMap<&'static str, u64>,
    ran_on: BTreeMap<&'static str, u64>,
    unowned: BTreeMap<&'static str, Amount>,
    interrupts: BTreeMap<&'static str, Amount>,
    unnamed_ns: u64,
    unrecorded_ns: u64,
    /// `None`: not measured yet.
    programs_ns: Option<u64>,
    process_ns: u64,
}

impl Totals {
    fn new(by: GroupKey) -> Self {
        let mut totals = Self { by, ..Self::default() };
        // All fixed names, so that the first interval is an increase.
        totals.add(&Snapshot::default(), &Table::default());
        totals
    }

    fn add(&mut self, snapshot: &Snapshot, table: &Table) {
        self.length_ns += snapshot.length_ns;
        for (name, ns) in by_evidence(table) {
            *self.evidence.entry(name).or_default() += ns;
        }
        let ran = &table.ran_on;
        for (name, ns) in [
            ("processes", ran.processes_ns),
            ("idle", ran.idle_ns),
            ("ksoftirqd", ran.ksoftirqd_ns),
            ("napi_threads", ran.napi_threads_ns),
        ] {
            *self.ran_on.entry(name).or_default() += ns;
        }
        for row in &table.unowned {
            self.unowned.entry(row.class).or_default().add(row.ns, row.packets);
        }
        for row in &table.interrupts {
            self.interrupts.entry(row.class).or_default().add(row.ns, row.count);
        }
        self.unnamed_ns += table.unnamed_ns;
        self.unrecorded_ns += snapshot.unrecorded_ns;
        if let Some(ns) = snapshot.own.programs_ns {
            *self.programs_ns.get_or_insert_default() += ns;
        }
        self.process_ns += snapshot.own.process_ns;
        for row in table.groups.iter().flat_map(|groups| &groups.rows) {
            self.group(row);
        }
    }

    fn group(&mut self, row: &GroupRow) {
        let GroupRow { caused_ns, suffered_ns, packets, .. } = *row;
        let sums = Sums { caused_ns, suffered_ns, packets, at_ns: self.length_ns };
        let name = row.name.as_deref().unwrap_or(NONE);
        if !self.groups.contains_key(name) && self.groups.len() >= MAX_GROUPS {
            self.release_quiet();
        }
        let has_room = self.groups.len() < MAX_GROUPS && name.len() <= MAX_NAME;
        let name = if has_room || self.groups.contains_key(name) { name } else { OTHERS };
        self.groups.entry(name.to_owned()).or_default().add(sums);
    }

    /// Moves the sums of quiet groups to the others: no sum over all groups falls.
    fn release_quiet(&mut self) {
        let since_ns = self.length_ns.saturating_sub(QUIET_NS);
        let is_quiet =
            |name: &str, sums: &Sums| sums.at_ns < since_ns && ![NONE, OTHERS].contains(&name);
        let (quiet, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.groups)
            .into_iter()
            .partition(|(name, sums)| is_quiet(name, sums));
        self.groups = kept;
        for sums in quiet.into_values() {
            self.groups.entry(OTHERS.to_owned()).or_default().add(sums);
        }
    }

    /// Prints the metrics. `seen_s`: Unix time.
    fn text(&self, seen_s: u64) -> String {
        use MetricType::{Counter, Gauge};
        let mut text = MetricsText::default();
        // Distinguishes the files of several commands on one host.
        let by = ("by", self.by.name());
        type OfGroup = fn(&Sums) -> String;
        let of_group: [(&str, &str, OfGroup); 3] = [
            (
                "onbeat_irq_caused_seconds_total",
                "Softirq time that the processes of a group caused",
                |sums| seconds(sums.caused_ns.into()),
            ),
            (
                "onbeat_irq_suffered_seconds_total",
                "Softirq and hard interrupt time that interrupted the processes of a group",
                |sums| seconds(sums.suffered_ns.into()),
            ),
            ("onbeat_irq_packets_total", "Packets of the processes of a group", |sums| {
                sums.packets.to_string()
            }),
        ];
        for (name, help, value) in of_group {
            let mut metric = text.metric(name, Counter, help);
            for (group, sums) in &self.groups {
                metric.add(&[by, ("group", group)], value(sums));
            }
        }
        let by_label = [
            (
                "onbeat_irq_attributed_seconds_total",
                "Softirq time by the evidence for its cause",
                "evidence",
                &self.evidence,
            ),
            (
                "onbeat_irq_softirq_seconds_total",
                "Softirq time by the task on whose time it ran",
                "ran_on",
                &self.ran_on,
            ),
        ];
        for (name, help, label, sums) in by_label {
            let mut metric = text.metric(name, Counter, help);
            for (value, ns) in sums {
                metric.add(&[by, (label, &value.replace(' ', "_"))], seconds(i128::from(*ns)));
            }
        }
        let amounts = [
            (
                ("onbeat_irq_unowned_seconds_total", "Softirq time that no process caused"),
                ("onbeat_irq_unowned_packets_total", "Packets of no process"),
                "class",
                &self.unowned,
            ),
            (
                ("onbeat_irq_hard_seconds_total", "Time of hard interrupts"),
                ("onbeat_irq_hard_interrupts_total", "Number of hard interrupts"),
                "kind",
                &self.interrupts,
            ),
        ];
        for ((time, time_help), (number, number_help), label, amounts) in amounts {
            let mut metric = text.metric(time, Counter, time_help);
            for (value, amount) in amounts {
                metric.add(&[by, (label, &value.replace(' ', "_"))], seconds(amount.ns.into()));
            }
            let mut metric = text.metric(number, Counter, number_help);
            for (value, amount) in amounts {
                metric.add(&[by, (label, &value.replace(' ', "_"))], amount.count);
            }
        }
        for (name, help, ns) in [
            (
                "onbeat_irq_unnamed_seconds_total",
                "Caused time of processes that exited before their name was read",
                self.unnamed_ns,
            ),
            (
                "onbeat_irq_unrecorded_seconds_total",
                "Softirq time without room in the table of the kernel",
                self.unrecorded_ns,
            ),
            (
                "onbeat_irq_process_seconds_total",
                "CPU time of the process that reads the ledger",
                self.process_ns,
            ),
        ] {
            text.metric(name, Counter, help).add(&[by], seconds(ns.into()));
        }
        let help = "Time of the ledger's own programs in the kernel";
        let mut metric = text.metric("onbeat_irq_programs_seconds_total", Counter, help);
        if let Some(ns) = self.programs_ns {
            metric.add(&[by], seconds(ns.into()));
        }
        let help = "Unix time of these metrics";
        text.metric("onbeat_irq_seen_seconds", Gauge, help).add(&[by], seen_s);
        text.into_string()
    }
}

/// Replaces the file after each interval, at most `count` times if given, until a signal stops it. After the first time, a
/// failure to write is passed to `failed` once, and ends nothing.
///
/// # Errors
/// The file cannot be written the first time; the kernel denies access to the ledger.
pub fn run<E: From<onbeat_irq::Error> + From<MetricsFileError>>(
    watch: Watch,
    by: GroupKey,
    (interval, count): (Duration, Option<u64>),
    file: &MetricsFile,
    mut failed: impl FnMut(&str),
) -> Result<(), E> {
    let options = TableOptions { by, ..TableOptions::default() };
    let mut totals = Totals::new(by);
    file.replace(&totals.text(unix_time()))?;
    let mut last = LastWrite::default();
    top::run(watch, interval, count, |snapshot, names| {
        totals.add(snapshot, &snapshot.all(&options, names));
        if let Some(failure) = last.news(file.replace(&totals.text(unix_time()))) {
            failed(&failure);
        }
        Ok(true)
    })
}

fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use onbeat_irq_core::view::{AttributedShares, Groups, SufferedShares};
    use onbeat_testing::check_metrics;

    use super::*;

    fn row(name: Option<&str>, caused_ns: u64) -> GroupRow {
        GroupRow {
            name: name.map(str::to_owned),
            caused_ns,
            suffered_ns: 2,
            packets: 3,
            ..GroupRow::default()
        }
    }

    fn table(rows: Vec<GroupRow>) -> Table {
        let caused = rows.iter().map(|row| row.caused_ns).sum();
        Table {
            measured_ns: caused,
            groups: Some(Groups { by: GroupKey::Unit, rows, ..Groups::default() }),
            attributed: AttributedShares { reader_ns: caused, ..AttributedShares::default() },
            ran_on: SufferedShares { napi_threads_ns: caused, ..SufferedShares::default() },
            ..Table::default()
        }
    }

    fn totals(tables: &[Table]) -> Totals {
        let mut totals = Totals::new(GroupKey::Unit);
        for table in tables {
            totals.add(&Snapshot::default(), table);
        }
        totals
    }

    #[test]
    fn intervals_are_added() {
        let web = || row(Some("web.service"), 1_000_000_000);
        let text = totals(&[
            table(vec![web(), row(None, 7)]),
            table(vec![web()]),
            table(vec![row(Some("db.service"), 5)]),
        ])
        .text(9);
        for line in [
            "onbeat_irq_caused_seconds_total{by=\"unit\",group=\"web.service\"} 2.000000000",
            "onbeat_irq_caused_seconds_total{by=\"unit\",group=\"db.service\"} 0.000000005",
            "onbeat_irq_caused_seconds_total{by=\"unit\",group=\"(none)\"} 0.000000007",
            "onbeat_irq_suffered_seconds_total{by=\"unit\",group=\"web.service\"} 0.000000004",
            "onbeat_irq_packets_total{by=\"unit\",group=\"web.service\"} 6",
            "onbeat_irq_attributed_seconds_total{by=\"unit\",evidence=\"reader\"} 2.000000012",
            "onbeat_irq_attributed_seconds_total{by=\"unit\",evidence=\"other_softirqs\"} 0.000000000",
            "onbeat_irq_softirq_seconds_total{by=\"unit\",ran_on=\"napi_threads\"} 2.000000012",
            "onbeat_irq_seen_seconds{by=\"unit\"} 9",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
        }
    }

    fn caused_ns(totals: &Totals) -> u64 {
        totals.groups.values().map(|sums| sums.caused_ns).sum()
    }

    /// Any number of names changes no sum, and no metric of a group falls or ends.
    #[test]
    fn groups_beyond_the_limits_are_summed() {
        let mut totals = totals(&[]);
        let mut before = BTreeMap::new();
        for interval in 0..3 {
            let many = (0..MAX_GROUPS).map(|number| row(Some(&format!("{interval}-{number}")), 10));
            let long = "x".repeat(MAX_NAME + 1);
            totals.add(&Snapshot::default(), &table(many.chain([row(Some(&long), 1)]).collect()));
            assert!(totals.groups.len() <= MAX_GROUPS + 1, "{}", totals.groups.len());
            assert_eq!(caused_ns(&totals), (interval + 1) * (10 * MAX_GROUPS as u64 + 1));
            let falls = |(name, sums): (&String, &Sums)| {
                totals.groups.get(name).is_none_or(|now| now.caused_ns < sums.caused_ns)
            };
            assert!(!before.iter().any(falls));
            before.clone_from(&totals.groups);
        }
        assert!(totals.groups.contains_key(OTHERS) && totals.groups.contains_key("0-0"));
    }

    #[test]
    fn quiet_groups_leave_their_place_to_others() {
        let hour = Snapshot { length_ns: QUIET_NS, ..Snapshot::default() };
        let mut totals = totals(&[]);
        let many = (0..MAX_GROUPS - 2).map(|number| row(Some(&format!("session-{number}")), 10));
        let busy = || row(Some("web.service"), 1);
        totals.add(&Snapshot::default(), &table(many.chain([busy(), row(None, 5)]).collect()));
        totals.add(&hour, &table(vec![busy(), row(Some("early.service"), 7)]));
        assert!(!totals.groups.contains_key("early.service"), "no group is quiet yet");
        totals.add(&hour, &table(vec![busy(), row(Some("late.service"), 7)]));
        let names: Vec<&str> = totals.groups.keys().map(String::as_str).collect();
        assert_eq!(names, [NONE, OTHERS, "late.service", "web.service"]);
        assert_eq!(caused_ns(&totals), 10 * (MAX_GROUPS as u64 - 2) + 5 + 3 + 7 + 7);
    }

    #[test]
    fn promtool_accepts_the_metrics() {
        check_metrics(&totals(&[table(vec![row(None, 7)])]).text(1));
    }
}

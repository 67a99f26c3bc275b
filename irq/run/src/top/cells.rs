//! The table's cells as text, for lines and for the screen.

use std::collections::BTreeSet;

use onbeat_irq_core::charge::Attribution;
use onbeat_irq_core::charge::sample::StandardError;
use onbeat_irq_core::view::{
    DeviceShare, GroupKey, GroupRow, Groups, InterruptRow, ProcessRow, Table, UnownedRow,
};
use onbeat_report::format;
use onbeat_report::table::Alignment;

use super::Snapshot;

/// Headings of processes.
pub const PROCESSES: [(&str, Alignment); 8] = [
    ("PID", Alignment::Right),
    ("COMMAND", Alignment::Left),
    ("CAUSED", Alignment::Right),
    ("SUFFERED", Alignment::Right),
    ("PACKETS", Alignment::Right),
    ("PER PACKET", Alignment::Right),
    ("DEVICE", Alignment::Left),
    ("CONTROL GROUP", Alignment::Left),
];

/// Headings of rows without a process.
pub const UNOWNED: [(&str, Alignment); 5] = [
    ("FOR NO PROCESS", Alignment::Left),
    ("TIME", Alignment::Right),
    ("PACKETS", Alignment::Right),
    ("PER PACKET", Alignment::Right),
    ("DEVICE", Alignment::Left),
];

/// Digits of a container's id that are shown.
const ID_DIGITS: usize = 12;

/// Lines of a process: the first, and one for each further device.
#[must_use]
pub fn process(row: &ProcessRow, length_ns: u64) -> Vec<[String; 8]> {
    let first = row.parts.first().map(of_device);
    let mut lines = vec![[
        row.pid.to_string(),
        command(row),
        inferred(row, estimate(row.caused_ns, length_ns, row.standard_error)),
        share(row.suffered_ns, length_ns),
        inferred(row, estimated_count(row.packets, row.standard_error)),
        per_packet(row.ns_per_packet),
        first.unwrap_or_default(),
        group(row),
    ]];
    if row.parts.len() > 1 {
        // The first line has the sum, so each device and each kind of evidence has a line of its own.
        let devices: BTreeSet<&str> = row.parts.iter().map(|part| &*part.device).collect();
        lines[0][6] = match devices.len() {
            1 => row.parts[0].device.clone(),
            count => format!("{count} devices"),
        };
        lines.extend(row.parts.iter().map(|part| {
            let per = (part.packets != 0).then(|| part.ns as f64 / part.packets as f64);
            [
                String::new(),
                String::new(),
                inferred(row, estimate(part.ns, length_ns, part.standard_error)),
                String::new(),
                inferred(row, estimated_count(part.packets, part.standard_error)),
                per_packet(per),
                format!("  {}", of_device(part)),
                String::new(),
            ]
        }));
    }
    lines
}

/// The line of folded processes.
#[must_use]
pub fn others(row: &GroupRow, length_ns: u64) -> [String; 8] {
    let name = format!("{} others", count(row.processes));
    let [name, _, caused, suffered, packets, per] = group_line(name, row, length_ns);
    [String::new(), name, caused, suffered, packets, per, String::new(), String::new()]
}

/// Headings of groups.
#[must_use]
pub fn group_headings(by: GroupKey) -> [(&'static str, Alignment); 6] {
    [
        (by.heading(), Alignment::Left),
        ("PROCESSES", Alignment::Right),
        ("CAUSED", Alignment::Right),
        ("SUFFERED", Alignment::Right),
        ("PACKETS", Alignment::Right),
        ("PER PACKET", Alignment::Right),
    ]
}

/// Lines of groups, with that of the folded ones.
pub fn groups(groups: &Groups, length_ns: u64) -> impl Iterator<Item = [String; 6]> + '_ {
    let name = |row: &GroupRow| row.name.clone().unwrap_or_else(|| "(none)".into());
    let rows = groups.rows.iter().map(move |row| group_line(name(row), row, length_ns));
    rows.chain(groups.others.iter().map(move |row| group_line("others".into(), row, length_ns)))
}

fn group_line(name: String, row: &GroupRow, length_ns: u64) -> [String; 6] {
    [
        name,
        count(row.processes),
        estimate(row.caused_ns, length_ns, row.standard_error),
        share(row.suffered_ns, length_ns),
        estimated_count(row.packets, row.standard_error),
        per_packet(row.ns_per_packet),
    ]
}

/// Device, direction, and the evidence if it is not a read.
fn of_device(part: &DeviceShare) -> String {
    let text = format!("{} {}", part.device, part.direction.name());
    match part.by {
        Attribution::Reader => text,
        by => format!("{text}, {}", by.name()),
    }
}

/// The line of a row without a process.
#[must_use]
pub fn unowned(row: &UnownedRow, length_ns: u64) -> [String; 5] {
    let class = match &row.reason {
        Some(reason) => format!("{}: {reason}", row.class),
        None => row.class.to_owned(),
    };
    let device = match (&row.device, &row.to) {
        (Some(from), Some(to)) => format!("{from} -> {to}"),
        (Some(device), None) if device != "-" => {
            format!("{device} {}", row.direction.map_or("", |direction| direction.name()))
        }
        _ => String::new(),
    };
    let time = estimate(row.ns, length_ns, row.standard_error);
    let packets = estimated_count(row.packets, row.standard_error);
    [class, time, packets, per_packet(row.ns_per_packet), device]
}

/// Maximum number of lines of hard interrupts.
pub const INTERRUPTS: usize = 5;

/// The line of hard interrupts: their number is in the column of packets.
#[must_use]
pub fn interrupt(row: &InterruptRow, length_ns: u64) -> [String; 5] {
    let from = match (&row.line, &row.sender) {
        (Some(line), _) => line.clone(),
        (None, Some(sender)) => format!("sent by {sender}"),
        (None, None) => String::new(),
    };
    let each = (row.count > 0).then(|| row.ns as f64 / row.count as f64);
    [
        format!("hard interrupt: {}", row.class),
        share(row.ns, length_ns),
        row.count.to_string(),
        per_packet(each),
        from,
    ]
}

/// The line of the ledger's own cost.
#[must_use]
pub fn own(snapshot: &Snapshot) -> [String; 5] {
    let time = match snapshot.own.programs_ns {
        Some(ns) => share(ns, snapshot.length_ns),
        None => "not measured".into(),
    };
    let rest = String::new;
    ["onbeat's own programs (in the above)".into(), time, rest(), rest(), rest()]
}

/// Lines above the table on a screen: shares of one CPU, summed over all CPUs. Each fits in 80 columns up to 10 CPUs.
#[must_use]
pub fn header(table: &Table) -> [String; 3] {
    let join = |name: &str, parts: &[(&str, u64)]| {
        let part = |(name, ns): &(&str, u64)| {
            format!("{name} {}", share(*ns, table.length_ns).trim_end_matches(" %"))
        };
        let parts: Vec<String> = parts.iter().map(part).collect();
        format!("{name}  {} %", parts.join("  "))
    };
    let ran = &table.ran_on;
    let ran_on = [
        ("processes", ran.processes_ns),
        ("idle", ran.idle_ns),
        ("ksoftirqd", ran.ksoftirqd_ns),
        ("NAPI", ran.napi_threads_ns),
        ("hard irqs", table.hardirq_ns),
    ];
    let caused = &table.attributed;
    let caused = [
        ("reader", caused.reader_ns),
        ("owner", caused.owner_ns),
        ("listener", caused.listener_ns),
        ("kernel", caused.kernel_ns),
        ("unknown", caused.unknown_ns),
        ("other", caused.other_softirqs_ns),
    ];
    [
        format!("softirqs {} of one CPU", share(table.measured_ns, table.length_ns)),
        join("on", &ran_on),
        join("by", &caused),
    ]
}

/// Conditions of the table that a reader must know.
#[must_use]
pub fn remarks(table: &Table, snapshot: &Snapshot) -> Vec<String> {
    let of = |ns| share(ns, table.length_ns);
    let mut remarks = Vec::new();
    if let Some(sample) = table.sample {
        let all_ns = sample.looked_at_ns + sample.skipped_ns;
        remarks
            .push(format!("sampled {}, \u{b1} standard error", share(sample.looked_at_ns, all_ns)));
    }
    if table.unnamed_ns > 0 {
        remarks.push(format!("without a name {}", of(table.unnamed_ns)));
    }
    if snapshot.unrecorded_ns > 0 {
        remarks.push(format!("no room in the table for {}", of(snapshot.unrecorded_ns)));
    }
    remarks
}

/// The line above the table: shares of one CPU, summed over all CPUs.
#[must_use]
pub fn summary(table: &Table, snapshot: &Snapshot) -> String {
    let of = |ns| share(ns, table.length_ns);
    let ran = &table.ran_on;
    let mut text = format!(
        "softirqs {} of one CPU: on processes' time {}, idle {}, ksoftirqd {}, NAPI threads {}; \
         hard interrupts {}",
        of(table.measured_ns),
        of(ran.processes_ns),
        of(ran.idle_ns),
        of(ran.ksoftirqd_ns),
        of(ran.napi_threads_ns),
        of(table.hardirq_ns),
    );
    if let Some(sample) = table.sample {
        let all_ns = sample.looked_at_ns + sample.skipped_ns;
        text += &format!(
            "; packets sampled in {} of the time, in {}; \u{b1} is one standard error",
            share(sample.looked_at_ns, all_ns),
            windows(sample.windows),
        );
    }
    let parts = by_evidence(table).map(|(name, ns)| format!("{name} {}", of(ns)));
    text += &format!("; caused by {}", parts.join(", "));
    if table.processes.iter().any(|row| row.estimate) {
        text += "; ~ is an estimate";
    }
    if table.unnamed_ns > 0 {
        text += &format!("; by processes without a name {}", of(table.unnamed_ns));
    }
    if !snapshot.absent.is_empty() {
        text += &format!("; this kernel has no {}", snapshot.absent.join(", "));
    }
    if snapshot.unrecorded_ns > 0 {
        text += &format!("; no room in the table for {}", of(snapshot.unrecorded_ns));
    }
    text
}

/// Caused time by the evidence for its cause.
pub(crate) fn by_evidence(table: &Table) -> [(&'static str, u64); 7] {
    let shares = &table.attributed;
    [
        ("reader", shares.reader_ns),
        ("owner", shares.owner_ns),
        ("listener", shares.listener_ns),
        ("estimate", shares.estimate_ns),
        ("kernel", shares.kernel_ns),
        ("unknown", shares.unknown_ns),
        ("other softirqs", shares.other_softirqs_ns),
    ]
}

/// A value of a row whose owner is inferred.
fn inferred(row: &ProcessRow, text: String) -> String {
    if row.estimate { format!("~{text}") } else { text }
}

fn command(row: &ProcessRow) -> String {
    match (&row.command, row.ended) {
        (Some(command), false) => command.clone(),
        (Some(command), true) => format!("{command} (exited)"),
        (None, _) => "(exited)".into(),
    }
}

fn group(row: &ProcessRow) -> String {
    match (&row.container, &row.cgroup) {
        (Some(container), _) => {
            format!("container {}", container.chars().take(ID_DIGITS).collect::<String>())
        }
        (None, Some(cgroup)) => cgroup.clone(),
        (None, None) => String::new(),
    }
}

/// A group of a process in few columns: its unit, or the last part of its path.
#[must_use]
pub fn short_group(row: &ProcessRow) -> String {
    match (&row.container, &row.unit, &row.cgroup) {
        (Some(id), ..) => id.chars().take(ID_DIGITS).collect(),
        (None, Some(unit), _) => {
            let suffixes = [".service", ".scope"];
            let short = suffixes.iter().find_map(|suffix| unit.strip_suffix(suffix));
            short.unwrap_or(unit).to_owned()
        }
        (None, None, Some(path)) => match path.rsplit('/').next() {
            Some(last) if !last.is_empty() => last.to_owned(),
            _ => path.clone(),
        },
        (None, None, None) => String::new(),
    }
}

/// The name of a process with its number.
#[must_use]
pub fn numbered(row: &ProcessRow) -> String {
    format!("{} {}", row.pid, command(row))
}

/// A share of one CPU.
#[must_use]
pub fn share(ns: u64, length_ns: u64) -> String {
    format::percent(ns as f64 / length_ns.max(1) as f64)
}

/// With its error, if that is not rounded to zero.
fn estimate(ns: u64, length_ns: u64, error: Option<StandardError>) -> String {
    let text = share(ns, length_ns);
    match error {
        Some(error) if error.ns > 0.0 => {
            format!("{text} \u{b1}{}", format::percent(error.ns / length_ns.max(1) as f64))
        }
        _ => text,
    }
}

fn estimated_count(packets: u64, error: Option<StandardError>) -> String {
    let text = count(packets);
    match error {
        Some(error) if error.packets >= 0.5 => {
            format!("{text} \u{b1}{}", count(error.packets.round() as u64))
        }
        _ => text,
    }
}

/// `1 window`, `2 windows`.
pub(crate) fn windows(count: u64) -> String {
    if count == 1 { "1 window".into() } else { format!("{count} windows") }
}

fn count(packets: u64) -> String {
    format::integer(i64::try_from(packets).unwrap_or(i64::MAX))
}

fn per_packet(ns: Option<f64>) -> String {
    ns.map_or(String::new(), |ns| format::duration_ns(ns.round()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_irq_core::view::{DeviceShare, Direction};

    fn part(device: &str, ns: u64, packets: u64) -> DeviceShare {
        let standard_error = None;
        DeviceShare {
            device: device.into(),
            direction: Direction::Rx,
            by: Attribution::Reader,
            ns,
            packets,
            standard_error,
        }
    }

    #[test]
    fn one_device_is_one_line_and_two_are_three() {
        let mut row = ProcessRow {
            pid: 7,
            command: Some("srv".into()),
            container: Some("0123456789abcdef".into()),
            caused_ns: 250,
            suffered_ns: 5,
            packets: 2,
            ns_per_packet: Some(125.0),
            parts: vec![part("eth0", 250, 2)],
            ..ProcessRow::default()
        };
        let expected = ["7", "srv", "25.0 %", "0.5 %", "2", "125 ns", "eth0 rx"];
        let lines = process(&row, 1000);
        assert_eq!(lines[0][..7], expected.map(String::from));
        assert_eq!(lines[0][7], "container 0123456789ab");
        assert_eq!(lines.len(), 1);
        row.parts.push(part("eth1", 0, 0));
        (row.ended, row.container, row.cgroup) = (true, None, Some("/a".into()));
        let lines = process(&row, 1000);
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0][1].as_str(), lines[0][6].as_str()), ("srv (exited)", "2 devices"));
        assert_eq!((lines[2][6].as_str(), lines[0][7].as_str()), ("  eth1 rx", "/a"));
    }

    #[test]
    fn a_row_whose_owner_is_inferred_is_marked() {
        let row = ProcessRow {
            estimate: true,
            caused_ns: 250,
            packets: 2,
            parts: vec![part("eth0", 200, 1), part("eth1", 50, 1)],
            ..ProcessRow::default()
        };
        let marked: Vec<_> =
            process(&row, 1000).iter().map(|line| (line[2].clone(), line[4].clone())).collect();
        let expected = [("~25.0 %", "~2"), ("~20.0 %", "~1"), ("~5.0 %", "~1")];
        assert_eq!(marked, expected.map(|(time, packets)| (time.into(), packets.into())));
    }

    #[test]
    fn hard_interrupts_have_number_and_origin() {
        let rps = InterruptRow {
            class: "rps",
            sender: Some("NET_RX".into()),
            ns: 100,
            count: 2,
            ..InterruptRow::default()
        };
        let expected = ["hard interrupt: rps", "10.0 %", "2", "50 ns", "sent by NET_RX"];
        assert_eq!(interrupt(&rps, 1000), expected.map(String::from));
        let line = InterruptRow { line: Some("eth0-rx".into()), sender: None, count: 0, ..rps };
        assert_eq!(interrupt(&line, 1000)[3..], ["".to_owned(), "eth0-rx".to_owned()]);
    }

    #[test]
    fn estimates_have_their_error() {
        let error = |ns, packets| Some(StandardError { ns, packets });
        assert_eq!(estimate(250, 1000, error(5.0, 0.0)), "25.0 % \u{b1}0.5 %");
        assert_eq!(estimate(250, 1000, error(0.0, 0.0)), "25.0 %");
        assert_eq!(estimate(250, 1000, None), "25.0 %");
        assert_eq!(estimated_count(1000, error(0.0, 12.4)), format!("{} \u{b1}12", count(1000)));
        assert_eq!(estimated_count(7, error(0.0, 0.2)), "7");
    }

    #[test]
    fn rows_without_an_owner_have_reason_and_device() {
        let row = UnownedRow {
            class: "dropped",
            device: Some("eth0".into()),
            direction: Some(Direction::Rx),
            reason: Some("no socket".into()),
            ns: 100,
            packets: 1,
            ns_per_packet: Some(100.0),
            ..UnownedRow::default()
        };
        let expected = ["dropped: no socket", "10.0 %", "1", "100 ns", "eth0 rx"];
        assert_eq!(unowned(&row, 1000), expected.map(String::from));
        let through = UnownedRow { to: Some("eth1".into()), reason: None, ..row };
        assert_eq!(unowned(&through, 1000)[4], "eth0 -> eth1");
        let timer = UnownedRow { class: "timer", ..UnownedRow::default() };
        assert_eq!(unowned(&timer, 0)[4], "");
    }
}

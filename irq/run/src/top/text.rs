//! The table as lines of text.

use std::fmt::Write;

use onbeat_irq::names::Names;
use onbeat_irq_core::view::Table;
use onbeat_report::table::TextTable;

use super::{Snapshot, TableOptions, cells};

/// All tables of an interval.
#[must_use]
pub fn render(snapshot: &Snapshot, options: &TableOptions, names: &mut Names) -> String {
    let all = snapshot.all(options, names);
    let mut text = format!("{}  {}\n\n", snapshot.time, cells::summary(&all, snapshot));
    let each = snapshot.each(options, names);
    if each.is_empty() {
        text += &tables(&all, Some(snapshot));
    }
    for cpu in each {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "CPU {}: {}\n", cpu.cpu, cells::summary(&cpu.table, snapshot));
        text += &tables(&cpu.table, None);
    }
    text
}

fn tables(table: &Table, own: Option<&Snapshot>) -> String {
    let rows = match &table.groups {
        Some(groups) => {
            let mut rows = TextTable::new(cells::group_headings(groups.by));
            cells::groups(groups, table.length_ns).for_each(|line| rows.row(line));
            rows
        }
        None => {
            let mut rows = TextTable::new(cells::PROCESSES);
            let lines = table.processes.iter().flat_map(|row| cells::process(row, table.length_ns));
            let others = table.others.iter().map(|row| cells::others(row, table.length_ns));
            lines.chain(others).for_each(|line| rows.row(line));
            rows
        }
    };
    let mut unowned = TextTable::new(cells::UNOWNED);
    for row in &table.unowned {
        unowned.row(cells::unowned(row, table.length_ns));
    }
    for row in table.interrupts.iter().take(cells::INTERRUPTS) {
        unowned.row(cells::interrupt(row, table.length_ns));
    }
    if let Some(snapshot) = own {
        unowned.row(cells::own(snapshot));
    }
    format!("{rows}\n{unowned}\n")
}

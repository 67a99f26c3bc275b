//! The table as lines, for what is not a terminal.

use std::fmt::Write;

use onbeat_irq::names::Names;
use onbeat_irq::view::Table;
use onbeat_report::table::TextTable;

use super::{Picture, Shown, cells};

/// All of an interval.
pub(super) fn render(picture: &Picture, shown: &Shown, names: &mut Names) -> String {
    let all = picture.all(shown, names);
    let mut text = format!("{}  {}\n\n", picture.time, cells::summary(&all, picture));
    let each = picture.each(shown, names);
    if each.is_empty() {
        text += &tables(&all, Some(picture));
    }
    for cpu in each {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "CPU {}: {}\n", cpu.cpu, cells::summary(&cpu.table, picture));
        text += &tables(&cpu.table, None);
    }
    text
}

fn tables(table: &Table, own: Option<&Picture>) -> String {
    let mut processes = TextTable::new(cells::PROCESSES);
    for row in &table.processes {
        cells::process(row, table.length_ns).into_iter().for_each(|line| processes.row(line));
    }
    let mut unowned = TextTable::new(cells::UNOWNED);
    for row in &table.unowned {
        unowned.row(cells::unowned(row, table.length_ns));
    }
    if let Some(picture) = own {
        unowned.row(cells::own(picture));
    }
    format!("{processes}\n{unowned}\n")
}

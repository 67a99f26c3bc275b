//! The listed rows: processes, groups, or a tree of both.

use onbeat_irq_core::view::{GroupKey, GroupRow, ProcessRow, Table};
use onbeat_irq_run::top::cells;
use onbeat_report::table::Alignment;
use ratatui::layout::Constraint;
use ratatui::style::Modifier;

use super::Screen;
use crate::screen::{ListedColumn, ListedRow, mark_sorted};

impl Screen {
    /// Columns for this width of a screen; `sampled`: values have errors.
    pub(super) fn columns(&self, width: u16, sampled: bool) -> Vec<ListedColumn> {
        use Alignment::{Left, Right};
        let by = self.options.by;
        let (name, text) = match (sampled, width) {
            (_, 110..) => (22, 24),
            _ => (15, 8),
        };
        let (time, packets) = if sampled { (15, 15) } else { (8, 9) };
        let sums = [
            ("CAUSED", Right, time),
            ("SUFFERED", Right, 9),
            ("PACKETS", Right, packets),
            ("PER PKT", Right, 8),
        ];
        let mut columns: Vec<ListedColumn> = Vec::new();
        let mut add = |name: &str, align, width| columns.push((name.into(), align, width));
        if by == GroupKey::Process {
            add("PID", Right, Constraint::Length(7));
            add("COMMAND", Left, Constraint::Length(name));
        } else {
            add(by.heading(), Left, Constraint::Fill(1));
            add("PROCS", Right, Constraint::Length(6));
        }
        for (name, align, width) in sums {
            add(name, align, Constraint::Length(width));
        }
        if by == GroupKey::Process {
            add("DEVICE", Left, Constraint::Length(text));
            add("GROUP", Left, Constraint::Fill(1));
        }
        let sorted = match self.options.order.name() {
            "caused" => "CAUSED",
            "suffered" => "SUFFERED",
            "packets" => "PACKETS",
            "per-packet" => "PER PKT",
            "pid" => "PID",
            _ => "COMMAND",
        };
        mark_sorted(&mut columns, sorted);
        columns
    }

    /// Rows of all tables. `width`: of the screen.
    pub(super) fn rows(&self, tables: &[(Option<usize>, &Table)], width: u16) -> Vec<ListedRow> {
        let mut rows = Vec::new();
        for (cpu, table) in tables {
            if let Some(cpu) = cpu {
                let at = usize::from(self.options.by == GroupKey::Process);
                let cells = (0..=at).map(|cell| match cell == at {
                    true => format!("CPU {cpu}"),
                    false => String::new(),
                });
                rows.push(ListedRow::new(cells).with(Modifier::BOLD));
            }
            match &table.groups {
                Some(_) => self.add_groups(table, width, &mut rows),
                None => self.add_processes(table, width, &mut rows),
            }
        }
        rows
    }

    fn add_processes(&self, table: &Table, width: u16, rows: &mut Vec<ListedRow>) {
        for row in table.processes.iter().filter(|row| self.lists_process(row)) {
            let mut lines = cells::process(row, table.length_ns);
            lines.truncate(if self.expanded { lines.len() } else { 1 });
            for (number, mut line) in lines.into_iter().enumerate() {
                if number == 0 && width < 110 {
                    line[6] = line[6].replace(" rx", "");
                    line[7] = cells::short_group(row);
                }
                let style = if row.ended { Modifier::DIM } else { Modifier::empty() };
                rows.push(ListedRow::new(line).with(style));
            }
        }
        if let Some(others) = &table.others {
            rows.push(ListedRow::new(cells::others(others, table.length_ns)));
        }
    }

    fn add_groups(&self, table: &Table, width: u16, rows: &mut Vec<ListedRow>) {
        let Some(groups) = &table.groups else { return };
        let members = |name: &Option<String>| -> Vec<&ProcessRow> {
            let of = |row: &&ProcessRow| groups.by.of(row) == *name;
            table.processes.iter().filter(of).collect()
        };
        let lines = cells::groups(groups, table.length_ns);
        // Of a path the last part distinguishes it.
        let others = if table.sample.is_some() { 58 } else { 45 };
        let room = usize::from(width).saturating_sub(others);
        for (row, mut line) in groups.rows.iter().map(Some).chain([None]).zip(lines) {
            if groups.by == GroupKey::Cgroup {
                line[0] = end_of(&line[0], room);
            }
            // The last line is that of the folded groups.
            let Some(GroupRow { name, .. }) = row else {
                rows.push(ListedRow::new(line));
                continue;
            };
            let text = name.as_deref().unwrap_or_default();
            let all = !groups.by.is_of_process() || self.contains(text);
            let is_process_listed = |row: &&ProcessRow| all || self.lists_process(row);
            let listed: Vec<&ProcessRow> = if self.tree || !all {
                members(name).into_iter().filter(is_process_listed).collect()
            } else {
                Vec::new()
            };
            if listed.is_empty() && !self.contains(text) {
                continue;
            }
            let style = if self.tree { Modifier::BOLD } else { Modifier::empty() };
            rows.push(ListedRow::new(line).with(style));
            let last = listed.len().saturating_sub(1);
            for (number, row) in listed.into_iter().enumerate().filter(|_| self.tree) {
                let branch = if number == last { '\u{2514}' } else { '\u{251c}' };
                let [_, _, caused, suffered, packets, per, ..] =
                    cells::process(row, table.length_ns).swap_remove(0);
                let name = format!("  {branch} {}", cells::numbered(row));
                rows.push(ListedRow::new([name, String::new(), caused, suffered, packets, per]));
            }
        }
    }

    fn contains(&self, text: &str) -> bool {
        text.to_lowercase().contains(&self.search.text.to_lowercase())
    }

    fn lists_process(&self, row: &ProcessRow) -> bool {
        let names = [&row.command, &row.cgroup, &row.container, &row.pod, &row.user];
        let mut names = names.into_iter().flatten().map(String::as_str);
        let devices = || row.parts.iter().map(|part| part.device.as_str());
        self.search.text.is_empty()
            || self.contains(&row.pid.to_string())
            || names.any(|name| self.contains(name))
            || devices().any(|name| self.contains(name))
    }
}

/// The end of a text in this number of columns.
fn end_of(text: &str, room: usize) -> String {
    let hidden = text.chars().count().saturating_sub(room);
    if hidden == 0 {
        return text.to_owned();
    }
    let end: String = text.chars().skip(hidden + 1).collect();
    format!("\u{2026}{end}")
}

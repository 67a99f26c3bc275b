//! Drawing.

use onbeat_irq_core::view::{GroupKey, Table};
use onbeat_irq_run::top::cells;
use onbeat_report::table::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Modifier;
use ratatui::widgets::Paragraph;

use super::{Screen, help};
use crate::screen::{ListedColumn, ListedRow, grid, sparkline};

/// Columns of time without a process.
const UNOWNED: [Constraint; 5] = [
    Constraint::Fill(3),
    Constraint::Length(12),
    Constraint::Length(10),
    Constraint::Length(8),
    Constraint::Fill(2),
];

/// Maximum width of the sparkline.
const SPARKLINE: usize = 24;

impl Screen {
    pub(super) fn render(
        &mut self,
        frame: &mut Frame<'_>,
        all: &Table,
        tables: &[(Option<usize>, &Table)],
    ) {
        let area = frame.area();
        if self.help {
            frame.render_widget(Paragraph::new(help::TEXT), area);
            return;
        }
        let unowned = self.unowned(all, usize::from(area.height / 3));
        let parts = [
            Constraint::Length(3),
            Constraint::Min(3),
            Constraint::Length(unowned.len() as u16 + 1),
            Constraint::Length(1),
        ];
        let [above, middle, below, keys] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(self.header(all, usize::from(area.width))), above);
        let columns = self.columns(area.width, all.sample.is_some());
        let rows = self.rows(tables, area.width);
        let room = usize::from(middle.height.saturating_sub(1));
        self.scrolled = self.scrolled.min(rows.len().saturating_sub(room));
        grid(frame, middle, rows, &columns, self.scrolled);
        grid(frame, below, unowned, &unowned_columns(self.interrupts), 0);
        frame.render_widget(Paragraph::new(self.keys()).style(Modifier::REVERSED), keys);
    }

    /// Sums, with the course of the softirq time in the first line.
    fn header(&self, all: &Table, width: usize) -> String {
        let [first, second, third] = cells::header(all);
        let room = width.saturating_sub(first.chars().count() + 2).min(SPARKLINE);
        let line = sparkline(self.history.iter().copied(), room);
        let first = [vec![first, line], cells::remarks(all, &self.snapshot)].concat().join("  ");
        format!("{first}\n{second}\n{third}")
    }

    /// Time of no process, or hard interrupts, in at most `room` lines.
    fn unowned(&self, all: &Table, room: usize) -> Vec<ListedRow> {
        let by_place = !self.options.by.is_of_process();
        let mut own = cells::own(&self.snapshot);
        own[0] = "onbeat, in the above".into();
        let length_ns = all.length_ns;
        let (times, mut lines): (Vec<u64>, Vec<[String; 5]>) = if self.interrupts {
            let interrupts = all.interrupts.iter();
            interrupts.map(|row| (row.ns, cells::interrupt(row, length_ns))).unzip()
        } else {
            all.unowned.iter().map(|row| (row.ns, cells::unowned(row, length_ns))).unzip()
        };
        if by_place && !self.interrupts {
            for line in &mut lines {
                line[0] += " (in the above)";
            }
        }
        let most = room.saturating_sub(2).max(1);
        if lines.len() > most {
            let hidden = &times[most - 1..];
            lines.truncate(most - 1);
            let ns = hidden.iter().sum();
            let name = format!("{} more", hidden.len());
            let time = cells::share(ns, all.length_ns);
            lines.push([name, time, String::new(), String::new(), String::new()]);
        }
        lines.push(own);
        lines.into_iter().map(ListedRow::new).collect()
    }

    fn keys(&self) -> String {
        if self.search.typing {
            return self.search.prompt();
        }
        let mut parts = Vec::new();
        if self.held {
            parts.push("PAUSED".to_owned());
        }
        parts.push("h help".into());
        parts.push(format!("s {}", self.options.order.name()));
        parts.push(format!("b {}", self.options.by.name()));
        if self.options.by != GroupKey::Process {
            parts.push(format!("t tree{}", if self.tree { " on" } else { "" }));
        }
        if !self.search.text.is_empty() {
            parts.push(format!("/{}", self.search.text));
        } else {
            parts.push("/ search".into());
        }
        parts.push(format!("d {}", self.options.device.as_deref().unwrap_or("all devices")));
        parts.push("q quit".into());
        printable(&parts.join("  "))
    }
}

fn unowned_columns(interrupts: bool) -> Vec<ListedColumn> {
    let names = match interrupts {
        true => ["INTERRUPTS", "TIME", "NUMBER", "EACH", "ORIGIN"],
        false => ["FOR NO PROCESS", "TIME", "PACKETS", "PER PKT", "DEVICE"],
    };
    let columns = names.into_iter().zip(cells::UNOWNED).zip(UNOWNED);
    columns.map(|((name, (_, align)), width)| (name.into(), align, width)).collect()
}

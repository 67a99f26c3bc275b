//! Drawing.

use onbeat_node::control::{NodeTables, nodes_table, wildcards_table};
use onbeat_report::table::{Alignment, printable};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::widgets::Paragraph;

use super::{LowerPane, Screen};
use crate::command::top::rates::{Order, StreamRates};
use crate::command::top::text;
use crate::screen::{ListedColumn, ListedRow, grid, mark_sorted, sparkline};

/// Maximum width of the sparkline.
const SPARKLINE: usize = 24;
/// Width from which on the paths of streams have a column.
const WIDE: u16 = 110;

/// It fits on a screen of 80 columns and 24 lines.
pub(super) const HELP: &str = "\
Keys
  h ? F1    this help                    q Esc F10   quit
  / F3 F4   list streams with a text;    s > F6      next order: trouble, name,
            * and ? are wildcards;                   input, lost, discarded
            Esc lists all again          space       pause
  p Enter   paths of the stream          n           nodes of PRP or wildcards
  arrows j k Page Home End: select a stream

Columns, in frames per second
  IN        received by the port, or by all members of the stream
  OUT       that left by the port; of a stream: handed to its ports, each once
  DISC      that recovery discarded: copies of accepted ones, and rogue ones
  OTHER     frames of no stream, passed to the network stack
  ORDER     accepted out of order
  LOST      port: lost by the data plane; stream: sent, and arrived on no path

TROUBLE: path lost, all paths lost, latent error, rogue flood, all rogue,
stuck transmitter. The remedies: onbeat show --events, and events in the manual.
A node with more streams than are listed lists those in trouble first.

Any key closes this help. Manual: onbeat top --help";

impl Screen {
    pub(super) fn render(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if self.help {
            frame.render_widget(Paragraph::new(HELP), area);
            return;
        }
        let parts = [Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)];
        let [above, middle, keys] = Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(self.header(usize::from(area.width))), above);
        match self.show_tables {
            true => self.render_tables(frame, middle),
            false => self.render_node(frame, middle),
        }
        frame.render_widget(Paragraph::new(self.keys()).style(Modifier::REVERSED), keys);
    }

    fn header(&self, width: usize) -> String {
        let head = match self.before {
            Some(_) => text::head(&self.rates),
            None => String::new(),
        };
        let room = width.saturating_sub(head.chars().count() + 2).min(SPARKLINE);
        let line = sparkline(self.history.iter().copied(), room);
        let second = match &self.problem {
            Some(problem) => format!("NO ANSWER: {problem}"),
            None => self.rates.trouble(),
        };
        format!("{}\n{}", printable(&format!("{head}  {line}")), printable(&second))
    }

    fn render_node(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let third = area.height / 3;
        let remarks = self.rates.ports.iter().filter_map(|port| {
            let remark = port.remark.as_ref()?;
            Some(ListedRow::new([format!("port {:?}: {remark}", port.name)]))
        });
        let port_rows = self.rates.ports.iter().map(|port| {
            let row = ListedRow::new(text::port(port));
            let is_bad = port.lost_per_s.is_some_and(|rate| rate > 0.0)
                || port.link != onbeat_node::control::LinkState::Up;
            if is_bad { row.with(Modifier::BOLD) } else { row }
        });
        let mut ports: Vec<ListedRow> = port_rows.collect();
        let remarks: Vec<ListedRow> = remarks.take(usize::from(third / 3)).collect();
        let most = usize::from(third).saturating_sub(1).max(1);
        let hidden = ports.len().saturating_sub(most);
        if hidden > 0 {
            ports.truncate(most - 1);
            ports.push(ListedRow::new([format!("{} more", hidden + 1)]));
        }
        let below = self.below_rows(usize::from(third), area.width);
        let parts = [
            Constraint::Length(ports.len() as u16 + 1),
            Constraint::Length(remarks.len() as u16),
            Constraint::Min(2),
            Constraint::Length(below.0.len() as u16 + 1),
        ];
        let [port_area, remark_area, stream_area, below_area] = Layout::vertical(parts).areas(area);
        grid(frame, port_area, ports, &columns(&text::PORTS), 0);
        for (line, row) in remark_area.rows().zip(remarks) {
            frame.render_widget(Paragraph::new(row.cells.concat()), line);
        }
        self.render_streams(frame, stream_area);
        grid(frame, below_area, below.0, &below.1, 0);
    }

    fn render_streams(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let listed = self.listed();
        let selected = self.selected_place(&listed);
        let line = text::not_listed(&self.rates);
        let room = usize::from(area.height).saturating_sub(1 + usize::from(line.is_some()));
        let least = (selected + 1).saturating_sub(room);
        let scrolled = self.scrolled.clamp(least, selected.max(least));
        let row = |(place, stream): (usize, &&StreamRates)| {
            let row = ListedRow::new(text::stream(stream));
            let row = if stream.troubles.is_empty() { row } else { row.with(Modifier::BOLD) };
            if place == selected { row.with(Modifier::REVERSED) } else { row }
        };
        let rows: Vec<ListedRow> =
            listed.iter().enumerate().skip(scrolled).take(room).map(row).collect();
        self.scrolled = scrolled;
        let mut columns = columns(&text::STREAMS);
        if area.width < WIDE {
            columns.pop();
        }
        mark_sorted(
            &mut columns,
            match self.order {
                Order::Trouble => "TROUBLE",
                Order::Name => "STREAM",
                Order::Input => "IN/s",
                Order::Lost => "LOST/s",
                Order::Discarded => "DISC/s",
            },
        );
        let rest = (rows.len() as u16 + 1).min(area.height);
        grid(frame, area, rows, &columns, 0);
        if let Some(line) = line {
            let below = Rect { y: area.y + rest, height: area.height - rest, ..area };
            frame.render_widget(Paragraph::new(line), below);
        }
    }

    /// Events or paths in at most `room` lines, and their columns.
    fn below_rows(&self, room: usize, width: u16) -> (Vec<ListedRow>, Vec<ListedColumn>) {
        let most = room.saturating_sub(1).max(1);
        if self.lower == LowerPane::Events {
            let event = |event: &onbeat_node::control::Event| {
                let time = event.time.get(11..19).unwrap_or(&event.time);
                ListedRow::new([time.to_owned(), event.to_string()])
            };
            let skipped = self.events.len().saturating_sub(most);
            let rows = self.events.iter().skip(skipped).map(event).collect();
            let time = ("UTC".to_owned(), Alignment::Left, Constraint::Length(8));
            return (rows, vec![time, ("EVENT".into(), Alignment::Left, Constraint::Fill(1))]);
        }
        let wide = u16::from(width >= WIDE);
        let columns: [(&str, Alignment, u16); 7] = [
            ("PATH", Alignment::Left, 0),
            ("INPUT", Alignment::Right, 11 + 4 * wide),
            ("LOST", Alignment::Right, 9 + 4 * wide),
            ("FIRST", Alignment::Right, 7),
            ("SKEW P50", Alignment::Right, 9),
            ("P99", Alignment::Right, 9),
            ("MAX", Alignment::Right, 9),
        ];
        let mut rows = Vec::new();
        let name = self.selected_name();
        match self.paths.as_ref().filter(|paths| Some(paths.stream.as_str()) == name) {
            None => {
                // Not yet read, or without sequence recovery.
                rows.push(ListedRow::new([name.unwrap_or("no stream").to_owned()]));
            }
            Some(paths) => {
                rows.extend(
                    paths.paths.iter().map(|path| ListedRow::new(path.cells(paths.measured))),
                );
            }
        }
        rows.truncate(most);
        (rows, self::columns(&columns))
    }

    /// The tables of PRP or of wildcards, as `show --nodes` prints them.
    fn render_tables(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let text = match &self.tables {
            None => String::new(),
            Some(Err(reason)) => reason.clone(),
            Some(Ok(NodeTables::Prp(nodes))) => nodes_table(nodes),
            Some(Ok(NodeTables::Wildcards(tables))) => wildcards_table(tables),
        };
        let lines: Vec<String> = text.lines().map(printable).collect();
        let most = lines.len().saturating_sub(usize::from(area.height));
        self.tables_scrolled = self.tables_scrolled.min(most);
        let seen = lines.iter().skip(self.tables_scrolled).take(area.height.into());
        let seen: Vec<&str> = seen.map(String::as_str).collect();
        frame.render_widget(Paragraph::new(seen.join("\n")), area);
    }

    fn keys(&self) -> String {
        if self.search.typing {
            return printable(&self.search.prompt());
        }
        let mut parts = Vec::new();
        if self.held {
            parts.push("PAUSED".to_owned());
        }
        parts.push("h help".into());
        parts.push(format!("s {}", self.order.name()));
        parts.push(match self.search.text.as_str() {
            "" => "/ search".into(),
            text => format!("/{text}"),
        });
        let below = if self.lower == LowerPane::Events { "p paths" } else { "p events" };
        parts.push(below.into());
        parts.push(if self.show_tables { "n streams" } else { "n nodes" }.into());
        parts.push("q quit".into());
        printable(&parts.join("  "))
    }
}

/// Columns of a table: the first one without a width takes the rest.
fn columns(of: &[(&str, Alignment, u16)]) -> Vec<ListedColumn> {
    let width = |width| if width == 0 { Constraint::Fill(1) } else { Constraint::Length(width) };
    of.iter().map(|(name, align, columns)| ((*name).into(), *align, width(*columns))).collect()
}

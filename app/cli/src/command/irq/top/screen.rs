//! The table on a terminal, until the user presses q.

use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq_core::view::Table;
use onbeat_irq_run::top::{Snapshot, TableOptions, cells};
use onbeat_irq_run::watch::Watch;
use onbeat_report::table::Alignment;
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{self, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Paragraph, Row, Table as Grid, TableState, Wrap};

use onbeat_terminal::exit::{Failure, Result};

/// Shows the table until the user quits, or `count` times.
pub(super) fn run(
    watch: Watch,
    options: TableOptions,
    interval: Duration,
    count: Option<u64>,
) -> Result<()> {
    let terminal = ratatui::try_init()
        .map_err(|error| Failure::new(format!("the terminal cannot be used: {error}")))?;
    let screen = Screen { options, snapshot: Snapshot::default(), held: false, scrolled: 0 };
    let ended = screen.run(terminal, watch, interval, count);
    ratatui::restore();
    ended
}

struct Screen {
    options: TableOptions,
    snapshot: Snapshot,
    held: bool,
    scrolled: usize,
}

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    Quit,
    Draw,
    Ignore,
}

impl Screen {
    fn run(
        mut self,
        mut terminal: DefaultTerminal,
        mut watch: Watch,
        interval: Duration,
        mut count: Option<u64>,
    ) -> Result<()> {
        // The wait during a reading requires the names of that reading.
        let mut names = watch.meter.tracer().names()?;
        self.draw(&mut terminal, &mut names)?;
        loop {
            let reading =
                watch.read(interval, |until| self.wait(until, &mut terminal, &mut names))?;
            if reading.last {
                return Ok(());
            }
            if !self.held {
                self.snapshot = Snapshot::of(reading, &watch);
                names.refresh();
                self.draw(&mut terminal, &mut names)?;
            }
            count = count.map(|count| count - 1);
            if count == Some(0) {
                return Ok(());
            }
        }
    }

    /// Waits until an instant and handles keys; returns false if the user quits.
    fn wait(
        &mut self,
        until: Instant,
        terminal: &mut DefaultTerminal,
        names: &mut Names,
    ) -> Result<bool> {
        let failed = |error| Failure::new(format!("the terminal cannot be read: {error}"));
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !event::poll(left).map_err(failed)? {
                return Ok(true);
            }
            let action = match event::read().map_err(failed)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let devices = self.devices(names);
                    self.key(key, &devices)
                }
                Event::Resize(..) => KeyAction::Draw,
                _ => KeyAction::Ignore,
            };
            match action {
                KeyAction::Quit => return Ok(false),
                KeyAction::Draw => self.draw(terminal, names)?,
                KeyAction::Ignore => {}
            }
        }
    }

    fn devices(&self, names: &mut Names) -> Vec<String> {
        let all = TableOptions { device: None, ..self.options.clone() };
        self.snapshot.all(&all, names).devices()
    }

    fn key(&mut self, key: KeyEvent, devices: &[String]) -> KeyAction {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('c') if control => return KeyAction::Quit,
            KeyCode::Char('s') => self.options.order = self.options.order.next(),
            KeyCode::Char('d') => {
                self.options.device = next(self.options.device.as_deref(), devices)
            }
            KeyCode::Char('c') => self.options.per_cpu = !self.options.per_cpu,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Down => self.scrolled += 1,
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += 20,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(20),
            KeyCode::Home => self.scrolled = 0,
            _ => return KeyAction::Ignore,
        }
        KeyAction::Draw
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal, names: &mut Names) -> Result<()> {
        let all = self.snapshot.all(&self.options, names);
        let each = self.snapshot.each(&self.options, names);
        let tables: Vec<(Option<usize>, &Table)> = match each.as_slice() {
            [] => vec![(None, &all)],
            each => each.iter().map(|cpu| (Some(cpu.cpu), &cpu.table)).collect(),
        };
        let drawn = terminal.draw(|frame| self.render(frame, &all, &tables));
        drawn.map_err(|error| Failure::new(format!("the terminal cannot be written: {error}")))?;
        Ok(())
    }

    fn render(&mut self, frame: &mut Frame<'_>, all: &Table, tables: &[(Option<usize>, &Table)]) {
        let unowned: Vec<Row<'_>> = all
            .unowned
            .iter()
            .map(|row| cells::unowned(row, all.length_ns))
            .chain([cells::own(&self.snapshot)])
            .map(|cells| line(cells, &cells::UNOWNED))
            .collect();
        let mut processes: Vec<Row<'_>> = Vec::new();
        for (cpu, table) in tables {
            if let Some(cpu) = cpu {
                processes.push(heading(&format!("CPU {cpu}")));
            }
            let rows = table.processes.iter().flat_map(|row| cells::process(row, table.length_ns));
            processes.extend(rows.map(|cells| line(cells, &cells::PROCESSES)));
        }
        self.scrolled = self.scrolled.min(processes.len().saturating_sub(1));

        let below = (unowned.len() as u16 + 1).min(frame.area().height / 3);
        let parts = [
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(below),
        ];
        let [above, keys, middle, below] = Layout::vertical(parts).areas(frame.area());
        let summary = Paragraph::new(cells::summary(all, &self.snapshot));
        frame.render_widget(summary.wrap(Wrap { trim: true }), above);
        frame.render_widget(Paragraph::new(self.keys()).style(Modifier::DIM), keys);
        let widths = [8, 22, 9, 9, 11, 10, 24, 20];
        let scrolled = self.scrolled;
        grid(frame, middle, processes, &cells::PROCESSES, &widths, scrolled);
        grid(frame, below, unowned, &cells::UNOWNED, &[40, 9, 11, 10, 30], 0);
    }

    fn keys(&self) -> String {
        let device = self.options.device.as_deref().unwrap_or("all");
        let held = if self.held { " (paused)" } else { "" };
        format!(
            "q quit  s order: {}  d device: {device}  c per CPU  space pause{held}",
            self.options.order.name()
        )
    }
}

/// The next device; `None`, for all devices, after the last.
fn next(device: Option<&str>, devices: &[String]) -> Option<String> {
    match device.map(|device| devices.iter().position(|known| known == device)) {
        None => devices.first().cloned(),
        Some(Some(at)) => devices.get(at + 1).cloned(),
        Some(None) => None,
    }
}

fn line<const N: usize>(cells: [String; N], columns: &[(&str, Alignment); N]) -> Row<'static> {
    let cell = |(text, (_, align)): (String, &(&str, Alignment))| {
        Cell::new(Text::from(onbeat_report::table::printable(&text)).alignment(alignment(*align)))
    };
    Row::new(cells.into_iter().zip(columns).map(cell))
}

fn heading(text: &str) -> Row<'static> {
    let cells = [Cell::new(String::new()), Cell::new(text.to_owned())];
    Row::new(cells).style(Modifier::BOLD)
}

fn alignment(align: Alignment) -> layout::Alignment {
    match align {
        Alignment::Left => layout::Alignment::Left,
        Alignment::Right => layout::Alignment::Right,
    }
}

fn grid<const N: usize>(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: Vec<Row<'_>>,
    columns: &[(&str, Alignment); N],
    widths: &[u16; N],
    scrolled: usize,
) {
    let heading = line(columns.map(|(name, _)| name.to_owned()), columns);
    let grid = Grid::new(rows, widths.map(Constraint::Length))
        .header(heading.style(Style::new().add_modifier(Modifier::REVERSED)));
    let mut state = TableState::new().with_offset(scrolled);
    frame.render_stateful_widget(grid, area, &mut state);
}

#[cfg(test)]
mod tests {
    use onbeat_irq_core::charge::sample::{Estimate, Sample};
    use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Device, Process};
    use onbeat_irq_core::view::Order;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn screen() -> Screen {
        let options = TableOptions::default();
        Screen { options, snapshot: Snapshot::default(), held: false, scrolled: 0 }
    }

    fn key(screen: &mut Screen, code: KeyCode) -> KeyAction {
        let devices = ["eth0".to_owned(), "eth1".to_owned()];
        screen.key(KeyEvent::new(code, KeyModifiers::NONE), &devices)
    }

    #[test]
    fn keys_change_the_view() {
        let mut screen = screen();
        let press =
            |screen: &mut Screen, c| assert_eq!(key(screen, KeyCode::Char(c)), KeyAction::Draw);
        press(&mut screen, 's');
        assert_eq!(screen.options.order, Order::Suffered);
        for device in [Some("eth0"), Some("eth1"), None] {
            press(&mut screen, 'd');
            assert_eq!(screen.options.device.as_deref(), device);
        }
        press(&mut screen, 'c');
        press(&mut screen, ' ');
        assert!(screen.options.per_cpu && screen.held);
        assert_eq!(key(&mut screen, KeyCode::Down), KeyAction::Draw);
        assert_eq!(screen.scrolled, 1);
        assert_eq!(key(&mut screen, KeyCode::Home), KeyAction::Draw);
        assert_eq!((key(&mut screen, KeyCode::Up), screen.scrolled), (KeyAction::Draw, 0));
        assert_eq!(key(&mut screen, KeyCode::Char('x')), KeyAction::Ignore);
        for end in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(key(&mut screen, end), KeyAction::Quit);
        }
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.key(control_c, &[]), KeyAction::Quit);
        screen.options.device = Some("gone".into());
        press(&mut screen, 'd');
        assert_eq!(screen.options.device, None);
    }

    /// The content of a screen of this size.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
        let mut names = Names::new();
        let all = screen.snapshot.all(&screen.options, &mut names);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.render(frame, &all, &[(None, &all)])).unwrap();
        let cells = terminal.backend().buffer().content.chunks(width.into());
        let line =
            |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect();
        cells.map(line).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn time_of_no_process_is_below_the_processes() {
        let mut screen = screen();
        // No process has this PID.
        let process = Process { pid: 4_000_001, start_ticks: 1 };
        let cause = Cause::Process { process, device: Device::default(), by: Attribution::Reader };
        let accounts = Accounts {
            caused: [(cause, Amount { ns: 400, packets: 2 })].into(),
            measured_ns: 400,
            ..Accounts::default()
        };
        screen.snapshot = Snapshot {
            length_ns: 1000,
            cpus: vec![Estimate::of(&accounts, &Sample::default())],
            ..Snapshot::default()
        };
        let text = drawn(&mut screen, 120, 20);
        let line = text.lines().find(|line| line.contains("4000001")).expect(&text);
        assert!(line.contains("(exited)") && line.contains("40.0 %") && line.contains("200 ns"));
        assert!(text.starts_with("softirqs 40.0 % of one CPU"), "{text}");
        assert!(
            text.contains("FOR NO PROCESS") && text.contains("onbeat's own programs"),
            "{text}"
        );
        // Small screens are drawn as well.
        for (width, height) in [(1, 1), (20, 3), (40, 8)] {
            drawn(&mut screen, width, height);
        }
    }
}

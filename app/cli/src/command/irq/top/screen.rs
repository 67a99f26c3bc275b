//! The table on a terminal, until the user presses q.

mod draw;
mod help;
mod keys;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use onbeat_irq::names::Names;
use onbeat_irq_core::view::{Fold, Table};
use onbeat_irq_run::top::{Snapshot, TableOptions};
use onbeat_irq_run::watch::Watch;
use onbeat_realtime::interrupt;
use ratatui::DefaultTerminal;

use crate::screen::{self, HISTORY, KeyAction, Search};
use onbeat_terminal::exit::Result;

/// Shows the table until the user quits, or `count` times.
pub(super) fn run(
    watch: Watch,
    options: TableOptions,
    interval: Duration,
    count: Option<u64>,
) -> Result<()> {
    let screen = Screen { options, ..Screen::default() };
    screen::with_terminal(|terminal| screen.run(terminal, watch, interval, count))
}

#[derive(Default)]
struct Screen {
    options: TableOptions,
    snapshot: Snapshot,
    /// Softirq time of the last intervals, as shares of one CPU.
    history: VecDeque<f64>,
    held: bool,
    scrolled: usize,
    /// Whether the processes of each group are listed below it.
    tree: bool,
    /// Whether a process has a line for each device.
    expanded: bool,
    /// Whether hard interrupts are listed in place of time without a process.
    interrupts: bool,
    help: bool,
    search: Search,
}

impl Screen {
    fn run(
        mut self,
        terminal: &mut DefaultTerminal,
        mut watch: Watch,
        interval: Duration,
        mut count: Option<u64>,
    ) -> Result<()> {
        // The wait during a reading requires the names of that reading.
        let mut names = watch.meter.tracer().names()?;
        self.draw(terminal, &mut names)?;
        loop {
            let reading = watch.read(interval, |until| self.wait(until, terminal, &mut names))?;
            if reading.last {
                return Ok(());
            }
            if !self.held {
                self.show(Snapshot::of(reading, &watch));
                names.refresh();
                self.draw(terminal, &mut names)?;
            }
            count = count.map(|count| count - 1);
            if count == Some(0) {
                return Ok(());
            }
        }
    }

    fn show(&mut self, snapshot: Snapshot) {
        let measured: u64 = snapshot.cpus.iter().map(|cpu| cpu.accounts.measured_ns).sum();
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(measured as f64 / snapshot.length_ns.max(1) as f64);
        self.snapshot = snapshot;
    }

    /// Waits until an instant and handles keys; returns false if the user quits, or a signal ends the command.
    fn wait(
        &mut self,
        until: Instant,
        terminal: &mut DefaultTerminal,
        names: &mut Names,
    ) -> Result<bool> {
        while interrupt::check().is_ok() {
            let left = until.saturating_duration_since(Instant::now());
            let action = screen::input(left, |key| {
                let devices = self.devices(names);
                self.key(key, &devices)
            })?;
            match action {
                Some(KeyAction::Quit) => return Ok(false),
                Some(KeyAction::Draw) => self.draw(terminal, names)?,
                Some(KeyAction::Ignore) => {}
                None if Instant::now() >= until => return Ok(true),
                None => {}
            }
        }
        Ok(false)
    }

    fn devices(&self, names: &mut Names) -> Vec<String> {
        let all = TableOptions { device: None, ..self.options.clone() };
        self.snapshot.all(&all, names).devices()
    }

    /// Options of the tables: a search and a tree require all processes.
    fn table_options(&self) -> TableOptions {
        let mut options = self.options.clone();
        if self.tree || !self.search.text.is_empty() {
            options.fold = Fold::default();
        }
        options
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal, names: &mut Names) -> Result<()> {
        let options = self.table_options();
        let all = self.snapshot.all(&options, names);
        let each = self.snapshot.each(&options, names);
        let tables: Vec<(Option<usize>, &Table)> = match each.as_slice() {
            [] => vec![(None, &all)],
            each => each.iter().map(|cpu| (Some(cpu.cpu), &cpu.table)).collect(),
        };
        screen::draw(terminal, |frame| self.render(frame, &all, &tables))
    }
}

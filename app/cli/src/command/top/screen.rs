//! The tables on a terminal, until the user presses q.
//!
//! A thread reads the node, so that a slow answer delays no key.

mod draw;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use onbeat_node::control::{ClientError, Event, NodeTables, StreamPaths};
use onbeat_realtime::interrupt;
use onbeat_terminal::exit::{Failure, Result};
use ratatui::DefaultTerminal;

use super::SHORTEST;
use super::rates::{Order, Rates};
use super::source::{Reading, Selection, Source};
use crate::screen::{self, HISTORY, KeyAction, Search};

/// Maximum time between polls for a reading.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of kept events.
const EVENTS: usize = 200;

/// What the pane below the streams shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LowerPane {
    #[default]
    Events,
    /// The paths of the selected stream.
    Paths,
}

#[derive(Default)]
struct Screen {
    order: Order,
    search: Search,
    rates: Rates,
    before: Option<Reading>,
    /// Frames received per second in the last intervals.
    history: VecDeque<f64>,
    /// The newest last.
    events: VecDeque<Event>,
    paths: Option<StreamPaths>,
    tables: Option<std::result::Result<NodeTables, String>>,
    /// Why there is no new reading.
    problem: Option<String>,
    held: bool,
    help: bool,
    show_tables: bool,
    lower: LowerPane,
    /// The name of the selected stream; the first one if it is not listed.
    selected: Option<String>,
    scrolled: usize,
    /// Line of the tables of nodes at the top.
    tables_scrolled: usize,
}

type ReadOutcome = std::result::Result<Reading, ClientError>;

/// Shows the tables until the user quits, or `count` times.
pub(super) fn run(
    source: Source,
    (order, search): (Order, String),
    interval: Duration,
    count: Option<u64>,
) -> Result<()> {
    let search = Search { text: search, typing: false };
    let mut screen = Screen { order, search, ..Screen::default() };
    screen::with_terminal(|terminal| screen.run(terminal, source, interval, count))
}

/// Reads the node for each request; ends with the screen.
fn answer(mut source: Source, requests: &Receiver<Selection>, outcomes: &Sender<ReadOutcome>) {
    while let Ok(selection) = requests.recv() {
        if outcomes.send(source.read(&selection)).is_err() {
            return;
        }
    }
}

impl Screen {
    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        source: Source,
        interval: Duration,
        mut count: Option<u64>,
    ) -> Result<()> {
        let (request, requests) = mpsc::channel();
        let (send, outcomes) = mpsc::channel();
        std::thread::spawn(move || answer(source, &requests, &send));
        let mut requested = Selection::default();
        let mut next = Instant::now();
        // Of a reading between two intervals: a key selected something else.
        let mut early: Option<Instant> = None;
        // Whether the pending reading is that of an interval.
        let mut pending: Option<bool> = None;
        while interrupt::check().is_ok() {
            let now = Instant::now();
            let is_due = now >= next;
            if pending.is_none() && (is_due || early.is_some_and(|early| now >= early)) {
                requested = self.selection();
                // The thread lives as long as this loop.
                pending = request.send(requested.clone()).is_ok().then_some(is_due);
                early = None;
                if is_due {
                    next = now + interval;
                }
            }
            match outcomes.try_recv() {
                Ok(outcome) => {
                    let is_interval = pending.take().unwrap_or(true);
                    let is_counted = is_interval && self.before.is_some();
                    self.apply(outcome, is_interval);
                    self.draw(terminal)?;
                    count = count.map(|count| count - u64::from(is_counted));
                    if count == Some(0) {
                        return Ok(());
                    }
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::new("the thread that reads the node has ended"));
                }
            }
            let left = next.min(early.unwrap_or(next)).saturating_duration_since(Instant::now());
            let wait = if pending.is_some() { POLL_INTERVAL } else { left.min(POLL_INTERVAL) };
            match screen::input(wait, |key| self.key(key))? {
                Some(KeyAction::Quit) => return Ok(()),
                Some(KeyAction::Draw) => {
                    if self.selection() != requested && early.is_none() {
                        let before = self.before.as_ref().map(|reading| reading.at + SHORTEST);
                        early = Some(before.unwrap_or_else(Instant::now));
                    }
                    self.draw(terminal)?;
                }
                Some(KeyAction::Ignore) | None => {}
            }
        }
        Ok(())
    }

    /// What the next reading is to contain.
    fn selection(&self) -> Selection {
        let stream = (self.lower == LowerPane::Paths).then(|| self.selected_name()).flatten();
        Selection {
            search: self.search.text.clone(),
            paths_of: stream.map(str::to_owned),
            tables: self.show_tables,
        }
    }

    /// Shows a reading, of an interval or between two.
    fn apply(&mut self, outcome: ReadOutcome, is_interval: bool) {
        let reading = match outcome {
            Ok(reading) => reading,
            Err(error) => {
                self.problem = Some(error.to_string());
                return;
            }
        };
        self.problem = None;
        self.events.extend(reading.events.iter().cloned());
        self.events.drain(..self.events.len().saturating_sub(EVENTS));
        self.paths.clone_from(&reading.paths);
        self.tables.clone_from(&reading.tables);
        if !self.held {
            self.rates = Rates::between(self.before.as_ref().unwrap_or(&reading), &reading);
            self.rates.sort(self.order);
            if let ([Some(input), _], true) = (self.rates.in_and_out(), is_interval) {
                self.history.push_back(input);
                self.history.drain(..self.history.len().saturating_sub(HISTORY));
            }
        }
        // Also while paused: the first interval after a pause is not that of the pause.
        self.before = Some(reading);
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        screen::draw(terminal, |frame| self.render(frame))
    }
}

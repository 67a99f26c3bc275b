//! The tables on a terminal, until the user presses q.
//!
//! A thread reads the node, so that a slow answer delays no key.

mod draw;
mod keys;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use onbeat_node::control::{ClientError, Event, NodeTables, StreamPaths};
use onbeat_terminal::exit::Result;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyEventKind};

use super::rates::{Order, Rates};
use super::source::{Reading, Selection, Source};
use crate::screen::{HISTORY, KeyAction, Search, failed};

/// Maximum time between looks for a reading.
const LOOK: Duration = Duration::from_millis(50);
/// Number of kept events.
const EVENTS: usize = 200;

/// What is below the streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Below {
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
    below: Below,
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
    let mut terminal = ratatui::try_init().map_err(|error| failed("used", &error))?;
    let search = Search { text: search, typing: false };
    let mut screen = Screen { order, search, ..Screen::default() };
    let ended = screen.run(&mut terminal, source, interval, count);
    ratatui::restore();
    ended
}

/// Reads the node for each request; ends with the screen.
fn answer(mut source: Source, asked: &Receiver<Selection>, answers: &Sender<ReadOutcome>) {
    while let Ok(wanted) = asked.recv() {
        if answers.send(source.read(&wanted)).is_err() {
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
        let (ask, asked) = mpsc::channel();
        let (send, answers) = mpsc::channel();
        std::thread::spawn(move || answer(source, &asked, &send));
        let mut next = Instant::now();
        let mut waits = false;
        loop {
            if !waits && Instant::now() >= next {
                // The thread lives as long as this loop.
                waits = ask.send(self.wanted()).is_ok();
                next = Instant::now() + interval;
            }
            match answers.recv_timeout(Duration::ZERO) {
                Ok(answer) => {
                    waits = false;
                    let is_interval = self.before.is_some() && answer.is_ok();
                    self.take(answer);
                    self.draw(terminal)?;
                    count = count.map(|count| count - u64::from(is_interval));
                    if count == Some(0) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let left = next.saturating_duration_since(Instant::now());
            let action = input(if waits { LOOK } else { left.min(LOOK) }, |key| self.key(key))?;
            match action {
                KeyAction::Quit => return Ok(()),
                KeyAction::Draw => {
                    // What a key selected is read at once.
                    if self.is_incomplete() {
                        next = Instant::now();
                    }
                    self.draw(terminal)?;
                }
                KeyAction::Ignore => {}
            }
        }
    }

    fn wanted(&self) -> Selection {
        let stream = (self.below == Below::Paths).then(|| self.selected_name()).flatten();
        Selection {
            search: self.search.text.clone(),
            paths_of: stream.map(str::to_owned),
            tables: self.show_tables,
        }
    }

    /// Whether something is shown that the last reading does not have.
    fn is_incomplete(&self) -> bool {
        let wanted = self.wanted();
        let read = self.paths.as_ref().map(|paths| &paths.stream);
        wanted.tables && self.tables.is_none()
            || wanted.paths_of.is_some() && wanted.paths_of.as_ref() != read
            || !self.search.text.is_empty()
    }

    fn take(&mut self, outcome: ReadOutcome) {
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
        if self.held {
            return;
        }
        self.paths.clone_from(&reading.paths);
        self.tables.clone_from(&reading.tables);
        self.rates = Rates::between(self.before.as_ref().unwrap_or(&reading), &reading);
        self.rates.sort(self.order);
        if let [Some(input), _] = self.rates.in_and_out() {
            self.history.push_back(input);
            self.history.drain(..self.history.len().saturating_sub(HISTORY));
        }
        self.before = Some(reading);
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> Result<()> {
        let drawn = terminal.draw(|frame| self.render(frame));
        drawn.map(drop).map_err(|error| failed("written", &error))
    }
}

/// Waits for input and handles a key.
fn input(
    wait: Duration,
    key: impl FnOnce(ratatui::crossterm::event::KeyEvent) -> KeyAction,
) -> Result<KeyAction> {
    let failed = |error: std::io::Error| failed("read", &error);
    if !event::poll(wait).map_err(failed)? {
        return Ok(KeyAction::Ignore);
    }
    Ok(match event::read().map_err(failed)? {
        Input::Key(pressed) if pressed.kind != KeyEventKind::Release => key(pressed),
        Input::Resize(..) => KeyAction::Draw,
        _ => KeyAction::Ignore,
    })
}

//! Parts of the tables on a terminal: `onbeat top`, `onbeat irq top`.

use std::io;
use std::time::Duration;

use onbeat_realtime::interrupt;
use onbeat_report::table::{Alignment, printable};
use onbeat_terminal::exit::{Failure, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{self, Constraint, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Cell, Row, Table as Grid, TableState};
use ratatui::{DefaultTerminal, Frame};

/// Number of intervals of a sparkline.
pub(crate) const HISTORY: usize = 60;

/// Maximum length of a search text.
const MAX_TEXT: usize = 64;

/// The effect of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Quit,
    Draw,
    Ignore,
}

/// The text that listed rows contain.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) text: String,
    pub(crate) typing: bool,
}

impl Search {
    /// A key while the text is typed.
    pub(crate) fn key(&mut self, code: KeyCode) -> KeyAction {
        let text = &mut self.text;
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => (self.typing, self.text) = (false, String::new()),
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(c) if !c.is_control() && text.chars().count() < MAX_TEXT => text.push(c),
            _ => return KeyAction::Ignore,
        }
        KeyAction::Draw
    }

    /// The line of keys while the text is typed.
    pub(crate) fn prompt(&self) -> String {
        format!("/{}_  Enter keep  Esc list all", self.text)
    }
}

/// Whether a key is Ctrl-C.
pub(crate) fn is_interrupt(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// Runs with the terminal, and restores it. A termination signal is a flag meanwhile ([`interrupt::check`]).
pub(crate) fn with_terminal(run: impl FnOnce(&mut DefaultTerminal) -> Result<()>) -> Result<()> {
    let _guard = interrupt::Guard::install();
    let mut terminal = ratatui::try_init().map_err(|error| failed("used", &error))?;
    let ended = run(&mut terminal);
    ratatui::restore();
    ended
}

/// Draws the screen.
pub(crate) fn draw(
    terminal: &mut DefaultTerminal,
    render: impl FnOnce(&mut Frame<'_>),
) -> Result<()> {
    terminal.draw(render).map(drop).map_err(|error| failed("written", &error))
}

/// Waits for input, at most this time, and handles a key. `None`: the time has passed, or a signal was received.
pub(crate) fn input(
    wait: Duration,
    key: impl FnOnce(KeyEvent) -> KeyAction,
) -> Result<Option<KeyAction>> {
    let failed = |error: io::Error| failed("read", &error);
    match event::poll(wait) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    Ok(Some(match event::read().map_err(failed)? {
        Event::Key(pressed) if pressed.kind != KeyEventKind::Release => key(pressed),
        Event::Resize(..) => KeyAction::Draw,
        _ => KeyAction::Ignore,
    }))
}

/// The error of a terminal that cannot be `used`, `read` or `written`.
fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::new(format!("the terminal cannot be {what}: {error}"))
}

/// A line of cells.
pub(crate) struct ListedRow {
    pub(crate) cells: Vec<String>,
    pub(crate) style: Style,
}

/// A heading, its alignment, and the width of its column.
pub(crate) type ListedColumn = (String, Alignment, Constraint);

impl ListedRow {
    pub(crate) fn new(cells: impl IntoIterator<Item = String>) -> Self {
        let cells = cells.into_iter().map(|cell| printable(&cell)).collect();
        Self { cells, style: Style::new() }
    }

    pub(crate) fn with(self, modifier: Modifier) -> Self {
        Self { style: self.style.add_modifier(modifier), ..self }
    }
}

/// Marks the column that rows are sorted by.
pub(crate) fn mark_sorted(columns: &mut [ListedColumn], sorted: &str) {
    for (name, ..) in columns.iter_mut().filter(|(name, ..)| name == sorted) {
        name.push('\u{25bc}');
    }
}

/// Draws rows below their headings, from number `scrolled` on.
pub(crate) fn grid(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: Vec<ListedRow>,
    columns: &[ListedColumn],
    scrolled: usize,
) {
    let line = |cells: Vec<String>| {
        let cell = |(text, (_, align, _)): (String, &ListedColumn)| {
            Cell::new(Text::from(text).alignment(alignment(*align)))
        };
        Row::new(cells.into_iter().zip(columns).map(cell).collect::<Vec<Cell<'_>>>())
    };
    let heading = line(columns.iter().map(|(name, ..)| name.clone()).collect());
    let rows = rows.into_iter().map(|ListedRow { cells, style }| line(cells).style(style));
    let grid = Grid::new(rows, columns.iter().map(|(.., width)| *width))
        .header(heading.style(Style::new().add_modifier(Modifier::REVERSED)));
    let mut state = TableState::new().with_offset(scrolled);
    frame.render_stateful_widget(grid, area, &mut state);
}

fn alignment(align: Alignment) -> layout::Alignment {
    match align {
        Alignment::Left => layout::Alignment::Left,
        Alignment::Right => layout::Alignment::Right,
    }
}

/// The last values, scaled to the largest, in at most `room` columns.
pub(crate) fn sparkline(values: impl ExactSizeIterator<Item = f64> + Clone, room: usize) -> String {
    const LEVELS: [char; 8] = [
        '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    let values = values.clone().skip(values.len().saturating_sub(room));
    let largest = values.clone().fold(0.0, f64::max);
    let level = |value: f64| {
        let part = if largest > 0.0 { value / largest } else { 0.0 };
        LEVELS[((part * 8.0) as usize).min(7)]
    };
    values.map(level).collect()
}

/// The content of a screen of this size, which `draw` draws.
#[cfg(test)]
pub(crate) fn drawn(width: u16, height: u16, draw: impl FnOnce(&mut Frame<'_>)) -> String {
    let backend = ratatui::backend::TestBackend::new(width, height);
    let mut terminal = ratatui::Terminal::new(backend).unwrap();
    terminal.draw(draw).unwrap();
    let cells = terminal.backend().buffer().content.chunks(width.into());
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    };
    cells.map(line).collect::<Vec<String>>().join("\n")
}

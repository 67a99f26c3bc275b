//! Keys and their effects.

use onbeat_node::control::is_match;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::{LowerPane, Screen};
use crate::command::top::rates::StreamRates;
use crate::command::top::source;
use crate::screen::{KeyAction, is_interrupt};

/// Rows of a page.
const PAGE: isize = 10;

impl Screen {
    pub(super) fn key(&mut self, key: KeyEvent) -> KeyAction {
        if is_interrupt(key) {
            return KeyAction::Quit;
        }
        if self.search.typing {
            return self.search.key(key.code);
        }
        if self.help {
            // Any key closes it.
            self.help = false;
            return if key.code == KeyCode::Char('q') { KeyAction::Quit } else { KeyAction::Draw };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return KeyAction::Quit,
            KeyCode::Esc if self.show_tables => self.show_tables = false,
            KeyCode::Esc if self.search.text.is_empty() => return KeyAction::Quit,
            KeyCode::Esc => self.search.text.clear(),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('/') | KeyCode::F(3 | 4) => self.search.typing = true,
            KeyCode::Char('s' | '>') | KeyCode::F(6) => {
                self.order = self.order.next();
                self.rates.sort(self.order);
            }
            KeyCode::Char('p') | KeyCode::Enter => {
                self.lower = match self.lower {
                    LowerPane::Events => LowerPane::Paths,
                    LowerPane::Paths => LowerPane::Events,
                };
            }
            KeyCode::Char('n') => self.show_tables = !self.show_tables,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::PageDown => self.select(PAGE),
            KeyCode::PageUp => self.select(-PAGE),
            KeyCode::Home => self.select(isize::MIN / 2),
            KeyCode::End => self.select(isize::MAX / 2),
            _ => return KeyAction::Ignore,
        }
        KeyAction::Draw
    }

    /// The streams that are listed.
    pub(super) fn listed(&self) -> Vec<&StreamRates> {
        let pattern = source::pattern(&self.search.text);
        self.rates.streams.iter().filter(|stream| is_match(&pattern, &stream.name)).collect()
    }

    /// The place of the selected stream among those listed.
    pub(super) fn selected_place(&self, listed: &[&StreamRates]) -> usize {
        let is_selected = |stream: &&StreamRates| Some(&stream.name) == self.selected.as_ref();
        listed.iter().position(is_selected).unwrap_or(0)
    }

    pub(super) fn selected_name(&self) -> Option<&str> {
        let listed = self.listed();
        listed.get(self.selected_place(&listed)).map(|stream| stream.name.as_str())
    }

    /// Selects the stream this number of rows below, or scrolls the tables of nodes.
    fn select(&mut self, rows: isize) {
        if self.show_tables {
            // Drawing limits it.
            self.tables_scrolled = self.tables_scrolled.saturating_add_signed(rows);
            return;
        }
        let listed = self.listed();
        let last = listed.len().saturating_sub(1);
        let place = self.selected_place(&listed).saturating_add_signed(rows).min(last);
        self.selected = listed.get(place).map(|stream| stream.name.clone());
    }
}

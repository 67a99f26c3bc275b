//! Keys and their effects.

use onbeat_irq_core::view::{GroupKey, Order};
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::Screen;
use crate::screen::{KeyAction, is_interrupt};

impl Screen {
    pub(super) fn key(&mut self, key: KeyEvent, devices: &[String]) -> KeyAction {
        if is_interrupt(key) {
            return KeyAction::Quit;
        }
        if self.search.typing {
            self.scrolled = 0;
            return self.search.key(key.code);
        }
        if self.help {
            // Any key closes it.
            self.help = false;
            return if key.code == KeyCode::Char('q') { KeyAction::Quit } else { KeyAction::Draw };
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::F(10) => return KeyAction::Quit,
            KeyCode::Esc if self.search.text.is_empty() => return KeyAction::Quit,
            KeyCode::Esc => self.search.text.clear(),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.help = true,
            KeyCode::Char('/') | KeyCode::F(3 | 4) => self.search.typing = true,
            KeyCode::Char('t') | KeyCode::F(5) => self.toggle_tree(),
            KeyCode::Char('b') => self.set_key(self.options.by.next()),
            KeyCode::Char('s' | '>') | KeyCode::F(6) => self.sort(1),
            KeyCode::Char('<') => self.sort(Order::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='6') => {
                self.options.order = Order::ALL[digit as usize - '1' as usize].1;
            }
            KeyCode::Char('d') => {
                self.options.device = next(self.options.device.as_deref(), devices);
            }
            KeyCode::Char('i') => self.interrupts = !self.interrupts,
            KeyCode::Char('e') => self.expanded = !self.expanded,
            KeyCode::Char('c') => self.options.per_cpu = !self.options.per_cpu,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Down | KeyCode::Char('j') => self.scrolled += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled += 20,
            KeyCode::PageUp => self.scrolled = self.scrolled.saturating_sub(20),
            KeyCode::Home => self.scrolled = 0,
            // Drawing limits it.
            KeyCode::End => self.scrolled = usize::MAX / 2,
            _ => return KeyAction::Ignore,
        }
        KeyAction::Draw
    }

    /// The order after this number of others.
    fn sort(&mut self, steps: usize) {
        self.options.order = (0..steps).fold(self.options.order, |order, _| order.next());
    }

    fn set_key(&mut self, by: GroupKey) {
        self.options.by = by;
        self.tree &= is_tree_key(by);
        self.scrolled = 0;
    }

    /// A tree requires groups of processes.
    fn toggle_tree(&mut self) {
        self.tree = !self.tree;
        if self.tree && !is_tree_key(self.options.by) {
            self.options.by = GroupKey::Cgroup;
        }
        self.scrolled = 0;
    }
}

fn is_tree_key(by: GroupKey) -> bool {
    by.is_of_process() && by != GroupKey::Process
}

/// The next device; `None`, for all devices, after the last.
fn next(device: Option<&str>, devices: &[String]) -> Option<String> {
    match device.map(|device| devices.iter().position(|known| known == device)) {
        None => devices.first().cloned(),
        Some(Some(at)) => devices.get(at + 1).cloned(),
        Some(None) => None,
    }
}

//! Processes by their numbers, remembered beyond their end.

use std::collections::HashMap;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::{Description, Known};

use super::describe;

/// Remembers what processes were called, for those that end while they are watched.
#[derive(Debug, Default)]
pub struct Processes {
    seen: HashMap<Process, Seen>,
}

#[derive(Debug)]
struct Seen {
    known: Known,
    /// Looked at since the last refresh: a process moves between control groups and changes its name.
    fresh: bool,
}

impl Processes {
    /// What is known of a process now.
    pub fn get(&mut self, process: Process) -> Known {
        self.get_by(process, describe)
    }

    fn get_by(&mut self, process: Process, look: impl Fn(Process) -> Option<Description>) -> Known {
        let seen =
            self.seen.entry(process).or_insert(Seen { known: Known::default(), fresh: false });
        if !seen.fresh {
            // Who has ended does not come back: another one has the number.
            if !seen.known.ended {
                match look(process) {
                    Some(description) => seen.known.description = Some(description),
                    None => seen.known.ended = true,
                }
            }
            seen.fresh = true;
        }
        seen.known.clone()
    }

    /// Lets everything be looked at again, and forgets whom nobody asked for since the last call.
    pub fn refresh(&mut self) {
        self.seen.retain(|_, seen| std::mem::replace(&mut seen.fresh, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Process = Process { pid: 1, start_ticks: 7 };

    fn description(command: &str) -> Option<Description> {
        Some(Description { command: command.into(), ..Description::default() })
    }

    #[test]
    fn who_ends_keeps_its_name_and_whom_nobody_asks_for_is_forgotten() {
        let mut processes = Processes::default();
        assert_eq!(processes.get_by(ONE, |_| description("a")).description, description("a"));
        // Not looked at twice at a time.
        assert_eq!(processes.get_by(ONE, |_| description("b")).description, description("a"));
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("b")).description, description("b"));
        processes.refresh();
        let ended = Known { description: description("b"), ended: true };
        assert_eq!(processes.get_by(ONE, |_| None), ended);
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("another one")), ended);
        processes.refresh();
        processes.refresh();
        assert_eq!(processes.seen.len(), 0);
    }

    #[test]
    fn who_ended_before_anybody_looked_has_no_name() {
        let known = Processes::default().get_by(ONE, |_| None);
        assert_eq!(known, Known { description: None, ended: true });
    }
}

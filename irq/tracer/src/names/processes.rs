//! Descriptions of processes by id, kept after their exit.

use std::collections::HashMap;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::{Description, ProcessInfo};

use super::describe;

/// Caches descriptions of processes, for those that exit during the measurement.
#[derive(Debug, Default)]
pub struct Processes {
    cache: HashMap<Process, CachedProcess>,
}

#[derive(Debug)]
struct CachedProcess {
    known: ProcessInfo,
    /// Read since the last refresh: a process moves between control groups and changes its name.
    fresh: bool,
}

impl Processes {
    /// The present description of a process.
    pub fn get(&mut self, process: Process) -> ProcessInfo {
        self.get_by(process, describe)
    }

    fn get_by(
        &mut self,
        process: Process,
        read: impl Fn(Process) -> Option<Description>,
    ) -> ProcessInfo {
        let cache = self
            .cache
            .entry(process)
            .or_insert(CachedProcess { known: ProcessInfo::default(), fresh: false });
        if !cache.fresh {
            // An exited process does not return: another one has its id.
            if !cache.known.ended {
                match read(process) {
                    Some(description) => cache.known.description = Some(description),
                    None => cache.known.ended = true,
                }
            }
            cache.fresh = true;
        }
        cache.known.clone()
    }

    /// Expires all entries, and evicts those that were not queried since the last call.
    pub fn refresh(&mut self) {
        self.cache.retain(|_, cache| std::mem::replace(&mut cache.fresh, false));
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
    fn exited_processes_keep_their_names_until_evicted() {
        let mut processes = Processes::default();
        assert_eq!(processes.get_by(ONE, |_| description("a")).description, description("a"));
        // Read once per refresh.
        assert_eq!(processes.get_by(ONE, |_| description("b")).description, description("a"));
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("b")).description, description("b"));
        processes.refresh();
        let ended = ProcessInfo { description: description("b"), ended: true };
        assert_eq!(processes.get_by(ONE, |_| None), ended);
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("another one")), ended);
        processes.refresh();
        processes.refresh();
        assert_eq!(processes.cache.len(), 0);
    }

    #[test]
    fn a_process_that_exited_before_it_was_read_has_no_name() {
        let known = Processes::default().get_by(ONE, |_| None);
        assert_eq!(known, ProcessInfo { description: None, ended: true });
    }
}

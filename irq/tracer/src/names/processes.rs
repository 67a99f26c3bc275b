//! Descriptions of processes by id, kept after their exit.

use std::collections::HashMap;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::{Description, ProcessInfo};

use super::{SavedNames, describe};

/// Caches descriptions of processes, for those that exit during the measurement.
#[derive(Debug, Default)]
pub struct Processes {
    cache: HashMap<Process, CachedProcess>,
    saved: Option<SavedNames>,
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
        let saved = self.saved.take();
        let info = self.get_by(process, describe, |process| saved.as_ref()?.describe(process));
        self.saved = saved;
        info
    }

    /// With the names that the kernel saved.
    pub(crate) fn with_saved(saved: SavedNames) -> Self {
        Self { saved: Some(saved), ..Self::default() }
    }

    fn get_by(
        &mut self,
        process: Process,
        read: impl Fn(Process) -> Option<Description>,
        saved: impl Fn(Process) -> Option<Description>,
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
                    None => {
                        let last = cache.known.description.take();
                        cache.known.description = newest(last, saved(process));
                        cache.known.ended = true;
                    }
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

/// The saved description is that at the exit. It has no group of version 1.
fn newest(last: Option<Description>, saved: Option<Description>) -> Option<Description> {
    let Some(saved) = saved else { return last };
    let is_root = saved.cgroup.as_ref().is_none_or(|path| path.as_slice() == b"/");
    match last {
        Some(last) if is_root => Some(Description { command: saved.command, ..last }),
        _ => Some(saved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Process = Process { pid: 1, start_ticks: 7 };

    fn description(command: &str) -> Option<Description> {
        Some(Description { command: command.into(), ..Description::default() })
    }

    fn none(_: Process) -> Option<Description> {
        None
    }

    #[test]
    fn exited_processes_keep_their_names_until_evicted() {
        let mut processes = Processes::default();
        assert_eq!(processes.get_by(ONE, |_| description("a"), none).description, description("a"));
        // Read once per refresh.
        assert_eq!(processes.get_by(ONE, |_| description("b"), none).description, description("a"));
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("b"), none).description, description("b"));
        processes.refresh();
        let ended = ProcessInfo { description: description("b"), ended: true };
        assert_eq!(processes.get_by(ONE, |_| None, none), ended);
        processes.refresh();
        assert_eq!(processes.get_by(ONE, |_| description("another one"), none), ended);
        processes.refresh();
        processes.refresh();
        assert_eq!(processes.cache.len(), 0);
    }

    #[test]
    fn a_process_that_exited_before_it_was_read_has_no_name() {
        let known = Processes::default().get_by(ONE, |_| None, none);
        assert_eq!(known, ProcessInfo { description: None, ended: true });
    }

    #[test]
    fn the_name_at_the_exit_is_the_last() {
        let with_group = |command: &str, path: &str| {
            description(command).map(|about| Description { cgroup: Some(path.into()), ..about })
        };
        let mut processes = Processes::default();
        processes.get_by(ONE, |_| with_group("sh", "/a"), none);
        processes.refresh();
        let known = processes.get_by(ONE, |_| None, |_| with_group("curl", "/b"));
        assert_eq!(known, ProcessInfo { description: with_group("curl", "/b"), ended: true });
        // A group of version 1 is not saved.
        let last = newest(with_group("sh", "/a"), with_group("curl", "/"));
        assert_eq!(last, with_group("curl", "/a"));
        let known = Processes::default().get_by(ONE, |_| None, |_| description("brief"));
        assert_eq!(known, ProcessInfo { description: description("brief"), ended: true });
    }
}

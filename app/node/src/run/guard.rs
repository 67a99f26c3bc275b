//! The guard of interrupt work, which runs with the node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onbeat_host::settings::RestoreOutcome;
use onbeat_irq_core::policy::Limit;
use onbeat_irq_guard::{Background, Config, Event, Usage, journal_directory};

use super::error::{Error, Result};
use crate::control::GuardStatus;
use crate::service::has_capability;

/// The state of a guard, which its thread writes.
#[derive(Debug, Clone)]
pub(super) struct GuardState(Arc<Mutex<Observations>>);

#[derive(Debug)]
struct Observations {
    /// Whether the thread runs.
    runs: bool,
    /// Number of interfaces of the configuration.
    configured: usize,
    guarded: BTreeSet<String>,
    budget_processes: u64,
    limited_processes: u64,
    events: BTreeMap<String, u64>,
}

impl GuardState {
    fn new(config: &Config) -> Self {
        let names: BTreeSet<&String> = config.interfaces.iter().collect();
        let observations = Observations {
            runs: true,
            configured: names.len(),
            guarded: BTreeSet::new(),
            budget_processes: 0,
            limited_processes: 0,
            events: Event::NAMES.map(|name| (metric_name(name), 0)).into(),
        };
        Self(Arc::new(Mutex::new(observations)))
    }

    fn lock(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> GuardStatus {
        let observed = self.lock();
        GuardStatus {
            armed: observed.runs && observed.guarded.len() == observed.configured,
            interfaces: observed.guarded.len() as u64,
            budget_processes: observed.budget_processes,
            limited_processes: observed.limited_processes,
            events: observed.events.clone(),
        }
    }

    fn note(&self, events: &[Event], usage: &[Usage]) {
        let mut observed = self.lock();
        for event in events {
            match event {
                Event::Attached { interface, .. } => {
                    observed.guarded.insert(interface.clone());
                }
                Event::InterfaceMissing { interface } => {
                    observed.guarded.remove(interface);
                }
                _ => {}
            }
            *observed.events.entry(metric_name(event.name())).or_default() += 1;
        }
        observed.budget_processes = usage.len() as u64;
        let is_limited = |usage: &&Usage| usage.limit != Limit::None;
        observed.limited_processes = usage.iter().filter(is_limited).count() as u64;
    }
}

fn metric_name(event: &str) -> String {
    event.replace('-', "_")
}

/// Notes the end of the thread that owns it.
struct EndOfThread(GuardState);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        self.0.lock().runs = false;
    }
}

/// Starts the guard, whose events are logged.
///
/// # Errors
/// The guard cannot start; nothing is changed then.
pub(super) fn start(config: Config) -> Result<(Background, GuardState)> {
    // The guard itself would log each refusal and continue.
    if !has_capability("CAP_SYS_NICE") {
        return Err(Error::GuardPermission);
    }
    // An interface that is dead at boot must not keep the node from protecting by others.
    let config = Config { starts_without_interfaces: true, ..config };
    let state = GuardState::new(&config);
    let owned = EndOfThread(state.clone());
    let log = move |events: &[Event], usage: &[Usage]| {
        owned.0.note(events, usage);
        for event in events {
            match event {
                Event::InterfaceMissing { .. } => {
                    tracing::warn!("guard: {event}; it is guarded as soon as it exists");
                }
                _ => tracing::info!("guard: {event}"),
            }
        }
    };
    let directory = journal_directory().map_err(Error::Guard)?;
    let guard = Background::start(config, directory, log).map_err(Error::Guard)?;
    Ok((guard, state))
}

/// Stops the guard. Returns whether all settings are restored.
pub(super) fn stop(guard: Background) -> bool {
    match guard.stop() {
        Err(error) => {
            tracing::error!("the guard has stopped: {error}");
            false
        }
        Ok(restored) => {
            for one in restored.iter().filter(|one| one.outcome == RestoreOutcome::Failed) {
                let reason = one.reason.as_deref().unwrap_or_default();
                tracing::warn!(
                    "guard: {} not restored: {reason}; try: onbeat irq guard --restore",
                    one.entry.place
                );
            }
            restored.iter().all(|one| one.outcome != RestoreOutcome::Failed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_armed_while_it_runs_and_schedules_all_interfaces() {
        let config = Config::of(vec!["eth0".into(), "eth1".into()]);
        let state = GuardState::new(&config);
        let thread = EndOfThread(state.clone());
        let attached =
            |interface: &str| Event::Attached { interface: interface.into(), threads: vec![1] };
        let armed = || state.status().armed;
        assert!(!armed());
        state.note(&[attached("eth0"), attached("eth1"), attached("eth1")], &[]);
        assert!(armed() && state.status().events["attached"] == 3);
        state.note(&[Event::InterfaceMissing { interface: "eth1".into() }], &[]);
        assert!(!armed() && state.status().interfaces == 1);
        state.note(&[attached("eth1")], &[]);
        assert!(armed() && state.status().events["interface_missing"] == 1);
        drop(thread);
        assert!(!armed() && state.status().interfaces == 2);
    }
}

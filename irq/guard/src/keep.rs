//! The guard: has each device's NAPI threads run at the priority of who waits, as it changes.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_host::settings::{
    Change as Made, Entry, Host, Kind, Log, NapiThread, Outcome, Place, PutBack, Restored, Setting,
    Tuning, apply, change_all, restore,
};

use super::config::Config;
use super::event::{Event, Usage, Who};
use super::look::Look;
use super::waiting::{Candidates, Waiter};
use crate::{Error, Result};
use onbeat_irq_core::policy::{Change, Policy, Rank, Reason, Settings};

/// Keeps devices in threaded NAPI, and their threads' priorities where the policy wants them.
///
/// Everything that it changes is in the journal before; [`Guard::end`] puts it back.
pub struct Guard<'a> {
    config: &'a Config,
    host: &'a mut dyn Host,
    log: &'a mut dyn Log,
    look: &'a mut dyn Look,
    policy: Policy<u32, Waiter>,
    devices: BTreeMap<String, Device>,
    waiting: BTreeMap<(u32, Waiter), Rank>,
    /// What was refused, so that it is told once.
    refused: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Device {
    index: u32,
    wanted: Rank,
}

impl<'a> Guard<'a> {
    /// Puts back what an earlier guard left, takes the devices, and sets their threads to the floor.
    ///
    /// # Errors
    /// Where an interface does not exist or cannot be threaded, or what an earlier guard left cannot
    /// be put back; [`onbeat_irq_core::policy::ConfigError`].
    pub fn begin(
        config: &'a Config,
        host: &'a mut dyn Host,
        log: &'a mut dyn Log,
        look: &'a mut dyn Look,
    ) -> Result<(Self, Vec<Event>)> {
        let policy = Policy::new(config.settings)?;
        let left = restore(host, log)?;
        if let Some(stuck) = left.iter().find(|one| one.outcome == PutBack::Failed) {
            let reason = stuck.reason.clone().unwrap_or_default();
            return Err(Error::Left { place: stuck.entry.place.to_string(), reason });
        }
        let (devices, waiting) = (BTreeMap::new(), BTreeMap::new());
        let refused = BTreeSet::new();
        let mut guard = Self { config, host, log, look, policy, devices, waiting, refused };
        match guard.take_all() {
            Ok(events) => Ok((guard, events)),
            Err(error) => {
                if let Err(other) = guard.end() {
                    tracing::warn!("{other}");
                }
                Err(error)
            }
        }
    }

    fn take_all(&mut self) -> Result<Vec<Event>> {
        let there = self.look.devices(&self.config.interfaces)?;
        let mut events = Vec::new();
        for name in &self.config.interfaces {
            let index = there.get(name).copied().ok_or_else(|| Error::NoInterface(name.clone()))?;
            events.push(self.take(name, index)?);
        }
        Ok(events)
    }

    /// Looks, decides, and changes what is to be changed.
    ///
    /// # Errors
    /// Where the kernel does not say what there is, or the journal cannot be written.
    pub fn step(&mut self, now_ns: u64) -> Result<Vec<Event>> {
        let mut events = self.come_and_go()?;
        let indices: Vec<u32> = self.devices.values().map(|device| device.index).collect();
        let candidates = self.look.candidates(&indices, now_ns)?;
        events.extend(self.look.events());
        self.note(&candidates);
        for change in self.policy.changes(now_ns) {
            events.extend(self.decided(&change, &candidates));
        }
        let names: Vec<String> = self.devices.keys().cloned().collect();
        for name in names {
            self.enforce(&name, &mut events)?;
        }
        Ok(events)
    }

    /// How the processes stand that have a budget.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.look.usage()
    }

    /// Puts everything back.
    ///
    /// # Errors
    /// Where the journal cannot be written. What could not be put back stays in it.
    pub fn end(self) -> Result<Vec<Restored>> {
        Ok(restore(self.host, self.log)?)
    }

    /// Interfaces that vanished, or came back.
    fn come_and_go(&mut self) -> Result<Vec<Event>> {
        let there = self.look.devices(&self.config.interfaces)?;
        let mut events = Vec::new();
        for name in &self.config.interfaces {
            let (now, known) = (there.get(name), self.devices.get(name).map(|device| device.index));
            if now.copied() == known {
                continue;
            }
            if let Some(index) = known {
                self.policy.remove_device(index);
                self.devices.remove(name);
                self.waiting.retain(|(device, _), _| *device != index);
                self.forget(name)?;
                events.push(Event::Vanished { interface: name.clone() });
            }
            if let Some(index) = now {
                match self.take(name, *index) {
                    Ok(event) => events.push(event),
                    Err(error) => events.extend(self.refuse(name, error.to_string())),
                }
            }
        }
        Ok(events)
    }

    /// Discards the settings of interfaces of this name that no longer exist. One that was moved to
    /// another network namespace keeps its settings, which are restored once it is back.
    fn forget(&mut self, name: &str) -> Result<()> {
        let mut entries: Vec<Entry> = self.log.entries();
        entries.retain(|entry| {
            let interface = entry.interface.as_ref();
            let is_elsewhere = |interface| self.host.find(interface) != Ok(None);
            entry.place.interface() != Some(name) || interface.is_some_and(is_elsewhere)
        });
        Ok(self.log.replace(entries)?)
    }

    /// Has the device's NAPI instances run in threads.
    fn take(&mut self, name: &str, index: u32) -> Result<Event> {
        let tuning = tuning(self.config, &[name.to_owned()]);
        let report = apply(self.host, self.log, &tuning, false)?;
        let not_made = report.changes.iter().filter(|change| {
            let needed = change.setting.kind == Kind::ThreadedNapi;
            change.outcome != Outcome::Changed && (needed || change.outcome != Outcome::Skipped)
        });
        // Those that were restored since another one failed have no reason of their own.
        let not_made = not_made.min_by_key(|change| change.reason.is_none());
        let reason = not_made.map(|change| change.reason.clone().unwrap_or_default());
        if let Some(reason) = reason.or_else(|| report.cannot.first().cloned()) {
            return Err(Error::Refused { interface: name.to_owned(), reason });
        }
        let threads = self.host.napi_threads(name)?;
        let rank = rank_of(&threads);
        self.policy.add_device(index, rank);
        self.devices.insert(name.to_owned(), Device { index, wanted: rank });
        Ok(Event::Taken {
            interface: name.to_owned(),
            threads: threads.iter().map(|thread| thread.pid.unsigned_abs()).collect(),
        })
    }

    /// Tells the policy what has changed among those who wait.
    fn note(&mut self, candidates: &Candidates) {
        for (key @ (device, waiter), rank) in &candidates.waiting {
            if self.waiting.get(key) != Some(rank) {
                self.policy.wait(*device, *waiter, *rank);
            }
        }
        for key @ (device, waiter) in self.waiting.keys() {
            if !candidates.waiting.contains_key(key) {
                self.policy.leave(*device, *waiter);
            }
        }
        self.waiting.clone_from(&candidates.waiting);
    }

    fn decided(&mut self, change: &Change<u32, Waiter>, candidates: &Candidates) -> Option<Event> {
        let (name, device) =
            self.devices.iter_mut().find(|(_, device)| device.index == change.device)?;
        device.wanted = change.to;
        Some(follows(name, change, candidates))
    }

    /// Sets threads that are not as wanted: because that has changed, because they are new, because
    /// somebody else set them.
    fn enforce(&mut self, name: &str, events: &mut Vec<Event>) -> Result<()> {
        let Ok(threads) = self.host.napi_threads(name) else {
            // It has just vanished; the next step says so.
            return Ok(());
        };
        let mut settings = Vec::new();
        for thread in &threads {
            settings.extend(self.priority(name, thread));
            settings.extend(self.affinity(name, thread));
        }
        if settings.is_empty() {
            return Ok(());
        }
        for Made { setting, outcome, reason } in change_all(self.host, self.log, settings)? {
            if outcome != Outcome::Changed {
                let why = format!("{}: {}", setting.place, reason.unwrap_or_default());
                events.extend(self.refuse(name, why));
            }
        }
        Ok(())
    }

    fn priority(&self, name: &str, thread: &NapiThread) -> Option<Setting> {
        let wanted = text(self.devices.get(name)?.wanted);
        let now = thread.policy.clone().filter(|now| *now != wanted)?;
        let (interface, pid) = (name.to_owned(), thread.pid);
        Some(Setting {
            kind: Kind::NapiPriority,
            interface: Some(name.to_owned()),
            place: Place::ThreadPolicy { interface, pid, name: thread.name.clone() },
            now,
            wanted,
        })
    }

    /// Of a thread that began after its device was taken.
    fn affinity(&self, name: &str, thread: &NapiThread) -> Option<Setting> {
        let wanted = self.config.cpus.as_ref()?.to_string();
        let (interface, pid) = (name.to_owned(), thread.pid);
        let place = Place::ThreadCpus { interface, pid, name: thread.name.clone() };
        (!place.agrees(&thread.cpus, &wanted)).then(|| Setting {
            kind: Kind::NapiAffinity,
            interface: Some(name.to_owned()),
            place,
            now: thread.cpus.clone(),
            wanted,
        })
    }

    fn refuse(&mut self, interface: &str, reason: String) -> Option<Event> {
        let interface = interface.to_owned();
        let news = self.refused.insert((interface.clone(), reason.clone()));
        news.then_some(Event::Refused { interface, reason })
    }
}

/// The priorities that threads would have now, as the changes that it takes.
pub(super) fn decisions(
    config: &Config,
    host: &mut dyn Host,
    look: &mut dyn Look,
    there: &BTreeMap<String, u32>,
) -> Result<Vec<Event>> {
    let mut policy = Policy::new(Settings { hold_ns: 0, ..config.settings })?;
    for (name, index) in there {
        policy.add_device(*index, rank_of(&host.napi_threads(name)?));
    }
    let indices: Vec<u32> = there.values().copied().collect();
    let candidates = look.candidates(&indices, 0)?;
    for ((device, waiter), rank) in &candidates.waiting {
        policy.wait(*device, *waiter, *rank);
    }
    let name = |index| there.iter().find(|(_, known)| **known == index).map(|(name, _)| name);
    let changes = policy.changes(0);
    Ok(changes
        .iter()
        .filter_map(|change| Some(follows(name(change.device)?, change, &candidates)))
        .collect())
}

/// The rank that a device's threads have; where there is none yet, that of new ones.
fn rank_of(threads: &[NapiThread]) -> Rank {
    const NEW: Rank = Rank::Normal { nice: 0 };
    threads.iter().filter_map(rank).min().unwrap_or(NEW)
}

fn follows(name: &str, change: &Change<u32, Waiter>, candidates: &Candidates) -> Event {
    let who = match change.reason {
        Reason::Floor => None,
        Reason::Waiter(waiter) | Reason::Ceiling(waiter) => Some(Who {
            pid: waiter.process.pid,
            tid: waiter.tid,
            name: candidates.names.get(&waiter).cloned().unwrap_or_default(),
            above_ceiling: matches!(change.reason, Reason::Ceiling(_)),
        }),
    };
    Event::Follows { interface: name.to_owned(), from: change.from, to: change.to, who }
}

/// What is set once for interfaces; the priority follows later.
pub(super) fn tuning(config: &Config, interfaces: &[String]) -> Tuning {
    Tuning {
        interfaces: interfaces.to_vec(),
        cpus: config.cpus.clone(),
        only: vec![Kind::ThreadedNapi, Kind::IrqAffinity, Kind::NapiAffinity],
        ..Tuning::default()
    }
}

/// As the journal has it.
fn text(rank: Rank) -> String {
    match rank {
        Rank::Idle => "idle".into(),
        Rank::Normal { nice: 0 } => "other".into(),
        Rank::Normal { nice } => format!("other nice {nice}"),
        Rank::Realtime { priority } => format!("fifo {priority}"),
        Rank::Deadline => unreachable!("the policy gives no thread of NAPI a deadline"),
    }
}

/// Of a thread whose policy could be given back.
fn rank(thread: &NapiThread) -> Option<Rank> {
    let text = thread.policy.as_deref()?;
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    match name {
        "fifo" | "rr" => rest.parse().ok().map(|priority| Rank::Realtime { priority }),
        "idle" => Some(Rank::Idle),
        _ => {
            let nice = rest.strip_prefix("nice ").and_then(|nice| nice.parse().ok());
            Some(Rank::Normal { nice: nice.unwrap_or(0) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_read_as_it_is_written() {
        for wanted in [
            Rank::Idle,
            Rank::Normal { nice: 0 },
            Rank::Normal { nice: -7 },
            Rank::Realtime { priority: 98 },
        ] {
            let policy = Some(text(wanted));
            let thread = NapiThread { pid: 1, name: "napi/x-1".into(), policy, cpus: "0".into() };
            assert_eq!(rank(&thread), Some(wanted));
        }
    }
}

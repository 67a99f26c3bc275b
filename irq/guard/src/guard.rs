//! The guard: gives each device's NAPI threads the priority of the highest thread that waits, and follows
//! changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::fd::BorrowedFd;

use onbeat_host::settings::{
    Change as Made, Entry, Host, InterfaceSurvey, Log, NapiThread, Outcome, Report, RestoreOutcome,
    RestoredEntry, Setting, SettingKind, SettingLocation, Tuning, apply, change_all, plan, restore,
};

use super::candidates::{Candidates, WaitingThread};
use super::config::Config;
use super::event::{Event, HighestWaiter, Usage};
use super::observer::HostObserver;
use crate::{Error, Result, cpu_time};
use onbeat_irq_core::policy::{Change, Policy, Rank, Reason, Settings};

/// Runs devices in threaded NAPI, and sets the priorities that the policy decides.
///
/// Each change is in the journal first; [`Guard::stop`] restores the former values.
pub struct Guard<'a> {
    config: &'a Config,
    host: &'a mut dyn Host,
    log: &'a mut dyn Log,
    observer: &'a mut dyn HostObserver,
    policy: Policy<u32, WaitingThread>,
    devices: BTreeMap<String, Device>,
    waiting: BTreeMap<(u32, WaitingThread), Rank>,
    /// Reported failures, each reported once.
    refused: BTreeSet<(String, String)>,
    /// Whether decisions are reported only, and nothing is changed.
    is_preview: bool,
}

#[derive(Debug)]
struct Device {
    index: u32,
    target: Rank,
    /// The policies that its threads have been given, by their ids.
    given: BTreeMap<i32, String>,
    /// Settings of the device that another process may change, with their values.
    kept: Vec<(SettingLocation, String)>,
    /// Settings that the kernel or the device refuses.
    unsupported: HashSet<SettingLocation>,
}

impl<'a> Guard<'a> {
    /// Restores settings that an earlier guard left, enables threaded NAPI, and sets the threads to the floor.
    ///
    /// # Errors
    /// An interface does not exist or does not support threaded NAPI, or settings of an earlier guard cannot be
    /// restored; [`onbeat_irq_core::policy::ConfigError`].
    pub fn start(
        config: &'a Config,
        host: &'a mut dyn Host,
        log: &'a mut dyn Log,
        observer: &'a mut dyn HostObserver,
    ) -> Result<(Self, Vec<Event>)> {
        let left = restore(host, log)?;
        if let Some(stuck) = left.iter().find(|one| one.outcome == RestoreOutcome::Failed) {
            let reason = stuck.reason.clone().unwrap_or_default();
            return Err(Error::NotRestored { place: stuck.entry.place.to_string(), reason });
        }
        let mut guard = Self::new(config, host, log, observer)?;
        match guard.thread_all() {
            Ok(events) => Ok((guard, events)),
            Err(error) => {
                if let Err(other) = guard.stop() {
                    tracing::warn!("{other}");
                }
                Err(error)
            }
        }
    }

    /// A guard that changes nothing: its events are what it would do.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn preview(
        config: &'a Config,
        host: &'a mut dyn Host,
        log: &'a mut dyn Log,
        observer: &'a mut dyn HostObserver,
    ) -> Result<Self> {
        let mut guard = Self { is_preview: true, ..Self::new(config, host, log, observer)? };
        guard.thread_all()?;
        Ok(guard)
    }

    fn new(
        config: &'a Config,
        host: &'a mut dyn Host,
        log: &'a mut dyn Log,
        observer: &'a mut dyn HostObserver,
    ) -> Result<Self> {
        Ok(Self {
            policy: Policy::new(config.settings)?,
            config,
            host,
            log,
            observer,
            devices: BTreeMap::new(),
            waiting: BTreeMap::new(),
            refused: BTreeSet::new(),
            is_preview: false,
        })
    }

    fn thread_all(&mut self) -> Result<Vec<Event>> {
        let there = self.observer.devices(&self.config.interfaces)?;
        let mut events = Vec::new();
        // A missing one is guarded as soon as it appears.
        if let Some(first) = self.config.interfaces.first()
            && there.is_empty()
            && !self.config.starts_without_interfaces
        {
            return Err(Error::NoInterface(first.clone()));
        }
        for name in &self.config.interfaces {
            events.push(match there.get(name) {
                Some(index) => self.thread_device(name, *index)?,
                None => Event::InterfaceMissing { interface: name.clone() },
            });
        }
        Ok(events)
    }

    /// Scans, decides, and applies the changes.
    ///
    /// # Errors
    /// The kernel reports no devices or candidates, or the journal cannot be written.
    pub fn step(&mut self, now_ns: u64) -> Result<Vec<Event>> {
        let mut events = self.update_devices()?;
        let indices: Vec<u32> = self.devices.values().map(|device| device.index).collect();
        let candidates = self.observer.candidates(&indices, now_ns)?;
        events.extend(self.observed_events());
        self.update_waiting(&candidates);
        for change in self.policy.changes(now_ns) {
            events.extend(self.apply_decision(&change, &candidates));
        }
        let names: Vec<String> = self.devices.keys().cloned().collect();
        for name in names {
            self.enforce(&name, &mut events)?;
        }
        self.watch()?;
        Ok(events)
    }

    /// Scans the processes that have changed, decides, and applies the changes. It costs little: neither all processes nor
    /// the settings of all interfaces are read.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn follow_processes(&mut self, now_ns: u64) -> Result<Vec<Event>> {
        let before = cpu_time();
        let events = self.apply_changes(now_ns)?;
        self.observer.followed(cpu_time().saturating_sub(before), now_ns);
        Ok(events)
    }

    fn apply_changes(&mut self, now_ns: u64) -> Result<Vec<Event>> {
        let Some(candidates) = self.observer.changed_candidates(now_ns)? else {
            return Ok(self.observed_events());
        };
        let mut events = self.observed_events();
        self.update_waiting(&candidates);
        for change in self.policy.changes(now_ns) {
            events.extend(self.apply_decision(&change, &candidates));
            let by_index = |(_, device): &(&String, &Device)| device.index == change.device;
            let name = self.devices.iter().find(by_index).map(|(name, _)| name.clone());
            if let Some(name) = name {
                self.enforce(&name, &mut events)?;
            }
        }
        self.watch()?;
        Ok(events)
    }

    /// What the observer reports.
    fn observed_events(&mut self) -> Vec<Event> {
        let Self { observer, host, config, .. } = self;
        observer.events(&mut || {
            let survey = host.survey(&tuning(config, &config.interfaces));
            // An interface is missing: that is reported.
            let interfaces = survey.map(|survey| survey.interfaces).unwrap_or_default();
            interfaces.iter().flat_map(|one| &one.irqs).map(|(irq, _)| *irq).collect()
        })
    }

    /// A descriptor that is readable when [`Self::follow_processes`] has something to do, or [`Self::is_changed`].
    #[must_use]
    pub fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.observer.wakes()
    }

    /// A descriptor that is readable when a setting was written, until [`Self::follow_writes`].
    #[must_use]
    pub fn writes(&self) -> Option<BorrowedFd<'_>> {
        self.host.writes()
    }

    /// Sets settings again that another process has written: at once, without a scan and its pause. Only root writes them.
    ///
    /// # Errors
    /// As [`Self::step`].
    pub fn follow_writes(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        if self.host.take_writes() {
            let names: Vec<String> = self.devices.keys().cloned().collect();
            names.iter().try_for_each(|name| self.enforce(name, &mut events))?;
            self.watch()?;
        }
        Ok(events)
    }

    /// Whether the kernel reported changes for which [`Self::is_due`] is to be called.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.observer.is_changed()
    }

    /// When [`Self::follow_processes`] is to be called without an event.
    #[must_use]
    pub fn next_scan_ns(&self) -> Option<u64> {
        self.observer.next_deadline_ns()
    }

    /// When a priority is to be lowered.
    #[must_use]
    pub fn next_end_of_hold_ns(&self) -> Option<u64> {
        self.policy.next_deadline_ns()
    }

    /// Whether a priority is to be lowered now.
    #[must_use]
    pub fn ends_hold(&self, now_ns: u64) -> bool {
        self.next_end_of_hold_ns().is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// Whether [`Self::step`] would do anything now. It reads the settings of all interfaces.
    ///
    /// # Errors
    /// The kernel does not report changes.
    pub fn is_due(&mut self, now_ns: u64) -> Result<bool> {
        let Self { devices, host, .. } = self;
        let mut kept = devices.values().flat_map(|device| &device.kept);
        let is_changed = kept.any(|(place, value)| {
            let now = host.reread(place);
            !now.is_ok_and(|now| place.agrees(&now, value))
        });
        Ok(self.ends_hold(now_ns) || is_changed || self.observer.is_due(now_ns)?)
    }

    /// The usage of each process with a budget.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.observer.usage()
    }

    /// Watches the NAPI threads: another process may change their priority.
    fn watch(&mut self) -> Result<()> {
        let mut threads = Vec::new();
        for Device { target, given, .. } in self.devices.values() {
            threads.extend(given.keys().map(|pid| (pid.unsigned_abs(), *target)));
        }
        self.observer.watch(&threads)
    }

    /// Restores all settings.
    ///
    /// # Errors
    /// The journal cannot be written. Settings that could not be restored stay in it.
    pub fn stop(self) -> Result<Vec<RestoredEntry>> {
        Ok(restore(self.host, self.log)?)
    }

    /// Updates the set of devices: interfaces that were removed, or have returned.
    fn update_devices(&mut self) -> Result<Vec<Event>> {
        let there = self.observer.devices(&self.config.interfaces)?;
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
                self.discard_settings(name)?;
                events.push(Event::InterfaceMissing { interface: name.clone() });
            }
            if let Some(index) = now {
                match self.thread_device(name, *index) {
                    Ok(event) => events.push(event),
                    Err(error) => events.extend(self.report_failure(name, error.to_string())),
                }
            }
        }
        Ok(events)
    }

    /// Discards the settings of interfaces of this name that no longer exist. An interface that was moved to
    /// another network namespace keeps its settings, which are restored once it is back.
    fn discard_settings(&mut self, name: &str) -> Result<()> {
        let mut entries: Vec<Entry> = self.log.entries();
        entries.retain(|entry| {
            let interface = entry.interface.as_ref();
            let is_elsewhere = |interface| self.host.find(interface) != Ok(None);
            entry.place.interface() != Some(name) || interface.is_some_and(is_elsewhere)
        });
        Ok(self.log.replace(entries)?)
    }

    /// Runs the device's NAPI instances in threads.
    fn thread_device(&mut self, name: &str, index: u32) -> Result<Event> {
        let tuning = tuning(self.config, &[name.to_owned()]);
        let report = match self.is_preview {
            true => Report::default(),
            false => apply(self.host, self.log, &tuning, false)?,
        };
        let not_made = report.changes.iter().filter(|change| {
            let needed = NEEDED.contains(&change.setting.kind);
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
        let skipped = report.changes.into_iter().filter(|one| one.outcome == Outcome::Skipped);
        let device = Device {
            index,
            target: rank,
            given: BTreeMap::new(),
            kept: Vec::new(),
            unsupported: skipped.map(|one| one.setting.place).collect(),
        };
        self.devices.insert(name.to_owned(), device);
        Ok(Event::Attached {
            interface: name.to_owned(),
            threads: threads.iter().map(|thread| thread.pid.unsigned_abs()).collect(),
        })
    }

    /// Reports changes of the waiting threads to the policy.
    fn update_waiting(&mut self, candidates: &Candidates) {
        for (key @ (device, waiter), rank) in &candidates.waiting {
            if self.waiting.get(key) != Some(rank) {
                self.policy.add_waiter(*device, *waiter, *rank);
            }
        }
        for key @ (device, waiter) in self.waiting.keys() {
            if !candidates.waiting.contains_key(key) {
                self.policy.remove_waiter(*device, *waiter);
            }
        }
        self.waiting.clone_from(&candidates.waiting);
    }

    fn apply_decision(
        &mut self,
        change: &Change<u32, WaitingThread>,
        candidates: &Candidates,
    ) -> Option<Event> {
        let (name, device) =
            self.devices.iter_mut().find(|(_, device)| device.index == change.device)?;
        device.target = change.to;
        Some(priority_change(name, change, candidates))
    }

    /// Sets what differs from the decision: because it has changed, because a thread or queue is new, or because
    /// another process set it.
    fn enforce(&mut self, name: &str, events: &mut Vec<Event>) -> Result<()> {
        if self.is_preview {
            return Ok(());
        }
        // NAPI threads that start in the first round are set in the second.
        for _ in 0..2 {
            let starts_threads = self.enforce_once(name, events)?;
            if !starts_threads {
                break;
            }
        }
        Ok(())
    }

    /// As [`Self::enforce`]; returns whether NAPI threads have started.
    fn enforce_once(&mut self, name: &str, events: &mut Vec<Event>) -> Result<bool> {
        let tuning = tuning(self.config, &[name.to_owned()]);
        let (Ok(survey), Some(device)) = (self.host.survey(&tuning), self.devices.get_mut(name))
        else {
            // It was just removed; the next step reports it.
            return Ok(false);
        };
        device.kept = survey.interfaces.iter().flat_map(InterfaceSurvey::shared).collect();
        let wanted = text(device.target);
        let threads = survey.interfaces.iter().flat_map(|interface| &interface.threads);
        let known = std::mem::take(&mut device.given);
        device.given = threads.clone().map(|thread| (thread.pid, wanted.clone())).collect();
        let mut settings = plan(&tuning, &survey).settings;
        settings.retain(|setting| !device.unsupported.contains(&setting.place));
        settings.extend(threads.filter_map(|thread| priority(name, thread, &wanted)));
        if settings.is_empty() {
            return Ok(false);
        }
        let mut starts_threads = false;
        for Made { setting, outcome, reason } in change_all(self.host, self.log, settings)? {
            starts_threads |= setting.kind == SettingKind::ThreadedNapi;
            let kept = self.devices.get_mut(name).into_iter().flat_map(|device| &mut device.kept);
            for (_, value) in kept.filter(|(place, _)| *place == setting.place) {
                if outcome == Outcome::Changed {
                    value.clone_from(&setting.wanted);
                }
            }
            match outcome {
                Outcome::Changed if is_changed_by_another(&setting, &known) => {
                    events.push(Event::SettingChanged {
                        interface: name.to_owned(),
                        setting: setting.place.to_string(),
                        found: setting.now,
                        to: setting.wanted,
                    });
                }
                Outcome::Changed => {}
                _ => {
                    let why = format!("{}: {}", setting.place, reason.unwrap_or_default());
                    if outcome == Outcome::Skipped
                        && let Some(device) = self.devices.get_mut(name)
                    {
                        device.unsupported.insert(setting.place);
                    }
                    events.extend(self.report_failure(name, why));
                }
            }
        }
        Ok(starts_threads)
    }

    fn report_failure(&mut self, interface: &str, reason: String) -> Option<Event> {
        let interface = interface.to_owned();
        let news = self.refused.insert((interface.clone(), reason.clone()));
        news.then_some(Event::SettingFailed { interface, reason })
    }
}

/// The setting of a NAPI thread's priority, if it has another.
fn priority(name: &str, thread: &NapiThread, wanted: &str) -> Option<Setting> {
    let now = thread.policy.clone().filter(|now| now != wanted)?;
    let (interface, pid) = (name.to_owned(), thread.pid);
    Some(Setting {
        kind: SettingKind::NapiPriority,
        interface: Some(name.to_owned()),
        place: SettingLocation::ThreadPolicy { interface, pid, name: thread.name.clone() },
        now,
        wanted: wanted.to_owned(),
    })
}

/// Whether the present value is that of another process: `known` has the policies that the guard gave, by thread.
fn is_changed_by_another(setting: &Setting, known: &BTreeMap<i32, String>) -> bool {
    match &setting.place {
        SettingLocation::ThreadPolicy { pid, .. } => {
            known.get(pid).is_some_and(|given| *given != setting.now)
        }
        SettingLocation::ThreadCpus { pid, .. } => known.contains_key(pid),
        _ => true,
    }
}

/// The priorities that threads would have now, as changes.
pub(super) fn decisions(
    config: &Config,
    host: &mut dyn Host,
    observer: &mut dyn HostObserver,
    there: &BTreeMap<String, u32>,
) -> Result<Vec<Event>> {
    let mut policy = Policy::new(Settings { hold_ns: 0, ..config.settings })?;
    for (name, index) in there {
        policy.add_device(*index, rank_of(&host.napi_threads(name)?));
    }
    let indices: Vec<u32> = there.values().copied().collect();
    let candidates = observer.candidates(&indices, 0)?;
    for ((device, waiter), rank) in &candidates.waiting {
        policy.add_waiter(*device, *waiter, *rank);
    }
    let name = |index| there.iter().find(|(_, known)| **known == index).map(|(name, _)| name);
    let changes = policy.changes(0);
    Ok(changes
        .iter()
        .filter_map(|change| Some(priority_change(name(change.device)?, change, &candidates)))
        .collect())
}

/// The rank of a device's threads; without threads, that of new ones.
fn rank_of(threads: &[NapiThread]) -> Rank {
    const NEW: Rank = Rank::Normal { nice: 0 };
    threads.iter().filter_map(rank).min().unwrap_or(NEW)
}

fn priority_change(
    name: &str,
    change: &Change<u32, WaitingThread>,
    candidates: &Candidates,
) -> Event {
    let waiter = match change.reason {
        Reason::Floor => None,
        Reason::Waiter(waiter) | Reason::Ceiling(waiter) => Some(HighestWaiter {
            pid: waiter.process.pid,
            tid: waiter.tid,
            name: candidates.names.get(&waiter).cloned().unwrap_or_default(),
            above_ceiling: matches!(change.reason, Reason::Ceiling(_)),
        }),
    };
    Event::PriorityChanged { interface: name.to_owned(), from: change.from, to: change.to, waiter }
}

/// Settings without which packets are not processed in NAPI threads.
const NEEDED: [SettingKind; 2] = [SettingKind::PacketSteering, SettingKind::ThreadedNapi];

/// Settings of each interface, except the priority of its threads.
pub(super) fn tuning(config: &Config, interfaces: &[String]) -> Tuning {
    let of_cpus = [SettingKind::IrqAffinity, SettingKind::NapiAffinity];
    let of_cpus = of_cpus.into_iter().filter(|_| config.cpus.is_some());
    Tuning {
        interfaces: interfaces.to_vec(),
        cpus: config.cpus.clone(),
        only: NEEDED.into_iter().chain(of_cpus).collect(),
        ..Tuning::default()
    }
}

/// The form in the journal.
fn text(rank: Rank) -> String {
    match rank {
        Rank::Idle => "idle".into(),
        Rank::Normal { nice: 0 } => "other".into(),
        Rank::Normal { nice } => format!("other nice {nice}"),
        Rank::Realtime { priority } => format!("fifo {priority}"),
        Rank::Deadline => unreachable!("the policy never gives a NAPI thread a deadline"),
    }
}

/// The rank of a thread whose policy can be restored.
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
    fn a_written_rank_is_read_back() {
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

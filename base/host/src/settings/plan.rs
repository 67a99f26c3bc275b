//! Planning of changes and their order: pure.

use serde::{Deserialize, Serialize};

use super::manager::UNMANAGED;
use super::value::{changed, least_coalescing, list, modes, modes_text, words};
use super::{InterfaceSurvey, Manager, SettingKind, SettingLocation, Survey};
use onbeat_realtime::{CpuSet, Scheduling};

/// The requested settings of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tuning {
    /// The interfaces with real-time traffic.
    pub interfaces: Vec<String>,
    /// The CPUs for their interrupts and NAPI threads; `None`: unchanged.
    pub cpus: Option<CpuSet>,
    /// The policy of their NAPI threads.
    pub napi: Scheduling,
    /// The settings that may be changed.
    pub only: Vec<SettingKind>,
}

/// All settings except those that are changed only by their names, with NAPI threads at SCHED_FIFO 50, the priority of interrupt threads of PREEMPT_RT.
impl Default for Tuning {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            cpus: None,
            napi: Scheduling::Fifo(50),
            only: SettingKind::ALL.into_iter().filter(|kind| !kind.is_by_name()).collect(),
        }
    }
}

/// A value to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The setting.
    pub kind: SettingKind,
    /// The interface, if any.
    pub interface: Option<String>,
    /// Its location.
    pub place: SettingLocation,
    /// The current value.
    pub now: String,
    /// The requested value.
    pub wanted: String,
}

impl Setting {
    /// Returns the part of the current value that the change concerns.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.place {
            SettingLocation::Coalescing { .. } | SettingLocation::EnergyEfficient { .. } => {
                changed(&self.now, &self.wanted)
            }
            _ => self.now.clone(),
        }
    }
}

/// The changes to make now, and those that can be planned only afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order; undone in reverse order.
    pub settings: Vec<Setting>,
    /// Descriptions of changes that become possible after these.
    pub later: Vec<String>,
    /// Descriptions of requested settings that are impossible.
    pub cannot: Vec<String>,
}

/// Compares the requested with the current settings. After these changes, a new plan contains those of
/// `later`, and finally none.
#[must_use]
pub fn plan(tuning: &Tuning, survey: &Survey) -> Plan {
    let cpus = tuning.cpus.as_ref();
    let mut planner = Planner { tuning, cpus, plan: Plan::default() };
    planner.cpus(survey);
    planner.host(survey);
    for interface in &survey.interfaces {
        planner.interface(interface);
    }
    planner.plan
}

struct Planner<'a> {
    tuning: &'a Tuning,
    /// The CPUs of the tuning, if they are all online.
    cpus: Option<&'a CpuSet>,
    plan: Plan,
}

impl Planner<'_> {
    fn wants(&self, kind: SettingKind) -> bool {
        self.tuning.only.contains(&kind)
    }

    /// Plans a change if the values differ.
    fn set(
        &mut self,
        kind: SettingKind,
        interface: Option<&str>,
        place: SettingLocation,
        now: &str,
        wanted: &str,
    ) {
        if self.wants(kind) && !place.agrees(now, wanted) {
            let interface = interface.map(str::to_owned);
            let (now, wanted) = (now.to_owned(), wanted.to_owned());
            self.plan.settings.push(Setting { kind, interface, place, now, wanted });
        }
    }

    fn cpus(&mut self, survey: &Survey) {
        let Some(cpus) = &self.tuning.cpus else { return };
        if !survey.cpus.is_empty() && !survey.cpus.contains_all(cpus) {
            let online = &survey.cpus;
            self.plan.cannot.push(format!("CPUs {cpus} are not all online; online CPUs: {online}"));
            self.cpus = None;
        }
    }

    fn host(&mut self, survey: &Survey) {
        const FASTEST: &str = "performance";
        for governor in &survey.governors {
            let offered = governor.available.is_empty()
                || governor.available.iter().any(|name| name == FASTEST);
            if offered {
                let place = SettingLocation::File { path: governor.path.clone() };
                self.set(SettingKind::Governor, None, place, &governor.now, FASTEST);
            } else if self.wants(SettingKind::Governor) {
                let available = governor.available.join(", ");
                self.plan.cannot.push(format!(
                    "{}: governor {FASTEST} is not available, only {available}; load its module (cpufreq_performance)",
                    governor.path
                ));
            }
        }
        if let Some(now) = &survey.rt_runtime {
            let place = SettingLocation::File { path: super::survey::RT_RUNTIME.into() };
            self.set(SettingKind::RtThrottling, None, place, now, "-1");
        }
    }

    /// Threads last: a driver may restart its queues because of the other changes.
    fn interface(&mut self, survey: &InterfaceSurvey) {
        let interface = || survey.name.clone();
        let name = Some(survey.name.as_str());
        if let Some(now) = &survey.offloads {
            // Without GRO a veth has no NAPI instance.
            let kept = words(now).into_iter().filter(|word| survey.veth && *word == "rx-gro");
            let place = SettingLocation::Offloads { interface: interface() };
            self.set(SettingKind::Offloads, name, place, now, &list(kept));
        }
        if let Some((now, wanted)) =
            survey.coalescing.as_ref().and_then(|now| Some((now, least_coalescing(now)?)))
        {
            let place = SettingLocation::Coalescing { interface: interface() };
            self.set(SettingKind::Coalescing, name, place, now, &wanted);
        }
        if let Some(now) = &survey.energy_efficient {
            let place = SettingLocation::EnergyEfficient { interface: interface() };
            self.set(SettingKind::EnergyEfficient, name, place, now, "enabled=0");
        }
        self.managers(survey);
        self.steering(survey);
        self.napi_modes(survey);
        if let Some(now) = survey.threaded.as_ref().filter(|now| *now == "0") {
            let place = SettingLocation::Threaded { interface: interface() };
            self.set(SettingKind::ThreadedNapi, name, place, now, "1");
        }
        self.affinity_of_interrupts(survey);
        self.threads(survey);
    }

    fn managers(&mut self, survey: &InterfaceSurvey) {
        for (manager, now) in &survey.managers {
            let (manager, interface) = (*manager, survey.name.clone());
            let is_wanted = self.wants(SettingKind::Manager) && now != UNMANAGED;
            if is_wanted && !Manager::can_name(&interface) {
                self.plan.cannot.push(format!(
                    "{interface}: characters of its name can be patterns in files of {manager}; rename the interface, or \
                     configure {manager}"
                ));
                continue;
            }
            let place = SettingLocation::Manager { manager, interface };
            self.set(SettingKind::Manager, Some(&survey.name), place, now, UNMANAGED);
        }
    }

    fn steering(&mut self, survey: &InterfaceSurvey) {
        for (place, now) in survey.steering.iter().flat_map(|queue| queue.values(&survey.name)) {
            self.set(SettingKind::PacketSteering, Some(&survey.name), place, now, "0");
        }
    }

    /// The setting of the interface replaces those of all instances, also when it is restored. The instances that have a
    /// mode of their own are therefore recorded before it.
    fn napi_modes(&mut self, survey: &InterfaceSurvey) {
        let Some(now) = &survey.napi_modes else { return };
        let known = modes(now);
        let is_replaced = survey.threaded.as_deref() == Some("0");
        if is_replaced && known.values().all(|mode| *mode == 0) {
            return;
        }
        let threaded = known.into_iter().map(|(id, mode)| (id, mode.max(1)));
        let (now, wanted) = (now.clone(), modes_text(threaded));
        let place = SettingLocation::NapiModes { interface: survey.name.clone() };
        let (kind, interface) = (SettingKind::ThreadedNapi, Some(survey.name.clone()));
        if self.wants(kind) && (is_replaced || !place.agrees(&now, &wanted)) {
            self.plan.settings.push(Setting { kind, interface, place, now, wanted });
        }
    }

    fn affinity_of_interrupts(&mut self, survey: &InterfaceSurvey) {
        let Some(cpus) = self.cpus else { return };
        let cpus = cpus.to_string();
        for (irq, now) in &survey.irqs {
            let place = SettingLocation::Irq { irq: *irq };
            self.set(SettingKind::IrqAffinity, Some(&survey.name), place, now, &cpus);
        }
    }

    fn threads(&mut self, survey: &InterfaceSurvey) {
        let tuning = self.tuning;
        let name = &survey.name;
        for thread in &survey.threads {
            let (pid, interface) = (thread.pid, name.clone());
            let thread_name = thread.name.clone();
            match &thread.policy {
                Some(now) => {
                    let wanted = tuning.napi.to_string();
                    let place = SettingLocation::ThreadPolicy { interface, pid, name: thread_name };
                    self.set(SettingKind::NapiPriority, Some(name), place, now, &wanted);
                }
                None if self.wants(SettingKind::NapiPriority) => self.plan.cannot.push(format!(
                    "{name}: thread {thread_name} has a policy that could not be restored; it is not changed"
                )),
                None => {}
            }
            if let Some(cpus) = self.cpus {
                let (interface, thread_name) = (name.clone(), thread.name.clone());
                let place = SettingLocation::ThreadCpus { interface, pid, name: thread_name };
                self.set(
                    SettingKind::NapiAffinity,
                    Some(name),
                    place,
                    &thread.cpus,
                    &cpus.to_string(),
                );
            }
        }
        let starts = |setting: &Setting| {
            setting.kind == SettingKind::ThreadedNapi && setting.interface.as_ref() == Some(name)
        };
        if self.plan.settings.iter().any(starts) {
            let priority = self.wants(SettingKind::NapiPriority).then(|| tuning.napi.to_string());
            let cpus = self.cpus.filter(|_| self.wants(SettingKind::NapiAffinity));
            let cpus = cpus.map(|cpus| format!("CPUs {cpus}"));
            let follows: Vec<String> = priority.into_iter().chain(cpus).collect();
            if !follows.is_empty() {
                self.plan.later.push(format!(
                    "{name}: set {} on its NAPI threads when they exist",
                    follows.join(", ")
                ));
            }
        }
    }
}

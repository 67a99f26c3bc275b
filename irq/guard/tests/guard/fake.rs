//! A host made of a table, and waiting threads set by a test.

use std::collections::BTreeMap;
use std::time::Duration;

use onbeat_host::settings::{
    Entry, Host, InterfaceSurvey, Log, NapiThread, PacketSteering, Refusal, SettingLocation,
    Survey, Tuning,
};
use onbeat_irq_core::charge::Process;
use onbeat_irq_core::policy::Rank;
use onbeat_irq_guard::Result;
use onbeat_irq_guard::{Candidates, HostObserver, Usage, WaitingThread};
use onbeat_netdev::InterfaceIdentity;

/// Interfaces by name: whether they are threaded, and their threads.
#[derive(Debug, Default)]
pub(crate) struct FakeHost {
    pub(crate) interfaces: BTreeMap<String, Interface>,
    /// Settings that cannot be written.
    pub(crate) unwritable: Vec<SettingLocation>,
    /// All writes, in order.
    pub(crate) writes: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Interface {
    pub(crate) threaded: bool,
    /// Mask of RPS of its one queue.
    pub(crate) steering: String,
    /// By number: policy and CPUs.
    pub(crate) threads: BTreeMap<i32, (String, String)>,
}

impl FakeHost {
    pub(crate) fn with(interfaces: &[(&str, &[i32])]) -> Self {
        let mut host = Self::default();
        for (name, pids) in interfaces {
            host.add(name, pids);
        }
        host
    }

    pub(crate) fn add(&mut self, name: &str, pids: &[i32]) {
        let thread = |pid: &i32| (*pid, ("other".to_owned(), "0-3".to_owned()));
        let threads = pids.iter().map(thread).collect();
        self.interfaces.insert(
            name.to_owned(),
            Interface { threaded: false, steering: "3".to_owned(), threads },
        );
    }

    /// Policies of all threads.
    pub(crate) fn policies(&self) -> BTreeMap<i32, String> {
        let threads = self.interfaces.values().flat_map(|interface| &interface.threads);
        threads.map(|(pid, (policy, _))| (*pid, policy.clone())).collect()
    }

    fn thread(&mut self, pid: i32) -> std::result::Result<&mut (String, String), Refusal> {
        let mut interfaces = self.interfaces.values_mut();
        interfaces.find_map(|interface| interface.threads.get_mut(&pid)).ok_or(Refusal::Gone)
    }

    fn interface(&mut self, name: &str) -> std::result::Result<&mut Interface, Refusal> {
        self.interfaces.get_mut(name).ok_or_else(|| Refusal::Failed(format!("no {name}")))
    }
}

impl Host for FakeHost {
    fn survey(&mut self, tuning: &Tuning) -> onbeat_host::settings::Result<Survey> {
        let survey = |name: &String| {
            let Some(interface) = self.interfaces.get(name) else {
                let available = self.interfaces.keys().cloned().collect();
                let missing = onbeat_netdev::Error::NotFound { name: name.clone(), available };
                return Err(missing.into());
            };
            let thread = |(pid, (policy, cpus)): (&i32, &(String, String))| NapiThread {
                pid: *pid,
                name: format!("napi/{name}-{pid}"),
                policy: Some(policy.clone()),
                cpus: cpus.clone(),
            };
            let threads = interface.threaded.then_some(&interface.threads);
            Ok(InterfaceSurvey {
                name: name.clone(),
                threaded: Some(u8::from(interface.threaded).to_string()),
                steering: vec![PacketSteering {
                    queue: 0,
                    cpus: Some(interface.steering.clone()),
                    flows: None,
                }],
                threads: threads.into_iter().flatten().map(thread).collect(),
                ..InterfaceSurvey::default()
            })
        };
        let interfaces =
            tuning.interfaces.iter().map(survey).collect::<onbeat_host::settings::Result<_>>()?;
        Ok(Survey { cpus: "0-3".parse().unwrap(), interfaces, ..Survey::default() })
    }

    fn read(&mut self, place: &SettingLocation) -> std::result::Result<String, Refusal> {
        match place {
            SettingLocation::Threaded { interface } => {
                Ok(u8::from(self.interface(interface)?.threaded).to_string())
            }
            SettingLocation::SteeringCpus { interface, .. } => {
                Ok(self.interface(interface)?.steering.clone())
            }
            SettingLocation::ThreadPolicy { pid, .. } => Ok(self.thread(*pid)?.0.clone()),
            SettingLocation::ThreadCpus { pid, .. } => Ok(self.thread(*pid)?.1.clone()),
            other => panic!("unexpected read of {other}"),
        }
    }

    fn write(&mut self, place: &SettingLocation, value: &str) -> std::result::Result<(), Refusal> {
        if self.unwritable.contains(place) {
            return Err(Refusal::Failed("not supported".into()));
        }
        self.writes.push((place.to_string(), value.to_owned()));
        match place {
            SettingLocation::Threaded { interface } => {
                self.interface(interface)?.threaded = value == "1"
            }
            SettingLocation::SteeringCpus { interface, .. } => {
                value.clone_into(&mut self.interface(interface)?.steering);
            }
            SettingLocation::ThreadPolicy { pid, .. } => self.thread(*pid)?.0 = value.to_owned(),
            SettingLocation::ThreadCpus { pid, .. } => self.thread(*pid)?.1 = value.to_owned(),
            other => panic!("unexpected write of {other}"),
        }
        Ok(())
    }

    fn identify(&self, interface: &str) -> std::result::Result<InterfaceIdentity, Refusal> {
        Ok(InterfaceIdentity::former(1, interface))
    }

    fn find(&self, interface: &InterfaceIdentity) -> std::result::Result<Option<String>, Refusal> {
        Ok(self.interfaces.contains_key(interface.name()).then(|| interface.name().to_owned()))
    }
}

/// A journal that a killed guard leaves to the next.
#[derive(Debug, Default)]
pub(crate) struct Memory(Vec<Entry>);

impl Log for Memory {
    fn entries(&self) -> Vec<Entry> {
        self.0.clone()
    }

    fn replace(&mut self, entries: Vec<Entry>) -> onbeat_host::settings::Result<()> {
        self.0 = entries;
        Ok(())
    }
}

/// Interfaces and waiting threads.
#[derive(Debug, Default)]
pub(crate) struct FakeObserver {
    pub(crate) indices: BTreeMap<String, u32>,
    pub(crate) waiting: BTreeMap<(u32, u32), Rank>,
    /// CPU times that were reported, each with the number of writes before.
    pub(crate) followed: Vec<(Duration, usize)>,
}

impl HostObserver for FakeObserver {
    fn devices(&mut self, names: &[String]) -> Result<BTreeMap<String, u32>> {
        let ours = self.indices.iter().filter(|(name, _)| names.contains(name));
        Ok(ours.map(|(name, index)| (name.clone(), *index)).collect())
    }

    fn candidates(&mut self, devices: &[u32], _now_ns: u64) -> Result<Candidates> {
        let waiter = |tid| WaitingThread { process: Process { pid: tid, start_ticks: 0 }, tid };
        let here = self.waiting.iter().filter(|((device, _), _)| devices.contains(device));
        let waiting = here.map(|((device, tid), rank)| ((*device, waiter(*tid)), *rank)).collect();
        Ok(Candidates { waiting, names: BTreeMap::new() })
    }

    fn usage(&self) -> Vec<Usage> {
        Vec::new()
    }
}

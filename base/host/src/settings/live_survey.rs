//! Survey of this host: its CPUs, interrupts and threads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use onbeat_netdev::{Error as Netdev, napi};

use super::live::{LiveHost, affinity_file};
use super::manager::{MANAGED, UNMANAGED};
use super::survey::RT_RUNTIME;
use super::value::{Fields, modes_text};
use super::{
    Governor, InterfaceSurvey, Manager, NapiThread, PacketSteering, SettingKind, Survey, Tuning,
};
use onbeat_realtime::scheduling::{ThreadPolicy, affinity};

use super::Result;

impl LiveHost {
    pub(super) fn survey_of(&self, tuning: &Tuning) -> Result<Survey> {
        let may_change = |kind| tuning.only.contains(&kind);
        let cpus = self.text("/sys/devices/system/cpu/online").and_then(|text| text.parse().ok());
        let governors = may_change(SettingKind::Governor).then(|| self.governors());
        let interfaces = tuning.interfaces.iter().map(|name| self.interface(name, &may_change));
        Ok(Survey {
            governors: governors.unwrap_or_default(),
            cpus: cpus.unwrap_or_default(),
            rt_runtime: self.text(RT_RUNTIME),
            interfaces: interfaces.collect::<Result<_>>()?,
        })
    }

    fn governors(&self) -> Vec<Governor> {
        let cpus = self.list("/sys/devices/system/cpu");
        let numbers = cpus.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<u16>().ok());
        let numbers: BTreeSet<u16> = numbers.collect();
        let governor = |cpu: u16| {
            let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq");
            let path = format!("{directory}/scaling_governor");
            let available = self.text(&format!("{directory}/scaling_available_governors"));
            let available = available.unwrap_or_default();
            let available = available.split_whitespace().map(str::to_owned).collect();
            Some(Governor { now: self.text(&path)?, path, available })
        };
        numbers.into_iter().filter_map(governor).collect()
    }

    /// Each value costs system calls: only those that may change are read.
    fn interface(
        &self,
        name: &str,
        may_change: &impl Fn(SettingKind) -> bool,
    ) -> Result<InterfaceSurvey> {
        let class = format!("/sys/class/net/{name}");
        let mut survey = InterfaceSurvey {
            name: name.to_owned(),
            threaded: self.text(&format!("{class}/threaded")),
            ..InterfaceSurvey::default()
        };
        if may_change(SettingKind::PacketSteering) {
            survey.steering = self.steering(&class);
        }
        let finds_irqs = may_change(SettingKind::IrqAffinity);
        let mut irqs = if finds_irqs { self.irqs(name) } else { BTreeSet::new() };
        match &self.devices {
            Some(devices) => {
                let link = devices.handle.link(name)?;
                survey.veth = link.kind.as_deref() == Some("veth");
                // A device may lack any of these.
                if may_change(SettingKind::Offloads) {
                    survey.offloads = devices.offloads(name).ok();
                }
                if may_change(SettingKind::Coalescing) {
                    survey.coalescing = devices.ethtool.coalescing(name).ok().map(Fields::text);
                }
                if may_change(SettingKind::EnergyEfficient) {
                    let eee = devices.ethtool.energy_efficient(name);
                    survey.energy_efficient = eee.ok().map(Fields::text);
                }
                let instances = devices.instances(name)?;
                survey.napi_modes = instances.as_deref().and_then(modes_of);
                if finds_irqs {
                    let found = instances.iter().flatten();
                    irqs.extend(found.filter_map(|instance| instance.irq));
                }
                survey.threads = self.threads(&instances, name);
            }
            None if !self.path(&class).exists() => {
                let available = self.list("/sys/class/net");
                return Err(Netdev::NotFound { name: name.to_owned(), available }.into());
            }
            None => {}
        }
        if may_change(SettingKind::Manager) {
            survey.managers = self.managers(name);
        }
        let affinity = |irq| Some((irq, self.text(&affinity_file(irq))?));
        survey.irqs = irqs.into_iter().filter_map(affinity).collect();
        Ok(survey)
    }

    /// Returns the network managers that know an interface.
    fn managers(&self, name: &str) -> Vec<(Manager, String)> {
        let state = |manager| Some((manager, self.managed(manager, name)?.to_owned()));
        Manager::ALL.into_iter().filter_map(state).collect()
    }

    /// Returns whether a manager manages an interface; `None`: it does not know it.
    pub(super) fn managed(&self, manager: Manager, interface: &str) -> Option<&'static str> {
        let state = manager.state(&self.root, interface)?;
        Some(if manager.manages(&state) { MANAGED } else { UNMANAGED })
    }

    /// Returns the distribution of packets by each receive queue, in the order of their numbers.
    fn steering(&self, class: &str) -> Vec<PacketSteering> {
        let queues = self.list(&format!("{class}/queues"));
        let queues: BTreeSet<u16> =
            queues.iter().filter_map(|name| name.strip_prefix("rx-")?.parse().ok()).collect();
        let steering = |queue: u16| {
            let value = |name: &str| self.text(&format!("{class}/queues/rx-{queue}/{name}"));
            PacketSteering { queue, cpus: value("rps_cpus"), flows: value("rps_flow_cnt") }
        };
        queues.into_iter().map(steering).collect()
    }

    /// Returns the interrupts of an interface: those of its device, and those with its name.
    fn irqs(&self, name: &str) -> BTreeSet<u32> {
        let device = format!("/sys/class/net/{name}/device");
        // A virtio device has none itself; its PCI device has.
        let of_device = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
            .iter()
            .map(|path| self.list(path))
            .find(|numbers| !numbers.is_empty())
            .unwrap_or_default();
        let numbers = of_device.iter().filter_map(|number| number.parse().ok());
        let table = self.text("/proc/interrupts").unwrap_or_default();
        numbers.chain(irqs_named_for(&table, name)).collect()
    }

    /// Returns the NAPI threads by name, for kernels that do not report them: `napi/eth0-8193`. A name does
    /// not distinguish interfaces of the same name in several network namespaces.
    fn threads_by_name(&self, interface: &str) -> Vec<u32> {
        let prefix = format!("napi/{interface}-");
        let is_one = |pid: &u32| {
            let name = self.text(&format!("/proc/{pid}/comm")).unwrap_or_default();
            name.strip_prefix(&prefix)
                .is_some_and(|id| !id.is_empty() && id.bytes().all(|octet| octet.is_ascii_digit()))
        };
        let pids = self.list("/proc").into_iter().filter_map(|name| name.parse().ok());
        pids.filter(is_one).collect()
    }

    /// Returns the threads of an interface's NAPI instances, which older kernels do not report.
    pub(super) fn threads(
        &self,
        instances: &Option<Vec<napi::Instance>>,
        interface: &str,
    ) -> Vec<NapiThread> {
        let pids = match instances {
            Some(known) => known.iter().filter_map(|instance| instance.pid).collect(),
            None => self.threads_by_name(interface),
        };
        pids.into_iter().filter_map(|pid| self.thread(pid)).collect()
    }

    /// Returns a thread; `None`: it has exited.
    fn thread(&self, pid: u32) -> Option<NapiThread> {
        let name = self.text(&format!("/proc/{pid}/comm"))?;
        let pid = i32::try_from(pid).ok()?;
        let policy = ThreadPolicy::of(pid).ok()?.text();
        let cpus = affinity(pid).ok()?.to_string();
        Some(NapiThread { pid, name, policy, cpus })
    }

    /// Returns the names in a directory; empty if there is none.
    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Returns the modes of NAPI instances; `None`: the kernel has none per instance.
pub(super) fn modes_of(instances: &[napi::Instance]) -> Option<String> {
    let mode = |instance: &napi::Instance| Some((instance.id, instance.threaded?));
    let modes: Option<BTreeMap<u32, u32>> = instances.iter().map(mode).collect();
    modes.filter(|modes| !modes.is_empty()).map(modes_text)
}

/// Returns the interrupts whose handlers contain the interface's name: `eth0`, `eth0-rx-0`,
/// `i40e-eth0-TxRx-0`.
fn irqs_named_for(table: &str, interface: &str) -> Vec<u32> {
    let bears_name = |word: &str| {
        word.match_indices(interface).any(|(at, _)| {
            let within = |c: char| c.is_alphanumeric() || c == '.' || c == '_';
            !word[..at].ends_with(within) && !word[at + interface.len()..].starts_with(within)
        })
    };
    let named = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        rest.split([' ', ',', '\t']).any(bears_name).then_some(number)
    };
    table.lines().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_are_found_by_the_interfaces_name() {
        let table = "           CPU0       CPU1
  9:          0          0   IO-APIC   9-fasteoi   acpi
 40:       6916          0   PCI-MSIX-0000:00:04.0   0-edge      eth1
 41:          1          0   PCI-MSIX-0000:00:04.0   1-edge      eth1-TxRx-0
 42:          1          0   GICv3 116 Level     ahci, eth1
 43:          1          0   PCI-MSI 1-edge      i40e-eth1-TxRx-0
 50:          1          0   PCI-MSI 1-edge      eth10
 51:          1          0   PCI-MSI 1-edge      veth1
 52:          1          0   PCI-MSI 1-edge      eth1.100
NMI:          0          0   Non-maskable interrupts of eth1";
        assert_eq!(irqs_named_for(table, "eth1"), [40, 41, 42, 43]);
        assert!(irqs_named_for(table, "eth2").is_empty());
    }
}

//! Names of devices by namespace and index, kept after their removal.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use onbeat_irq_core::charge::{Device, ReceiveQueue};
use onbeat_netdev::{Handle, Namespace, namespace_files, napi};

use super::stat::numbers;

/// Caches the names of devices. It holds no namespace open: unused namespaces are destroyed.
#[derive(Debug, Default)]
pub struct Devices {
    cache: HashMap<Device, CachedName>,
    /// The numbers of receive queues.
    queues: HashMap<ReceiveQueue, CachedName>,
    /// The namespaces at the last listing, and a file of each; `None`: list them again.
    namespaces: Option<HashMap<u32, PathBuf>>,
    /// Namespaces without a process and without a name: an open descriptor holds them. Searched once, since
    /// that reads all descriptors of the host.
    unnamed: HashMap<u32, Option<PathBuf>>,
}

#[derive(Debug, Default)]
struct CachedName {
    name: Option<String>,
    /// Read since the last refresh: a device may be renamed.
    fresh: bool,
}

impl Devices {
    /// The name of a device: `eth0` in the namespace of this thread, `eth0@4026532281` in the namespace of that
    /// inode, its index if it was removed before its name was read.
    pub fn name(&mut self, device: Device) -> String {
        if device.index == 0 {
            return device.to_string();
        }
        let mut cache = self.cache.remove(&device).unwrap_or_default();
        if !cache.fresh {
            cache.name = self.read(device).or(cache.name);
            cache.fresh = true;
        }
        let text = cache.name.clone().unwrap_or_else(|| device.to_string());
        self.cache.insert(device, cache);
        text
    }

    /// The name of a receive queue: `eth0/2`; with the id of its NAPI instance if its number is unknown.
    pub fn queue(&mut self, queue: ReceiveQueue) -> String {
        let mut cache = self.queues.remove(&queue).unwrap_or_default();
        if !cache.fresh {
            let number = self.within(queue.device, |namespace| {
                let handle = Handle::in_namespace(namespace).ok()?;
                let interface = handle.link_by_index(queue.device.index).ok()?.name;
                napi::receive_queue(&handle, &interface, queue.napi).ok()?
            });
            cache.name = number.map(|number| number.to_string()).or(cache.name);
            cache.fresh = true;
        }
        let number = cache.name.clone().unwrap_or_else(|| format!("napi-{}", queue.napi));
        self.queues.insert(queue, cache);
        format!("{}/{number}", self.name(queue.device))
    }

    /// As [`Processes::refresh`](super::Processes::refresh).
    pub fn refresh(&mut self) {
        self.cache.retain(|_, cache| std::mem::replace(&mut cache.fresh, false));
        self.queues.retain(|_, cache| std::mem::replace(&mut cache.fresh, false));
        self.unnamed.retain(|netns, _| self.cache.keys().any(|device| device.netns == *netns));
        self.namespaces = None;
    }

    fn read(&mut self, device: Device) -> Option<String> {
        let Device { netns, index } = device;
        let is_here = Namespace::current().ok()?.inode() as u32 == netns;
        let name = self.within(device, |namespace| name_in(namespace, index))?;
        Some(if is_here { name } else { format!("{name}@{netns}") })
    }

    /// Reads in the namespace of a device.
    fn within<T>(
        &mut self,
        device: Device,
        read: impl FnOnce(&Namespace) -> Option<T>,
    ) -> Option<T> {
        let here = Namespace::current().ok()?;
        if here.inode() as u32 == device.netns {
            return read(&here);
        }
        let known = self.namespaces.get_or_insert_with(namespaces);
        let namespace = match known.get(&device.netns) {
            Some(path) => Namespace::from_path(path),
            None => {
                let held = self
                    .unnamed
                    .entry(device.netns)
                    .or_insert_with(|| held_namespace(device.netns));
                Namespace::from_path(held.as_ref()?)
            }
        };
        let namespace = namespace.ok()?;
        // Another namespace may have the file's name by now.
        if namespace.inode() as u32 != device.netns {
            return None;
        }
        read(&namespace)
    }
}

/// A network namespace by its inode. One without a process and without a name costs a search of all descriptors.
pub(crate) fn namespace(netns: u32) -> Option<Namespace> {
    let here = Namespace::current().ok()?;
    if here.inode() as u32 == netns {
        return Some(here);
    }
    let path = namespaces().remove(&netns).or_else(|| held_namespace(netns))?;
    Namespace::from_path(&path).ok().filter(|found| found.inode() as u32 == netns)
}

fn name_in(namespace: &Namespace, index: u32) -> Option<String> {
    Some(Handle::in_namespace(namespace).ok()?.link_by_index(index).ok()?.name)
}

/// The network namespaces of all processes and those with a name, by inode.
fn namespaces() -> HashMap<u32, PathBuf> {
    let of = |path: PathBuf| Some((fs::metadata(&path).ok()?.ino() as u32, path));
    entries("/run/docker/netns").chain(namespace_files()).filter_map(of).collect()
}

/// Whether a device with this name exists: `eth0` in any network namespace, or `eth0@4026532281`.
#[must_use]
pub fn device_exists(wanted: &str) -> bool {
    let (name, netns) = match wanted.split_once('@') {
        Some((name, netns)) => (name, Some(netns)),
        None => (wanted, None),
    };
    let has = |namespace: &Namespace| {
        netns.is_none_or(|netns| netns == namespace.inode().to_string())
            && Handle::in_namespace(namespace).is_ok_and(|handle| handle.index(name).is_ok())
    };
    // By its number, the form of a device without a name.
    if name.starts_with('#') || Namespace::current().is_ok_and(|here| has(&here)) {
        return true;
    }
    let opened = |path: &Path| Namespace::from_path(path).ok();
    namespaces().values().filter_map(|path| opened(path)).any(|namespace| has(&namespace))
        || held_namespaces().filter_map(|(_, path)| opened(&path)).any(|namespace| has(&namespace))
}

/// The network namespaces that processes hold descriptors of, as `net:[INODE]`, each with a descriptor.
fn held_namespaces() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let descriptors = numbers().flat_map(|pid| entries(format!("/proc/{pid}/fd")));
    descriptors.filter_map(|path| {
        let target = fs::read_link(&path).ok()?;
        target.to_str()?.starts_with("net:[").then_some((target, path))
    })
}

/// An open descriptor of a network namespace, of any process.
fn held_namespace(netns: u32) -> Option<PathBuf> {
    let name = PathBuf::from(format!("net:[{netns}]"));
    held_namespaces().find(|(target, _)| *target == name).map(|(_, path)| path)
}

fn entries(directory: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_testing::{Feature, require};

    #[test]
    fn loopback_here_and_elsewhere() {
        let mut devices = Devices::default();
        let here = Namespace::current().unwrap().inode() as u32;
        assert_eq!(devices.name(Device { netns: here, index: 1 }), "lo");
        assert_eq!(devices.name(Device::default()), "-");
        // No namespace has this number.
        let nowhere = Device { netns: 5, index: 3 };
        assert_eq!(devices.name(nowhere), "#3@5");
        if !require(Feature::Root) {
            return;
        }
        let elsewhere = Namespace::new().unwrap();
        let netns = elsewhere.inode() as u32;
        devices.refresh();
        assert_eq!(devices.name(Device { netns, index: 1 }), format!("lo@{netns}"));
        assert!(device_exists("lo") && device_exists(&format!("lo@{netns}")));
        assert!(!device_exists("nosuch") && !device_exists(&format!("nosuch@{netns}")));
        assert!(!device_exists("lo@5"));
    }

    #[test]
    fn a_removed_device_keeps_its_name_while_it_is_queried() {
        if !require(Feature::Veth) {
            return;
        }
        let namespace = Namespace::new().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        handle
            .create_dummy("d0")
            .or_else(|_| {
                use onbeat_netdev::VethEnd;
                handle.create_veth(&VethEnd::new("d0"), &VethEnd::new("d1"))
            })
            .unwrap();
        let device = Device { netns: namespace.inode() as u32, index: handle.index("d0").unwrap() };
        let name = format!("d0@{}", device.netns);
        let mut devices = Devices::default();
        assert_eq!(devices.name(device), name);
        handle.delete("d0").unwrap();
        devices.refresh();
        assert_eq!(devices.name(device), name);
        devices.refresh();
        devices.refresh();
        assert!(devices.cache.is_empty());
    }
}

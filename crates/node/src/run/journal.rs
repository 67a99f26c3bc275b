//! The settings of interfaces from before a node changed them, so that any later process can restore
//! them: the daemon when it exits, or `onbeat down` after the daemon was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onbeat_host::{Content, Journal as File, PrivateDirectory};
use onbeat_netdev::{Link, check_name};
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::port::{Devices, RX_VLAN};
use crate::config::VETH_SUFFIX;
use crate::control::in_directory;

/// Changes not yet undone.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Changes {
    /// Veth pairs made, by one end.
    created: Vec<String>,
    /// Interfaces set promiscuous.
    promiscuous: Vec<String>,
    /// MTU before, by interface.
    mtu: BTreeMap<String, u32>,
    /// Offloads before, by interface and name.
    features: BTreeMap<String, BTreeMap<String, bool>>,
    /// By name: which interfaces these are. One that is made later with the same name is another.
    #[serde(default)]
    identity: BTreeMap<String, Identity>,
}

/// Which interface a name stood for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// The inode of its network namespace.
    namespace: u64,
    index: u32,
}

impl Changes {
    /// Interfaces with changes.
    fn interfaces(&self) -> BTreeSet<String> {
        let Changes { created, promiscuous, mtu, features, .. } = self;
        let named = created.iter().chain(promiscuous).chain(mtu.keys()).chain(features.keys());
        named.cloned().collect()
    }

    fn forget(&mut self, interface: &str) {
        self.created.retain(|name| name != interface);
        self.promiscuous.retain(|name| name != interface);
        self.mtu.remove(interface);
        self.features.remove(interface);
        self.identity.remove(interface);
    }
}

impl Content for Changes {
    fn check(&self) -> std::result::Result<(), String> {
        for name in self.interfaces().iter().chain(self.identity.keys()) {
            check_name(name).map_err(|error| error.to_string())?;
        }
        if let Some(mtu) = self.mtu.values().find(|mtu| !(68..=65535).contains(*mtu)) {
            return Err(format!("{mtu} is not an MTU"));
        }
        let mut features = self.features.values().flat_map(BTreeMap::keys);
        match features.find(|feature| *feature != RX_VLAN) {
            Some(feature) => Err(format!("a node does not change feature {feature:?}")),
            None => Ok(()),
        }
    }
}

/// The changes, in a file that is written before each change.
#[derive(Debug)]
pub(super) struct Journal {
    file: File<Changes>,
    changes: Changes,
}

impl Journal {
    /// The journal of a node, beside its control socket, with the changes that an earlier daemon
    /// left. `node` is the argument of `onbeat down` for this node.
    pub(super) fn open(control: &Path, node: &str) -> Result<Self> {
        let file = file(control, node)?;
        let changes = file.read()?.unwrap_or_default();
        Ok(Self { file, changes })
    }

    /// Discards a damaged journal. Whether there was one.
    pub(super) fn discard_damaged(control: &Path, node: &str) -> Result<bool> {
        let aside = file(control, node)?.set_aside()?;
        if let Some(path) = &aside {
            tracing::warn!(
                "damaged journal discarded, none of its settings restored: it is now {path:?}"
            );
        }
        Ok(aside.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.interfaces().is_empty()
    }

    /// Interfaces with changes.
    pub(super) fn interfaces(&self) -> BTreeSet<String> {
        self.changes.interfaces()
    }

    /// Before a veth pair is made.
    pub(super) fn creating(&mut self, interface: &str) -> Result<()> {
        self.changes.forget(interface);
        self.changes.created.push(interface.to_owned());
        self.save()
    }

    /// Once it is made.
    pub(super) fn created(&mut self, namespace: u64, link: &Link) -> Result<()> {
        self.identify(namespace, link);
        self.save()
    }

    /// Before the MTU of an interface is changed.
    pub(super) fn changing_mtu(&mut self, namespace: u64, link: &Link) -> Result<()> {
        self.identify(namespace, link);
        self.changes.mtu.entry(link.name.clone()).or_insert(link.mtu);
        self.save()
    }

    /// Before an interface is set promiscuous.
    pub(super) fn changing_promiscuous(&mut self, namespace: u64, link: &Link) -> Result<()> {
        self.identify(namespace, link);
        self.changes.promiscuous.push(link.name.clone());
        self.save()
    }

    /// Before offloads with these states are changed.
    pub(super) fn changing_features<'a>(
        &mut self,
        namespace: u64,
        link: &Link,
        features: impl Iterator<Item = (&'a str, bool)>,
    ) -> Result<()> {
        self.identify(namespace, link);
        let before = self.changes.features.entry(link.name.clone()).or_default();
        features.for_each(|(name, on)| _ = before.entry(name.to_owned()).or_insert(on));
        self.save()
    }

    /// Changes of an earlier interface with this name went with it.
    fn identify(&mut self, namespace: u64, link: &Link) {
        let new = Identity { namespace, index: link.index };
        let known = self.changes.identity.get(&link.name);
        if known.is_some_and(|known| *known != new) {
            self.changes.forget(&link.name);
        }
        self.changes.identity.insert(link.name.clone(), new);
    }

    /// Writes the journal; removes it once it is empty.
    fn save(&self) -> Result<()> {
        if self.is_empty() {
            Ok(self.file.remove()?)
        } else {
            Ok(self.file.write(&self.changes)?)
        }
    }

    /// Undoes the changes of these interfaces. Returns the settings that are not restored, and why:
    /// they stay in the journal.
    pub(super) fn restore(
        &mut self,
        devices: &mut Devices,
        interfaces: &BTreeSet<String>,
    ) -> Result<Vec<String>> {
        let mut failures = Vec::new();
        for interface in interfaces {
            match self.find(devices, interface) {
                Ok(Some(link)) => self.restore_link(devices, interface, &link, &mut failures),
                Ok(None) => self.changes.forget(interface),
                Err(why) => failures.push(format!("interface {interface:?} not restored: {why}")),
            }
        }
        if !interfaces.is_empty() {
            self.save()?;
        }
        Ok(failures)
    }

    /// The interface that was changed, locked; `None` where it is gone.
    fn find(
        &self,
        devices: &mut Devices,
        interface: &str,
    ) -> std::result::Result<Option<Link>, String> {
        let here = devices.handle.namespace().inode();
        let link = match self.changes.identity.get(interface) {
            Some(Identity { namespace, .. }) if *namespace != here => {
                return Err(format!(
                    "it was changed in network namespace net:[{namespace}]; run this command there"
                ));
            }
            Some(identity) => devices.handle.link_by_index(identity.index),
            None => devices.handle.link(interface),
        };
        match link {
            Ok(link) => {
                devices.lock(&link).map_err(|error| error.to_string())?;
                Ok(Some(link))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn restore_link(
        &mut self,
        devices: &Devices,
        interface: &str,
        link: &Link,
        failures: &mut Vec<String>,
    ) {
        let mut undone = |what: &str, result: onbeat_netdev::Result<()>| match result {
            Err(error) if !error.is_not_found() => {
                failures.push(format!("interface {interface:?}: {what} not restored: {error}"));
                false
            }
            _ => true,
        };
        let (handle, name) = (&devices.handle, link.name.as_str());
        if let Some(features) = self.changes.features.get(interface) {
            let features: Vec<_> = features.iter().map(|(name, on)| (name.as_str(), *on)).collect();
            if undone("offloads", devices.ethtool.set_features(name, &features).map(drop)) {
                self.changes.features.remove(interface);
            }
        }
        if let Some(mtu) = self.changes.mtu.get(interface) {
            if undone("MTU", handle.set_mtu(name, *mtu)) {
                self.changes.mtu.remove(interface);
            }
        }
        let named = |list: &[String]| list.iter().any(|known| known == interface);
        if named(&self.changes.promiscuous)
            && undone("promiscuous mode", handle.set_promiscuous(name, false))
        {
            self.changes.promiscuous.retain(|known| known != interface);
        }
        if named(&self.changes.created) {
            let identified = self.changes.identity.contains_key(interface);
            if !is_made_by_node(devices, interface, link, identified) {
                failures.push(format!(
                    "interface {interface:?} not removed: it is not a veth that a node made"
                ));
            } else if undone("interface made by the node", handle.delete(name)) {
                self.changes.created.retain(|known| known != interface);
            }
        }
        if !self.changes.interfaces().contains(interface) {
            self.changes.forget(interface);
        }
    }

    /// Undoes all changes. Returns the settings that are not restored, and why.
    pub(super) fn restore_all(&mut self, devices: &mut Devices) -> Result<Vec<String>> {
        self.restore(devices, &self.interfaces())
    }

    /// Discards the changes that are left.
    pub(super) fn discard(self) -> Result<()> {
        Ok(self.file.remove()?)
    }
}

fn file(control: &Path, node: &str) -> Result<File<Changes>> {
    let (directory, _) = in_directory(control)?;
    let directory = PrivateDirectory::create(directory)?;
    let path = control.with_extension("journal.json");
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let remedy = format!(
        "discard it, and restore nothing of what it says, with: onbeat down {node} --forget"
    );
    Ok(File::new(directory, name, remedy))
}

/// Whether the link is a veth that a node made: known by its index, or, where the journal was written
/// before it had one, by the name of its other end.
fn is_made_by_node(devices: &Devices, interface: &str, link: &Link, identified: bool) -> bool {
    let peer = || devices.handle.link_by_index(link.peer?).ok();
    let by_peer = || peer().is_some_and(|peer| peer.name == format!("{interface}{VETH_SUFFIX}"));
    link.kind.as_deref() == Some("veth") && (identified || by_peer())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_journal_is_refused() {
        let check = |text: &str| serde_json::from_str::<Changes>(text).unwrap().check();
        let journal = |created: &str, mtu: &str, features: &str| {
            format!(
                r#"{{"created":[{created}],"promiscuous":[],"mtu":{{{mtu}}},"features":{{{features}}}}}"#
            )
        };
        check(&journal(r#""tsn0""#, r#""eth0":1500"#, r#""eth0":{"rx-vlan-hw-parse":true}"#))
            .unwrap();
        for (created, mtu, features) in [
            (r#""../x""#, "", ""),
            (r#""""#, "", ""),
            ("", r#""eth0":0"#, ""),
            ("", r#""eth0":67"#, ""),
            ("", r#""eth0":65536"#, ""),
            ("", r#""a b":1500"#, ""),
            ("", "", r#""eth0":{"tx-checksum-ipv4":false}"#),
        ] {
            check(&journal(created, mtu, features)).unwrap_err();
        }
    }
}

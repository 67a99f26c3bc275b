//! The settings of interfaces from before a node changed them, so that any later process can restore
//! them: the daemon when it exits, or `onbeat down` after the daemon was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use onbeat_host::{Content, Journal as File, PrivateDirectory, discard_remedy};
use onbeat_netdev::{Error as Netdev, Handle, InterfaceIdentity, Link, check_name};
use serde::{Deserialize, Serialize};

use super::devices::{Devices, is_changed_feature};
use super::error::{Error, Result};
use crate::config::{PortConfig, VETH_SUFFIX};
use crate::control::in_directory;

/// Changes that are not yet undone.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct InterfaceChanges {
    /// Created veth pairs, by one end.
    created: BTreeSet<String>,
    /// Interfaces set promiscuous.
    promiscuous: BTreeSet<String>,
    /// MTU before, by interface.
    mtu: BTreeMap<String, u32>,
    /// Offloads before, by interface and name.
    features: BTreeMap<String, BTreeMap<String, bool>>,
    /// Interfaces that answered ARP requests for all addresses of the host (`arp_ignore` was 0).
    #[serde(default)]
    arp_ignore: BTreeSet<String>,
    /// By name. An interface created later with the same name has another identity.
    #[serde(default)]
    identity: BTreeMap<String, InterfaceIdentity>,
}

impl InterfaceChanges {
    /// Interfaces with changes.
    fn interfaces(&self) -> BTreeSet<String> {
        let InterfaceChanges { created, promiscuous, mtu, features, arp_ignore, identity: _ } =
            self;
        let named = created.iter().chain(promiscuous).chain(mtu.keys()).chain(features.keys());
        named.chain(arp_ignore).cloned().collect()
    }

    /// An interface with changes that belongs to none of these ports.
    fn interface_of_others(&self, ports: &[PortConfig]) -> Option<String> {
        let of_port = |port: &PortConfig| [port.interface.clone(), port.attached_interface()];
        let known: BTreeSet<String> = ports.iter().flat_map(of_port).collect();
        self.interfaces().difference(&known).next().cloned()
    }

    fn forget(&mut self, interface: &str) {
        self.created.remove(interface);
        self.promiscuous.remove(interface);
        self.mtu.remove(interface);
        self.features.remove(interface);
        self.arp_ignore.remove(interface);
        self.identity.remove(interface);
    }
}

impl Content for InterfaceChanges {
    fn check(&self) -> std::result::Result<(), String> {
        for name in self.interfaces().iter().chain(self.identity.keys()) {
            check_name(name).map_err(|error| error.to_string())?;
        }
        // The former version wrote no name into an identity.
        let mut identities = self.identity.iter();
        if let Some((name, identity)) =
            identities.find(|(name, identity)| !["", name].contains(&identity.name()))
        {
            return Err(format!("interface {name:?} has the identity of {:?}", identity.name()));
        }
        if let Some(mtu) = self.mtu.values().find(|mtu| !(68..=65535).contains(*mtu)) {
            return Err(format!("{mtu} is not an MTU"));
        }
        let mut features = self.features.values().flat_map(BTreeMap::keys);
        match features.find(|feature| !is_changed_feature(feature)) {
            Some(feature) => Err(format!("a node does not change feature {feature:?}")),
            None => Ok(()),
        }
    }
}

/// The changes, in a file that is written before each change.
#[derive(Debug)]
pub(super) struct Journal {
    file: File<InterfaceChanges>,
    changes: InterfaceChanges,
    /// The argument of `onbeat down` for the node.
    node: String,
}

impl Journal {
    /// Opens the journal of a node, in the directory of its control socket, with the changes that an earlier daemon
    /// left. `node` is the argument of `onbeat down` for this node.
    pub(super) fn open(control: &Path, node: &str) -> Result<Self> {
        let file = JournalPath::of(control)?.open(node);
        let mut changes: InterfaceChanges = file.read()?.unwrap_or_default();
        for (name, identity) in &mut changes.identity {
            identity.set_former_name(name);
        }
        Ok(Self { file, changes, node: node.to_owned() })
    }

    /// Whether there is a journal of the node, usable or not, or one that the former version wrote.
    pub(super) fn exists(control: &Path) -> Result<bool> {
        let path = JournalPath::of(control)?;
        Ok(path.has(&path.name)? || path.has(&path.former_name)? && path.other_control()?.is_none())
    }

    /// Discards damaged journals. The caller has the lock of the node.
    pub(super) fn discard_damaged(control: &Path, node: &str) -> Result<()> {
        let path = JournalPath::of(control)?;
        let former = path.other_control()?.is_none().then(|| path.open_former(node));
        for file in former.into_iter().chain([path.open(node)]) {
            if let Some(path) = file.set_aside()? {
                tracing::warn!(
                    "damaged journal discarded, none of its settings restored: renamed to {path:?}"
                );
            }
        }
        Ok(())
    }

    /// Renames the journal of the former version to the present name, or removes it where it is of an
    /// earlier boot, unless it may be the journal of another node: the former name did not contain the
    /// extension of the control socket. The caller has the lock of the node; `ports` are those of its
    /// configuration, where that is known.
    pub(super) fn adopt_former(
        control: &Path,
        node: &str,
        ports: Option<&[PortConfig]>,
    ) -> Result<()> {
        let path = JournalPath::of(control)?;
        if path.has(&path.name)? || !path.has(&path.former_name)? {
            return Ok(());
        }
        let former = path.directory.file(&path.former_name);
        let own = path.directory.file(&path.name);
        let why = if let Some(other) = path.other_control()? {
            Some(format!("control socket {other:?} is in its directory"))
        } else {
            // A damaged one is an error only where it is this node's. One of an earlier boot has nothing
            // to restore.
            let file = path.open_former(node);
            let Some(changes) = file.read()? else { return Ok(file.remove()?) };
            let interface = ports.and_then(|ports| changes.interface_of_others(ports));
            interface.map(|name| format!("no port of this node has its interface {name:?}"))
        };
        if let Some(why) = why {
            tracing::warn!(
                "journal {former:?} of the former version not used: it may belong to another node: {why}; \
                 rename it to {own:?} if it belongs to this node, otherwise remove it"
            );
            return Ok(());
        }
        let through = |name: &str| path.directory.through_descriptor(name);
        std::fs::rename(through(&path.former_name), through(&path.name))
            .map_err(|source| Error::System { what: "rename the journal", source })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.interfaces().is_empty()
    }

    /// Interfaces with changes.
    pub(super) fn interfaces(&self) -> BTreeSet<String> {
        self.changes.interfaces()
    }

    /// Created interfaces, and those whose MTU was changed.
    pub(super) fn created_and_resized(&self) -> (Vec<String>, Vec<String>) {
        let InterfaceChanges { created, mtu, .. } = &self.changes;
        (created.iter().cloned().collect(), mtu.keys().cloned().collect())
    }

    /// Whether the changes were made in this network namespace; `None`: there are none.
    pub(super) fn is_of(&self, handle: &Handle) -> Option<bool> {
        let mut identities = self.changes.identity.values();
        let is_here = |identity: &InterfaceIdentity| identity.check_namespace(handle).is_ok();
        (!self.changes.identity.is_empty()).then(|| identities.any(is_here))
    }

    /// Records that a veth pair will be created.
    pub(super) fn creating(&mut self, handle: &Handle, interface: &str) -> Result<()> {
        self.identify(handle, interface, None)?;
        self.changes.created.insert(interface.to_owned());
        self.save()
    }

    /// Whether the node created this veth pair.
    pub(super) fn has_created(&self, handle: &Handle, link: &Link) -> bool {
        let found = || self.find(handle, &link.name).ok().flatten();
        self.changes.created.contains(&link.name)
            && found().is_some_and(|found| found.index == link.index)
    }

    /// Records the created veth pair.
    pub(super) fn created(&mut self, handle: &Handle, link: &Link) -> Result<()> {
        let made = InterfaceIdentity::of(handle, link)?;
        self.changes.identity.insert(link.name.clone(), made);
        self.save()
    }

    /// Records the MTU of an interface before it is changed.
    pub(super) fn changing_mtu(&mut self, handle: &Handle, link: &Link) -> Result<()> {
        self.identify(handle, &link.name, Some(link))?;
        self.changes.mtu.entry(link.name.clone()).or_insert(link.mtu);
        self.save()
    }

    /// Records that an interface will be set promiscuous.
    pub(super) fn changing_promiscuous(&mut self, handle: &Handle, link: &Link) -> Result<()> {
        self.identify(handle, &link.name, Some(link))?;
        self.changes.promiscuous.insert(link.name.clone());
        self.save()
    }

    /// Records that an interface will answer ARP requests for its own addresses only.
    pub(super) fn changing_arp_ignore(&mut self, handle: &Handle, link: &Link) -> Result<()> {
        self.identify(handle, &link.name, Some(link))?;
        self.changes.arp_ignore.insert(link.name.clone());
        self.save()
    }

    /// Records the state of a feature before it is changed.
    pub(super) fn changing_feature(
        &mut self,
        handle: &Handle,
        link: &Link,
        (name, on): (&str, bool),
    ) -> Result<()> {
        self.identify(handle, &link.name, Some(link))?;
        let before = self.changes.features.entry(link.name.clone()).or_default();
        before.entry(name.to_owned()).or_insert(on);
        self.save()
    }

    /// Records the identity of an interface that will be changed or, without a link, created. Its settings in the
    /// journal are kept. Those of another interface with this name are discarded only if it no longer exists.
    fn identify(&mut self, handle: &Handle, interface: &str, link: Option<&Link>) -> Result<()> {
        let index = link.map(|link| link.index);
        for known in self.interfaces() {
            let has_name = known == interface;
            match self.find(handle, &known) {
                Ok(Some(found)) if has_name == (Some(found.index) == index) => {}
                Ok(Some(found)) => {
                    let why = format!("interface {known:?} is now {:?}", found.name);
                    let remedy = format!("restore them with: onbeat down {}", self.node);
                    return Err(self.former_settings(interface, why, remedy));
                }
                _ if !has_name => {}
                Err(Netdev::NotIdentified { why, remedy, .. })
                    if !self.is_of_gone_namespace(handle, interface) =>
                {
                    return Err(self.former_settings(interface, why, remedy));
                }
                Ok(None) | Err(Netdev::NotIdentified { .. }) => {
                    tracing::warn!(
                        "former settings of interface {interface:?} discarded: it no longer exists"
                    );
                    self.changes.forget(interface);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let identity = match link {
            Some(link) => InterfaceIdentity::of(handle, link)?,
            None => InterfaceIdentity::planned(handle, interface)?,
        };
        self.changes.identity.insert(interface.to_owned(), identity);
        Ok(())
    }

    fn is_of_gone_namespace(&self, handle: &Handle, interface: &str) -> bool {
        let identity = self.changes.identity.get(interface);
        identity.is_some_and(|identity| !identity.has_namespace(handle))
    }

    fn former_settings(&self, interface: &str, why: String, remedy: String) -> Error {
        let (interface, node) = (interface.to_owned(), self.node.clone());
        Error::FormerSettings { interface, why, remedy, node }
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
            match self.find_locked(devices, interface) {
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

    /// The interface that was changed; `None` if it no longer exists.
    fn find(&self, handle: &Handle, interface: &str) -> onbeat_netdev::Result<Option<Link>> {
        match self.changes.identity.get(interface) {
            Some(identity) => identity.find(handle),
            None => match handle.link(interface) {
                Err(error) if error.is_not_found() => Ok(None),
                link => link.map(Some),
            },
        }
    }

    /// Like [`Journal::find`], with a lock on the interface.
    fn find_locked(
        &self,
        devices: &mut Devices,
        interface: &str,
    ) -> std::result::Result<Option<Link>, String> {
        let found = self.find(&devices.handle, interface).map_err(|error| error.to_string())?;
        if let Some(link) = &found {
            devices.lock(link).map_err(|error| error.to_string())?;
        }
        Ok(found)
    }

    fn restore_link(
        &mut self,
        devices: &Devices,
        interface: &str,
        link: &Link,
        failures: &mut Vec<String>,
    ) {
        let mut undone = |failure: &str, result: onbeat_netdev::Result<()>| match result {
            Err(error) if !error.is_not_found() => {
                failures.push(format!("interface {interface:?}{failure}: {error}"));
                false
            }
            _ => true,
        };
        let (handle, name) = (&devices.handle, link.name.as_str());
        if let Some(features) = self.changes.features.get(interface) {
            let features: Vec<_> = features.iter().map(|(name, on)| (name.as_str(), *on)).collect();
            if undone(
                ": offloads not restored",
                devices.ethtool.set_features(name, &features).map(drop),
            ) {
                self.changes.features.remove(interface);
            }
        }
        if let Some(mtu) = self.changes.mtu.get(interface) {
            if undone(": MTU not restored", handle.set_mtu(name, *mtu)) {
                self.changes.mtu.remove(interface);
            }
        }
        if self.changes.arp_ignore.contains(interface)
            && undone(": arp_ignore not restored", handle.set_arp_ignore(name, 0))
        {
            self.changes.arp_ignore.remove(interface);
        }
        if self.changes.promiscuous.contains(interface)
            && undone(": promiscuous mode not restored", handle.set_promiscuous(name, false))
        {
            self.changes.promiscuous.remove(interface);
        }
        if self.changes.created.contains(interface) {
            let identity = self.changes.identity.get(interface);
            let identified = identity.is_some_and(InterfaceIdentity::was_made);
            if !is_made_by_node(devices, interface, link, identified) {
                failures.push(format!(
                    "interface {interface:?} not removed: it is not a veth that a node created"
                ));
            } else if undone(", created by the node, not removed", handle.delete(name)) {
                self.changes.created.remove(interface);
            }
        }
        if !self.changes.interfaces().contains(interface) {
            self.changes.forget(interface);
        }
    }

    /// Undoes all changes. Returns the settings that are not restored, and why.
    pub(super) fn restore_all(&mut self, devices: &mut Devices) -> Result<Vec<String>> {
        let failures = self.restore(devices, &self.interfaces())?;
        // A file without a change is left by an earlier boot.
        self.save()?;
        Ok(failures)
    }

    /// Discards the changes that are left.
    pub(super) fn discard(self) -> Result<()> {
        Ok(self.file.remove()?)
    }
}

/// Path of a node's journal.
struct JournalPath {
    directory: PrivateDirectory,
    /// File name of the control socket.
    socket: String,
    name: String,
    /// Of the journal that the former version wrote: the same for all sockets whose names differ in
    /// their extension alone.
    former_name: String,
}

impl JournalPath {
    /// Of the node with this control socket.
    fn of(control: &Path) -> Result<Self> {
        let (directory, socket) = in_directory(control)?;
        Ok(Self {
            directory: PrivateDirectory::create(directory)?,
            socket: socket.to_owned(),
            name: format!("{socket}.node-journal"),
            former_name: former_name(socket),
        })
    }

    fn has(&self, name: &str) -> Result<bool> {
        Ok(self.directory.stat(name)?.is_some())
    }

    fn open(&self, node: &str) -> File<InterfaceChanges> {
        self.file(&self.name, node)
    }

    fn open_former(&self, node: &str) -> File<InterfaceChanges> {
        self.file(&self.former_name, node)
    }

    fn file(&self, name: &str, node: &str) -> File<InterfaceChanges> {
        let remedy = discard_remedy(&format!("onbeat down {node} --forget"));
        File::new(self.directory.clone(), name, remedy)
    }

    /// Another control socket whose node had the same journal in the former version: its socket or
    /// its lock is in the directory.
    fn other_control(&self) -> Result<Option<String>> {
        let failed = |source| Error::System { what: "list the directory of the journal", source };
        for entry in std::fs::read_dir(self.directory.through_descriptor(".")).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_socket = entry.file_type().map_err(failed)?.is_socket();
            let locked = LOCKS.iter().filter_map(|suffix| name.strip_suffix(suffix));
            let mut sockets = locked.chain(is_socket.then_some(name.as_str()));
            let shares =
                |socket: &&str| *socket != self.socket && former_name(socket) == self.former_name;
            if let Some(other) = sockets.find(shares) {
                return Ok(Some(other.to_owned()));
            }
        }
        Ok(None)
    }
}

/// Ends of the names of locks of control sockets; the second is the former version's.
const LOCKS: [&str; 2] = [".node-lock", ".lock"];

/// Name of the journal that the former version wrote for the node with this control socket.
fn former_name(socket: &str) -> String {
    Path::new(socket).with_extension("journal.json").to_string_lossy().into_owned()
}

/// Whether the link is a veth that a node created: identified by its index, or, if the journal was written before it
/// had one, by the name of its other end.
fn is_made_by_node(devices: &Devices, interface: &str, link: &Link, identified: bool) -> bool {
    let peer = || devices.handle.link_by_index(link.peer?).ok();
    let by_peer = || peer().is_some_and(|peer| peer.name == format!("{interface}{VETH_SUFFIX}"));
    link.kind.as_deref() == Some("veth") && (identified || by_peer())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use onbeat_testing::TemporaryDirectory;

    use super::*;
    use crate::config::Config;

    fn link(name: &str, index: u32) -> Link {
        let mut link = Link::default();
        (link.index, link.mtu) = (index, 1500);
        link.name = name.into();
        link
    }

    #[test]
    fn control_sockets_of_one_directory_have_a_journal_each() {
        let directory = TemporaryDirectory::new("run-journals");
        let handle = Handle::open().unwrap();
        let journal = |socket: &str| Journal::open(&directory.file(socket), "a").unwrap();
        for (index, socket) in ["a.sock", "a.ctl", "a", "a.sock.ctl"].into_iter().enumerate() {
            assert!(journal(socket).is_empty(), "{socket}");
            journal(socket).changing_mtu(&handle, &link(&format!("path{index}"), 1)).unwrap();
            let interfaces: Vec<_> = journal(socket).interfaces().into_iter().collect();
            assert_eq!(interfaces, [format!("path{index}")], "{socket}");
        }
    }

    #[test]
    fn the_same_change_is_in_the_journal_once() {
        let directory = TemporaryDirectory::new("run-once");
        let mut journal = Journal::open(&directory.file("a.sock"), "a").unwrap();
        for _ in 0..3 {
            journal.changing_promiscuous(&Handle::open().unwrap(), &link("lo", 1)).unwrap();
        }
        let text = fs::read_to_string(directory.file("a.sock.node-journal")).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["content"]["promiscuous"], serde_json::json!(["lo"]));
    }

    /// Interfaces of the journal that node "a" has with the former version's journal in its
    /// directory, and whether that journal is there still.
    fn adopt(directory: &TemporaryDirectory, ports: Option<&[PortConfig]>) -> (Vec<String>, bool) {
        // As on a tmpfs: elsewhere a journal that names no boot is refused.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let text = format!(
            r#"{{"boot":"{}","created":[],"promiscuous":[],"mtu":{{"path1":1500}},"features":{{}}}}"#,
            boot.trim()
        );
        fs::write(directory.file("a.journal.json"), text).unwrap();
        let control = directory.file("a.sock");
        Journal::adopt_former(&control, "a", ports).unwrap();
        let journal = Journal::open(&control, "a").unwrap();
        let is_there = directory.file("a.journal.json").exists();
        (journal.interfaces().into_iter().collect(), is_there)
    }

    fn ports(interface: &str) -> Vec<PortConfig> {
        let text =
            format!("[node]\nname = \"a\"\n[[port]]\nname = \"p\"\ninterface = \"{interface}\"\n");
        Config::parse(&text, "a.toml").unwrap().ports
    }

    #[test]
    fn the_journal_of_the_former_version_is_read_once() {
        for ports in [None, Some(ports("path1"))] {
            let directory = TemporaryDirectory::new("run-former");
            // Of this node, and of others with journals of their own.
            let _own = UnixListener::bind(directory.file("a.sock")).unwrap();
            let _other = UnixListener::bind(directory.file("b.ctl")).unwrap();
            fs::write(directory.file("a.sock.node-lock"), "").unwrap();
            fs::write(directory.file("a.sock.lock"), "").unwrap();
            let adopted = adopt(&directory, ports.as_deref());
            assert_eq!(adopted, (vec!["path1".to_owned()], false));
        }
    }

    #[test]
    fn the_journal_of_the_former_version_is_not_used_where_it_may_be_another_node_s() {
        for other in ["a.ctl", "a.ctl.node-lock", "a.ctl.lock", "a.lock", "port"] {
            let directory = TemporaryDirectory::new("run-ambiguous");
            let _socket =
                (other == "a.ctl").then(|| UnixListener::bind(directory.file(other)).unwrap());
            if other.ends_with("lock") {
                fs::write(directory.file(other), "").unwrap();
            }
            let ports = (other == "port").then(|| ports("path2"));
            let adopted = adopt(&directory, ports.as_deref());
            assert_eq!(adopted, (vec![], true), "{other}");
        }
        let directory = TemporaryDirectory::new("run-damaged");
        let (control, former) = (directory.file("a.sock"), directory.file("a.journal.json"));
        let _socket = UnixListener::bind(directory.file("a.ctl")).unwrap();
        fs::write(&former, "damaged").unwrap();
        assert!(!Journal::exists(&control).unwrap());
        Journal::adopt_former(&control, "a", None).unwrap();
        Journal::discard_damaged(&control, "a").unwrap();
        assert_eq!(fs::read_to_string(&former).unwrap(), "damaged");

        let directory = TemporaryDirectory::new("run-newer");
        let mut journal = Journal::open(&directory.file("a.sock"), "a").unwrap();
        journal.changing_mtu(&Handle::open().unwrap(), &link("path2", 1)).unwrap();
        assert_eq!(adopt(&directory, None), (vec!["path2".to_owned()], true), "it has a newer one");
    }

    #[test]
    fn the_journal_of_the_former_version_of_an_earlier_boot_is_removed() {
        let directory = TemporaryDirectory::new("run-boot");
        let control = directory.file("a.sock");
        let text = r#"{"boot":"earlier","created":[],"promiscuous":["a"],"mtu":{},"features":{}}"#;
        fs::write(directory.file("a.journal.json"), text).unwrap();
        Journal::adopt_former(&control, "a", Some(&ports("b"))).unwrap();
        assert!(!Journal::exists(&control).unwrap());
    }

    #[test]
    fn a_planted_journal_is_refused() {
        let check = |text: &str| serde_json::from_str::<InterfaceChanges>(text).unwrap().check();
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

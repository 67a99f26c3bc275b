//! Preparation of interfaces for the data plane.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use nix::errno::Errno;
use onbeat_frer::dataplane::{Mode, PortSpec, ReceiveQueues, RunningProgram};
use onbeat_netdev::udev::has_yet_to_name;
use onbeat_netdev::xdp::{self, XdpFeatures};
use onbeat_netdev::{Link, VethEnd, XdpAttachment, XdpMode};
use onbeat_wire::MacAddress;

use super::devices::{Devices, MERGING, PAIR_OFFLOADS, RX_GRO, RX_VLAN};
use super::error::{Error, Result};
use super::journal::Journal;
use super::mode::Ability;
use crate::config::{PortConfig, Promiscuous, VETH_SUFFIX};
use crate::control;

/// Longest time in which the kernel removes a program after its last owner has exited.
const DETACHING: Duration = Duration::from_secs(1);

impl Devices {
    /// Creates and configures a port's interface, and writes its previous settings to the journal. Changes no
    /// existing interface before it holds the lock on the one that the data plane uses.
    pub(super) fn prepare(&mut self, port: &PortConfig, journal: &mut Journal) -> Result<Link> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        if port.create.is_some() {
            self.create(port, journal)?;
        }
        let name = port.attached_interface();
        let link = self.handle.link(&name).map_err(of_port)?;
        if port.create.is_none() && has_yet_to_name(&link) {
            return Err(Error::NotNamed { port: port.name.clone(), interface: name });
        }
        self.lock(&link).map_err(|source| Error::InUse { port: port.name.clone(), source })?;
        let other = port.create.map(|_| self.other_end(port, &link)).transpose()?;
        // The journal's only entry of a pair that the node made is that it made the pair.
        let made = other.as_ref().is_some_and(|other| journal.has_created(&self.handle, other));
        if let Some(mtu) = port.mtu {
            for end in other.iter().chain([&link]).filter(|end| end.mtu != mtu) {
                if !made {
                    journal.changing_mtu(&self.handle, end)?;
                }
                self.handle.set_mtu(&end.name, mtu).map_err(of_port)?;
            }
        }
        if let Some(other) = &other {
            self.handle.set_up(&other.name).map_err(of_port)?;
            self.set_features((!made).then_some(&mut *journal), other, &PAIR_OFFLOADS)?;
        }
        let filters = link.kind.as_deref() != Some("veth");
        let wanted = match port.promiscuous {
            Promiscuous::Auto => filters,
            Promiscuous::Yes => true,
            Promiscuous::No => false,
        };
        if wanted && !link.promiscuous {
            journal.changing_promiscuous(&self.handle, &link)?;
            self.handle.set_promiscuous(&name, true).map_err(of_port)?;
        }
        // A NIC that removes VLAN tags hides them from programs in the driver.
        if self.ethtool.feature(&name, RX_VLAN).unwrap_or(false) && filters {
            self.set_features(Some(journal), &link, &[(RX_VLAN, false)])?;
        }
        if port.whole_frames {
            self.set_features(Some(journal), &link, &MERGING)?;
        }
        // Otherwise the interface of a LAN answers ARP requests for the host's address, by its own one.
        if port.lan.is_some() && self.handle.arp_ignore(&name).map_err(of_port)? == 0 {
            journal.changing_arp_ignore(&self.handle, &link)?;
            self.handle.set_arp_ignore(&name, 1).map_err(of_port)?;
        }
        self.handle.set_up(&name).map_err(|source| match source {
            // Of the driver.
            onbeat_netdev::Error::Kernel { errno, .. }
                if ![Errno::EPERM, Errno::ENODEV].contains(&errno) =>
            {
                Error::NotUp { port: port.name.clone(), source }
            }
            _ => of_port(source),
        })?;
        self.handle.link(&name).map_err(of_port)
    }

    /// Creates the veth pair of a port if it does not exist: one end for programs of this machine, the other for
    /// the data plane.
    fn create(&self, port: &PortConfig, journal: &mut Journal) -> Result<()> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let name = port.interface.as_str();
        match self.handle.link(name) {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(of_port(error)),
        }
        journal.creating(&self.handle, name)?;
        // udev replaces addresses that the kernel chose: the journal could not identify the pair.
        let end = VethEnd::new(name).mac(port.mac.unwrap_or_else(random_address));
        let attached = VethEnd::new(port.attached_interface()).mac(random_address());
        self.handle.create_veth(&end, &attached).map_err(of_port)?;
        // The data plane's end is no interface of the host: its stack would answer for the host's addresses.
        let attached = port.attached_interface();
        self.handle.set_ipv6(&attached, false).map_err(of_port)?;
        self.handle.set_arp_ignore(&attached, 8).map_err(of_port)?;
        let made = self.handle.link(name).map_err(of_port)?;
        journal.created(&self.handle, &made)
    }

    /// The end of a port's veth pair that programs of this machine use.
    fn other_end(&self, port: &PortConfig, attached: &Link) -> Result<Link> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let other = self.handle.link(&port.interface).map_err(of_port)?;
        let is_pair = attached.kind.as_deref() == Some("veth")
            && attached.peer == Some(other.index)
            && attached.peer_namespace.is_none();
        if is_pair {
            return Ok(other);
        }
        let (interface, attached) = (other.name, attached.name.clone());
        Err(Error::NotOnePair { port: port.name.clone(), interface, attached })
    }

    /// Starts NAPI of a veth whose program runs in generic mode: native programs, such as those of another node,
    /// require it to send frames to the other end. A native program starts NAPI itself.
    pub(super) fn poll(&self, link: &Link, journal: &mut Journal) -> Result<()> {
        self.set_features(Some(journal), link, &[RX_GRO])
    }

    /// Sets features of an interface. The previous states of changed features are first written to the journal, if
    /// any.
    fn set_features(
        &self,
        mut journal: Option<&mut Journal>,
        link: &Link,
        wanted: &[(&str, bool)],
    ) -> Result<()> {
        let before = self.ethtool.features(&link.name)?;
        for &(name, on) in wanted {
            let Some(feature) = before.iter().find(|feature| feature.name == name) else {
                tracing::warn!("{}: feature {name} is unknown to the kernel", link.name);
                continue;
            };
            if (feature.active, feature.requested) == (on, on) {
                continue;
            }
            if let Some(journal) = &mut journal {
                journal.changing_feature(&self.handle, link, (name, feature.requested))?;
            }
            if let Err(error) = self.ethtool.set_features(&link.name, &[(name, on)]) {
                tracing::warn!("{}: feature {name} not changed: {error}", link.name);
            }
        }
        Ok(())
    }

    /// The interfaces, among these and the ends that a node creates for them, that run the program of a data plane
    /// in the kernel. Waits for programs that the kernel is removing.
    pub(super) fn forwarding(&self, interfaces: &BTreeSet<String>) -> Vec<String> {
        let ends =
            interfaces.iter().flat_map(|name| [name.clone(), format!("{name}{VETH_SUFFIX}")]);
        let forwards = |link: &Link| {
            link.xdp.iter().any(|program| onbeat_frer_xdp::forwards(program.program_id))
        };
        ends.filter(|name| {
            self.handle.link(name).is_ok_and(|link| forwards(&link))
                && self.handle.wait_for(name, "", DETACHING, |link| !forwards(link)).is_err()
        })
        .collect()
    }

    /// The MTU of a port's interface, if it exists.
    pub(super) fn mtu(&self, port: &PortConfig) -> Option<u32> {
        Some(self.handle.link(&port.attached_interface()).ok()?.mtu)
    }

    /// The link state of a port's interface.
    pub(super) fn presence(&self, port: &PortConfig) -> control::LinkState {
        control::LinkState::of(self.handle.link(&port.attached_interface()).ok().as_ref())
    }

    /// Abilities of an interface's driver. Before 6.3 the kernel does not report them: all are
    /// assumed, and attaching fails where one is missing.
    pub(super) fn ability(&self, interface: &str) -> Result<Ability> {
        let driver = self.ethtool.driver(interface).map(|driver| driver.name).unwrap_or_default();
        let features = xdp::features(&self.handle, interface)?;
        let can = |feature: fn(&XdpFeatures) -> bool| features.as_ref().is_none_or(feature);
        Ok(Ability {
            driver,
            programs: can(|features| features.basic),
            redirect: can(|features| features.redirect),
            transmit: can(|features| features.ndo_xmit),
            running: self.handle.link(interface)?.xdp_program().map(|program| program.mode),
            start_polling: None,
        })
    }
}

/// A locally administered address of one station.
fn random_address() -> MacAddress {
    let [first, rest @ ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
    MacAddress([first & 0xfc | 2, rest[0], rest[1], rest[2], rest[3], rest[4]])
}

fn running(attachment: &XdpAttachment) -> RunningProgram {
    let mode = match attachment.mode {
        XdpMode::Native => Some(Mode::Native),
        XdpMode::Generic => Some(Mode::Generic),
        XdpMode::Offload => None,
    };
    RunningProgram { program: attachment.program_id, mode }
}

/// The data plane's description of a port.
pub(super) fn spec(port: &PortConfig, link: &Link, mode: Mode, queues: ReceiveQueues) -> PortSpec {
    PortSpec {
        name: port.name.clone(),
        interface: link.name.clone(),
        ifindex: link.index,
        mode,
        queues,
        running: link.xdp.iter().map(running).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use onbeat_netdev::Namespace;
    use onbeat_testing::{Feature, TemporaryDirectory, require_all};

    use onbeat_netdev::Handle;

    use super::*;
    use crate::config::Config;

    mod second_change;

    /// Runs in a new network namespace, with the directory of a control socket.
    fn in_namespace(name: &str, test: impl FnOnce(&Path) + Send) {
        if !require_all(&[Feature::Root, Feature::Veth]) {
            return;
        }
        let directory = TemporaryDirectory::new(&format!("run-{name}"));
        Namespace::new().unwrap().run(|| test(&directory.file("a.sock"))).unwrap();
    }

    fn port() -> PortConfig {
        let text = "[node]\nname = \"nh\"\n[[port]]\nname = \"host\"\ninterface = \"tsn0\"\n\
                    create = \"veth\"\nmtu = 1400\n";
        Config::parse(text, "a.toml").unwrap().ports.remove(0)
    }

    /// Features that are on, and whether an interface is up, with its MTU.
    fn state(devices: &Devices, interface: &str) -> (Vec<String>, bool, u32) {
        let link = devices.handle.link(interface).unwrap();
        let features = devices.ethtool.features(interface).unwrap().into_iter();
        let on = features.filter(|feature| feature.active).map(|feature| feature.name).collect();
        (on, link.up, link.mtu)
    }

    fn create_pair(handle: &Handle) {
        handle.create_veth(&VethEnd::new("tsn0"), &VethEnd::new("tsn0-frer")).unwrap();
    }

    #[test]
    fn a_veth_pair_that_another_node_uses_is_not_changed() {
        in_namespace("held", |control| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let mut other = Devices::open("other").unwrap();
            other.lock(&other.handle.link("tsn0-frer").unwrap()).unwrap();
            let states = |devices: &Devices| ["tsn0", "tsn0-frer"].map(|end| state(devices, end));
            let before = states(&devices);
            let mut journal = Journal::open(control, "nh").unwrap();
            let error = devices.prepare(&port(), &mut journal).unwrap_err().to_string();
            assert!(error.contains("node \"other\""), "{error}");
            assert_eq!(states(&devices), before);
            assert!(journal.is_empty());
        });
    }

    #[test]
    fn changes_of_a_veth_pair_that_the_node_did_not_make_are_undone() {
        in_namespace("found", |control| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let states = |devices: &Devices| ["tsn0", "tsn0-frer"].map(|end| state(devices, end));
            let before = states(&devices);
            let mut journal = Journal::open(control, "nh").unwrap();
            for _ in 0..2 {
                devices.prepare(&port(), &mut journal).unwrap();
                let [(on, up, mtu), (_, _, other_mtu)] = states(&devices);
                assert!(up && (mtu, other_mtu) == (1400, 1400));
                for (feature, wanted) in PAIR_OFFLOADS {
                    assert_eq!(on.iter().any(|on| on == feature), wanted, "{feature}");
                }
            }
            // As the next process has it.
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            // They were down, and stay up.
            let restored = before.map(|(on, up, mtu)| (on, !up, mtu));
            assert_eq!(states(&devices), restored);
            assert!(restored.iter().all(|(_, up, _)| *up));
            assert!(!Journal::exists(control).unwrap());
        });
    }

    #[test]
    fn a_veth_pair_that_the_node_made_is_removed() {
        in_namespace("made", |control| {
            let mut devices = Devices::open("nh").unwrap();
            let mut journal = Journal::open(control, "nh").unwrap();
            devices.prepare(&port(), &mut journal).unwrap();
            assert_eq!(state(&devices, "tsn0").2, 1400);
            devices.prepare(&port(), &mut journal).unwrap();
            assert_eq!(journal.restore_all(&mut devices).unwrap(), Vec::<String>::new());
            assert!(devices.handle.link("tsn0").unwrap_err().is_not_found());
        });
    }

    #[test]
    fn a_veth_pair_that_the_node_made_has_the_address_of_the_file() {
        in_namespace("mac", |control| {
            let mut devices = Devices::open("nh").unwrap();
            let mut journal = Journal::open(control, "nh").unwrap();
            let mac = Some(MacAddress([2, 0, 0, 0, 0, 7]));
            devices.prepare(&PortConfig { mac, ..port() }, &mut journal).unwrap();
            assert_eq!(devices.handle.link("tsn0").unwrap().mac, mac);
        });
    }

    /// The address type of an interface that udev leaves alone: `NET_ADDR_SET`.
    #[test]
    fn the_addresses_of_a_veth_pair_that_the_node_made_are_not_the_kernel_s() {
        in_namespace("address", |control| {
            let mut devices = Devices::open("nh").unwrap();
            devices.prepare(&port(), &mut Journal::open(control, "nh").unwrap()).unwrap();
            let assigned =
                |end| fs::read_to_string(format!("/sys/class/net/{end}/addr_assign_type"));
            let read = || ["tsn0", "tsn0-frer"].map(|end| assigned(end).unwrap());
            let types = devices.handle.namespace().run_with_sysfs(read).unwrap();
            assert_eq!(types, ["3\n", "3\n"]);
        });
    }

    /// Replaces text of the journal, as if an earlier process had written it.
    fn edit_journal(control: &Path, edit: impl Fn(&mut serde_json::Value)) {
        let path = control.with_file_name("a.sock.node-journal");
        let mut journal = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        edit(&mut journal);
        fs::write(&path, journal.to_string()).unwrap();
    }

    fn restore(control: &Path, devices: &mut Devices) -> Vec<String> {
        Journal::open(control, "nh").unwrap().restore_all(devices).unwrap()
    }

    /// The namespace of a killed node was removed, and another one has its inode: interfaces with the
    /// indices and names of the node's are other ones.
    #[test]
    fn interfaces_of_another_namespace_with_the_same_inode_are_not_changed() {
        in_namespace("inode", |control| {
            let mut devices = Devices::open("nh").unwrap();
            let mut journal = Journal::open(control, "nh").unwrap();
            devices.prepare(&port(), &mut journal).unwrap();
            devices.handle.create_veth(&VethEnd::new("x"), &VethEnd::new("y")).unwrap();
            journal.changing_mtu(&devices.handle, &devices.handle.link("x").unwrap()).unwrap();
            devices.handle.set_mtu("x", 9000).unwrap();
            let cookie = devices.handle.cookie().unwrap();
            let edit_cookies = |cookie: u64| {
                edit_journal(control, |journal| {
                    for name in ["tsn0", "x"] {
                        journal["content"]["identity"][name]["cookie"] = cookie.into();
                    }
                });
            };
            edit_cookies(cookie + 1);
            let failures = restore(control, &mut devices);
            assert_eq!(failures.len(), 2, "{failures:?}");
            for failure in failures {
                assert!(failure.contains("no longer exists"), "{failure}");
            }
            assert_eq!(devices.handle.link("x").unwrap().mtu, 9000);
            devices.handle.link("tsn0").unwrap();
            edit_cookies(cookie);
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            assert_eq!(devices.handle.link("x").unwrap().mtu, 1500);
            assert!(devices.handle.link("tsn0").unwrap_err().is_not_found());
        });
    }

    #[test]
    fn a_renamed_interface_is_restored_and_another_one_with_its_index_is_not() {
        in_namespace("renamed", |control| {
            let mut devices = Devices::open("nh").unwrap();
            let mut journal = Journal::open(control, "nh").unwrap();
            devices.prepare(&port(), &mut journal).unwrap();
            let address = devices.handle.link("tsn0").unwrap().mac.unwrap();
            devices.handle.rename("tsn0", "other").unwrap();
            devices.handle.set_mac("other", MacAddress([2, 0, 0, 0, 0, 7])).unwrap();
            let failures = restore(control, &mut devices);
            assert!(failures[0].contains("instead of"), "{failures:?}");
            devices.handle.set_mac("other", address).unwrap();
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            assert!(devices.handle.link("other").unwrap_err().is_not_found());
        });
    }

    #[test]
    fn a_journal_of_the_former_version_is_used_where_inode_index_and_name_agree() {
        in_namespace("former", |control| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let mut journal = Journal::open(control, "nh").unwrap();
            let link = devices.handle.link("tsn0").unwrap();
            journal.changing_mtu(&devices.handle, &link).unwrap();
            devices.handle.set_mtu("tsn0", 9000).unwrap();
            edit_journal(control, |journal| {
                let (namespace, index) = (devices.handle.namespace().inode(), link.index);
                let former = serde_json::json!({ "namespace": namespace, "index": index });
                journal["content"]["identity"]["tsn0"] = former;
            });
            devices.handle.rename("tsn0", "other").unwrap();
            let failures = restore(control, &mut devices);
            assert!(failures[0].contains("\"other\" with another name"), "{failures:?}");
            assert_eq!(devices.handle.link("other").unwrap().mtu, 9000);
            devices.handle.rename("other", "tsn0").unwrap();
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            assert_eq!(devices.handle.link("tsn0").unwrap().mtu, 1500);
        });
    }

    #[test]
    fn changes_of_an_interface_that_was_moved_to_another_namespace_stay_in_the_journal() {
        in_namespace("moved", |control| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let mut journal = Journal::open(control, "nh").unwrap();
            devices.prepare(&port(), &mut journal).unwrap();
            let elsewhere = Handle::in_namespace(&Namespace::new().unwrap()).unwrap();
            devices.handle.move_to("tsn0-frer", elsewhere.namespace()).unwrap();
            let failures = restore(control, &mut devices);
            let [failure] = &failures[..] else { panic!("{failures:?}") };
            for words in ["\"tsn0-frer\" not restored", "of network namespace", "move it back"] {
                assert!(failure.contains(words), "{failure}");
            }
            assert_eq!(elsewhere.link("tsn0-frer").unwrap().mtu, 1400);
            elsewhere.move_to("tsn0-frer", devices.handle.namespace()).unwrap();
            assert_eq!(restore(control, &mut devices), Vec::<String>::new());
            assert_eq!(devices.handle.link("tsn0-frer").unwrap().mtu, 1500);
            assert!(!Journal::exists(control).unwrap());
        });
    }

    /// The driver of a macvlan refuses the address of the interface below it.
    #[test]
    fn an_interface_that_its_driver_does_not_set_up_is_away() {
        in_namespace("refused", |control| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let address = devices.handle.link("tsn0").unwrap().mac.unwrap();
            let macvlan = format!("link add link tsn0 name path1 address {address} type macvlan");
            let added = Command::new("ip").args(macvlan.split(' ')).status().unwrap();
            assert!(added.success(), "ip {macvlan}");
            let text = "[node]\nname = \"nh\"\n[[port]]\nname = \"p\"\ninterface = \"path1\"\n";
            let port = Config::parse(text, "a.toml").unwrap().ports.remove(0);
            let mut journal = Journal::open(control, "nh").unwrap();
            devices.handle.set_up("tsn0").unwrap();
            let error = devices.prepare(&port, &mut journal).unwrap_err();
            assert!(matches!(error, Error::NotUp { .. }) && error.is_away(), "{error}");
            assert!(error.to_string().contains("EADDRINUSE"), "{error}");
            devices.handle.set_mac("tsn0", random_address()).unwrap();
            assert!(devices.prepare(&port, &mut journal).unwrap().up);
        });
    }

    #[test]
    fn two_interfaces_that_are_not_one_pair_are_refused() {
        in_namespace("two", |control| {
            let mut devices = Devices::open("nh").unwrap();
            for (end, other) in [("tsn0", "x"), ("tsn0-frer", "y")] {
                devices.handle.create_veth(&VethEnd::new(end), &VethEnd::new(other)).unwrap();
            }
            let before = state(&devices, "tsn0");
            let mut journal = Journal::open(control, "nh").unwrap();
            let error = devices.prepare(&port(), &mut journal).unwrap_err();
            assert!(matches!(&error, Error::NotOnePair { .. }), "{error}");
            assert_eq!(state(&devices, "tsn0"), before);
        });
    }

    #[test]
    fn the_lock_on_an_interface_that_is_gone_is_released() {
        in_namespace("gone", |_| {
            let mut devices = Devices::open("nh").unwrap();
            create_pair(&devices.handle);
            let (gone, stays) = (devices.handle.link("tsn0").unwrap(), "lo");
            let stays = devices.handle.link(stays).unwrap();
            devices.lock(&gone).unwrap();
            devices.lock(&stays).unwrap();
            devices.handle.delete("tsn0").unwrap();
            devices.release_gone();
            let mut other = Devices::open("other").unwrap();
            other.lock(&gone).unwrap();
            other.lock(&stays).unwrap_err();
        });
    }
}

//! Interfaces made ready for the data plane.

use onbeat_frer_xdp::{Mode, PortSpec, Running};
use onbeat_host::InterfaceLock;
use onbeat_netdev::xdp::{self, XdpFeatures};
use onbeat_netdev::{Ethtool, Handle, Link, VethEnd, XdpAttachment, XdpMode};

use super::error::{Error, Result};
use super::journal::Journal;
use super::mode::Ability;
use crate::config::{PortConfig, Promiscuous};
use crate::control;

/// The offload that takes VLAN tags off received frames, by the kernel's name.
pub(super) const RX_VLAN: &str = "rx-vlan-hw-parse";

/// The tools that work on interfaces, and the interfaces that this node has for itself.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) handle: Handle,
    pub(super) ethtool: Ethtool,
    /// As other processes see the node.
    node: String,
    locks: Vec<InterfaceLock>,
}

impl Devices {
    /// For the node of this name.
    pub(super) fn open(node: &str) -> Result<Self> {
        let (handle, ethtool) = (Handle::open()?, Ethtool::open()?);
        Ok(Self { handle, ethtool, node: format!("node {node:?}"), locks: Vec::new() })
    }

    fn namespace(&self) -> u64 {
        self.handle.namespace().inode()
    }

    /// Locks an interface for this node, which may have it already.
    pub(super) fn lock(&mut self, link: &Link) -> onbeat_host::Result<()> {
        let namespace = self.namespace();
        if !self.locks.iter().any(|lock| lock.is_of(namespace, link.index)) {
            let lock = InterfaceLock::take(namespace, link.index, &link.name, &self.node)?;
            self.locks.push(lock);
        }
        Ok(())
    }

    /// Releases all interfaces but those of these ports.
    pub(super) fn release_others(&mut self, ports: &[PortConfig]) {
        let index = |port: &PortConfig| self.handle.index(&port.attached_interface()).ok();
        let indices: Vec<u32> = ports.iter().filter_map(index).collect();
        let namespace = self.namespace();
        self.locks.retain(|lock| indices.iter().any(|index| lock.is_of(namespace, *index)));
    }

    /// Makes and sets what the configuration says of a port's interface, and writes to the journal
    /// what was there before.
    pub(super) fn prepare(&mut self, port: &PortConfig, journal: &mut Journal) -> Result<Link> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        if port.create.is_some() {
            self.create(port, journal)?;
        }
        let name = port.attached_interface();
        let link = self.handle.link(&name).map_err(of_port)?;
        self.lock(&link).map_err(|source| Error::InUse { port: port.name.clone(), source })?;
        let namespace = self.namespace();
        if let Some(mtu) = port.mtu.filter(|mtu| *mtu != link.mtu) {
            for end in ends(port) {
                if port.create.is_none() {
                    journal.changing_mtu(namespace, &link)?;
                }
                self.handle.set_mtu(&end, mtu).map_err(of_port)?;
            }
        }
        let filters = link.kind.as_deref() != Some("veth");
        let wanted = match port.promiscuous {
            Promiscuous::Auto => filters,
            Promiscuous::Yes => true,
            Promiscuous::No => false,
        };
        if wanted && !link.promiscuous {
            journal.changing_promiscuous(namespace, &link)?;
            self.handle.set_promiscuous(&name, true).map_err(of_port)?;
        }
        // A NIC that takes VLAN tags off hides them from programs in the driver.
        if self.ethtool.feature(&name, RX_VLAN).unwrap_or(false) && filters {
            self.turn_off(journal, &link, RX_VLAN)?;
        }
        self.handle.set_up(&name).map_err(of_port)?;
        self.handle.link(&name).map_err(of_port)
    }

    /// A veth pair: one end for programs on this machine, the other for the data plane.
    fn create(&self, port: &PortConfig, journal: &mut Journal) -> Result<()> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        let (theirs, ours) = (port.interface.as_str(), port.attached_interface());
        match self.handle.link(theirs) {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {
                journal.creating(theirs)?;
                self.handle
                    .create_veth(&VethEnd::new(theirs), &VethEnd::new(&ours))
                    .map_err(of_port)?;
                let made = self.handle.link(theirs).map_err(of_port)?;
                journal.created(self.namespace(), &made)?;
            }
            Err(error) => return Err(of_port(error)),
        }
        self.handle.set_up(theirs).map_err(of_port)?;
        // Programs' frames leave the machine as they are: nothing behind a veth makes checksums or
        // cuts segments. And redirection to a veth needs the other end to run NAPI.
        let wanted = [
            ("tx-checksum-ip-generic", false),
            ("tx-tcp-segmentation", false),
            ("tx-tcp6-segmentation", false),
            ("tx-generic-segmentation", false),
            ("tx-udp-segmentation", false),
            ("tx-vlan-offload", false),
            ("gro", true),
        ];
        for (name, on) in wanted {
            if let Err(error) = self.ethtool.set_features(theirs, &[(name, on)]) {
                tracing::debug!("{theirs}: {name} stays: {error}");
            }
        }
        Ok(())
    }

    fn turn_off(&self, journal: &mut Journal, link: &Link, feature: &str) -> Result<()> {
        let before = self.ethtool.features(&link.name)?;
        let before = before.iter().filter(|known| known.name == feature);
        let before = before.map(|known| (known.name.as_str(), known.requested));
        journal.changing_features(self.namespace(), link, before)?;
        if let Err(error) = self.ethtool.set_features(&link.name, &[(feature, false)]) {
            tracing::warn!("{}: {feature} stays: {error}", link.name);
        }
        Ok(())
    }

    /// The MTU of a port's interface, where it is there.
    pub(super) fn mtu(&self, port: &PortConfig) -> Option<u32> {
        Some(self.handle.link(&port.attached_interface()).ok()?.mtu)
    }

    /// Whether frames can go through a port's interface.
    pub(super) fn presence(&self, port: &PortConfig) -> control::Link {
        control::Link::of(self.handle.link(&port.attached_interface()).ok().as_ref())
    }

    /// What an interface's driver can do; where the kernel does not say (before 6.3), the attach
    /// will tell.
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
        })
    }
}

/// The interfaces of a port.
fn ends(port: &PortConfig) -> Vec<String> {
    let attached = port.attached_interface();
    if port.create.is_some() { vec![attached, port.interface.clone()] } else { vec![attached] }
}

fn running(attachment: &XdpAttachment) -> Running {
    let mode = match attachment.mode {
        XdpMode::Native => Some(Mode::Native),
        XdpMode::Generic => Some(Mode::Generic),
        XdpMode::Offload => None,
    };
    Running { program: attachment.program_id, mode }
}

/// The data plane's description of a port.
pub(super) fn spec(port: &PortConfig, link: &Link, mode: Mode) -> PortSpec {
    PortSpec {
        name: port.name.clone(),
        interface: link.name.clone(),
        ifindex: link.index,
        mode,
        running: link.xdp.iter().map(running).collect(),
    }
}

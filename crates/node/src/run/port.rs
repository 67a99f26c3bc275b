//! Interfaces made ready for the data plane.

use onbeat_frer_xdp::{Mode, PortSpec, Running};
use onbeat_netdev::xdp::{self, XdpFeatures};
use onbeat_netdev::{Ethtool, Handle, Link, VethEnd, XdpAttachment, XdpMode};

use super::error::{Error, Result};
use super::journal::Journal;
use super::mode::Ability;
use crate::config::{PortConfig, Promiscuous};
use crate::control;

/// The tools that work on interfaces.
#[derive(Debug)]
pub(super) struct Devices {
    pub(super) handle: Handle,
    pub(super) ethtool: Ethtool,
}

impl Devices {
    pub(super) fn open() -> Result<Self> {
        Ok(Self { handle: Handle::open()?, ethtool: Ethtool::open()? })
    }

    /// Makes and sets what the configuration says of a port's interface, writing down what was.
    pub(super) fn prepare(&self, port: &PortConfig, journal: &mut Journal) -> Result<Link> {
        let of_port = |source| Error::Port { port: port.name.clone(), source };
        if port.create.is_some() {
            self.create(port, journal)?;
        }
        let name = port.attached_interface();
        let link = self.handle.link(&name).map_err(of_port)?;
        if let Some(mtu) = port.mtu.filter(|mtu| *mtu != link.mtu) {
            for end in ends(port) {
                let before = self.handle.link(&end).map_err(of_port)?.mtu;
                if port.create.is_none() {
                    journal.changes.mtu.entry(end.clone()).or_insert(before);
                    journal.save()?;
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
            journal.changes.promiscuous.push(name.clone());
            journal.save()?;
            self.handle.set_promiscuous(&name, true).map_err(of_port)?;
        }
        // A NIC that takes VLAN tags off hides them from programs in the driver.
        if self.ethtool.feature(&name, "rx-vlan-offload").unwrap_or(false) && filters {
            self.set_feature(journal, &name, "rx-vlan-offload", false);
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
                journal.changes.created.push(theirs.to_string());
                journal.save()?;
                self.handle
                    .create_veth(&VethEnd::new(theirs), &VethEnd::new(&ours))
                    .map_err(of_port)?;
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

    fn set_feature(&self, journal: &mut Journal, interface: &str, name: &str, on: bool) {
        match self.ethtool.set_features(interface, &[(name, on)]) {
            Ok(change) => {
                let before = journal.changes.features.entry(interface.to_string()).or_default();
                for (name, on) in change.undo() {
                    before.entry(name.to_string()).or_insert(on);
                }
                if let Err(error) = journal.save() {
                    tracing::warn!("{error}");
                }
            }
            Err(error) => tracing::warn!("{interface}: {name} stays: {error}"),
        }
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

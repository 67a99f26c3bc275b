//! Frames of a PRP node and the network stack of its LAN interfaces.

use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::ProgramMut;
use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};
use crate::pin::PinDirectory;

onbeat_bpf::bpf_skeleton!(lans_skeleton, "lans.skel.rs");

/// Loads bpf/lans.bpf.c for these interfaces.
fn load(host: u32, lans: [u32; 2]) -> Result<Object> {
    use lans_skeleton::types::rodata;
    Object::load(bpf_object!("lans.bpf.o"), "the programs of LAN interfaces", |object| {
        object.set_constants(&[
            (offset_of!(rodata, host_ifindex), &host.to_ne_bytes()),
            (offset_of!(rodata, lan_a_ifindex), &lans[0].to_ne_bytes()),
            (offset_of!(rodata, lan_b_ifindex), &lans[1].to_ne_bytes()),
        ]);
        Ok(())
    })
}

fn attach(object: &Object, program: &str, interface: u32) -> Result<Link> {
    Link::tcx_ingress(object.program(program).as_fd(), interface).context(|| {
        format!("attach a program to the tc ingress of interface {interface} (requires Linux 6.6)")
    })
}

/// Drops multicast frames with a PRP trailer at the tc ingress of interfaces: packet sockets have delivered them to the
/// host. The program is removed with this process.
#[derive(Debug)]
pub struct Shield {
    object: Object,
    links: Vec<(u32, Link)>,
}

impl Shield {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self> {
        Ok(Self { object: load(0, [0; 2])?, links: Vec::new() })
    }

    /// Attaches the program to these interfaces, and detaches it from all others.
    ///
    /// # Errors
    /// The kernel has no tcx (before Linux 6.6), or refuses.
    pub fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<()> {
        self.links.retain(|(interface, _)| interfaces.contains(interface));
        for interface in interfaces {
            if !self.links.iter().any(|(known, _)| known == interface) {
                self.links.push((*interface, attach(&self.object, "prp_shield", *interface)?));
            }
        }
        Ok(())
    }
}

/// The interfaces of a node whose frames XDP programs process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LanSpec {
    /// Of the port towards the host.
    pub(crate) host: u32,
    /// `None`: it is missing.
    pub(crate) lans: [Option<u32>; 2],
    /// Whether frames of the host arrive with a trailer, and their copies are to be sent.
    pub(crate) sends_copies: bool,
}

/// Programs for frames that XDP programs passed to network stacks, by the names of their pins: the LANs, and the port
/// towards the host.
const PINNED: [(&str, &str); 3] =
    [("share_a", "prp_share"), ("share_b", "prp_share"), ("copies", "prp_copies")];

/// Returns whether a node pins a link of this name at the tc ingress of an interface.
pub(crate) fn is_tc_link(name: &str) -> bool {
    PINNED.iter().any(|(pin, _)| *pin == name)
}

/// Programs for frames that XDP programs passed to network stacks. Pinned ones outlive this process.
#[derive(Debug)]
pub(crate) struct LanPrograms {
    spec: LanSpec,
    _object: Object,
    /// Keep the programs attached if no pin does.
    _links: Vec<Link>,
}

impl LanPrograms {
    /// Loads and attaches the programs, or replaces those of an earlier process.
    pub(crate) fn open(spec: LanSpec, directory: Option<&PinDirectory>) -> Result<Self> {
        let object = load(spec.host, spec.lans.map(Option::unwrap_or_default))?;
        let [a, b] = spec.lans;
        let interfaces = [a, b, spec.sends_copies.then_some(spec.host)];
        let mut links = Vec::new();
        for ((pin, program), interface) in PINNED.into_iter().zip(interfaces) {
            let pinned = match directory {
                Some(directory) => directory.open_tc_link(pin)?,
                None => None,
            };
            match (pinned, interface) {
                (Some(link), Some(interface))
                    if link.info().is_ok_and(|info| info.ifindex == interface) =>
                {
                    let replaced = link.update(object.program(program).as_fd());
                    replaced.context(|| format!("replace the program of pin {pin}"))?;
                }
                (pinned, interface) => {
                    if let (Some(_), Some(directory)) = (pinned, directory) {
                        directory.detach_tc_link(pin)?;
                    }
                    let Some(interface) = interface else { continue };
                    let mut link = attach(&object, program, interface)?;
                    if let Some(directory) = directory {
                        let pinned = link.pin(&directory.tc_link(pin));
                        pinned.context(|| format!("pin the link {pin}"))?;
                    }
                    links.push(link);
                }
            }
        }
        Ok(Self { spec, _object: object, _links: links })
    }

    /// Detaches the programs, also those of an earlier process.
    pub(crate) fn remove(directory: Option<&PinDirectory>) -> Result<()> {
        let Some(directory) = directory else { return Ok(()) };
        PINNED.iter().try_for_each(|(pin, _)| directory.detach_tc_link(pin))
    }

    /// Returns the interfaces.
    pub(crate) fn spec(&self) -> LanSpec {
        self.spec
    }
}

/// Access for tests: the programs of interfaces, attached to none.
#[doc(hidden)]
#[derive(Debug)]
pub struct UnattachedLanPrograms(Object);

impl UnattachedLanPrograms {
    /// Loads the programs for these interfaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn load(host: u32, lans: [u32; 2]) -> Result<Self> {
        Ok(Self(load(host, lans)?))
    }

    /// Returns the program of this name.
    #[must_use]
    pub fn program(&self, name: &str) -> ProgramMut<'_> {
        self.0.program(name)
    }

    /// Attaches the program of this name to the tc ingress of an interface.
    ///
    /// # Errors
    /// The kernel has no tcx (before Linux 6.6), or refuses.
    pub fn attach(&self, name: &str, interface: u32) -> Result<Link> {
        attach(&self.0, name, interface)
    }
}

//! Frames of a PRP node and the network stack of its LAN interfaces.

use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::ProgramMut;
use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};
use crate::pin::PinDirectory;

onbeat_bpf::bpf_skeleton!(lans_skeleton, "lans.skel.rs");

/// Loads bpf/lans.bpf.c.
fn load() -> Result<Object> {
    Object::load(bpf_object!("lans.bpf.o"), "the programs of LAN interfaces", |_| Ok(()))
}

/// Sets the interfaces of its programs.
fn set_interfaces(object: &Object, host: u32, lans: [u32; 2]) -> Result<()> {
    use lans_skeleton::types::bss;
    let set = object.set_variables(&[
        (offset_of!(bss, host_ifindex), &host.to_ne_bytes()),
        (offset_of!(bss, lan_a_ifindex), &lans[0].to_ne_bytes()),
        (offset_of!(bss, lan_b_ifindex), &lans[1].to_ne_bytes()),
    ]);
    set.context(|| "set the interfaces of the LAN programs".to_owned())
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
        Ok(Self { object: load()?, links: Vec::new() })
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

/// The programs at the LANs and at the port towards the host, by the names of their pins.
const PLACES: [(&str, &str); 3] =
    [("share_a", "prp_share"), ("share_b", "prp_share"), ("copies", "prp_copies")];

/// Returns whether a node pins a link of this name at the tc ingress of an interface.
pub(crate) fn is_tc_link(name: &str) -> bool {
    PLACES.iter().any(|(pin, _)| *pin == name)
}

/// Programs for frames that XDP programs passed to network stacks. Pinned ones outlive this process.
#[derive(Debug)]
pub(crate) struct LanPrograms {
    object: Object,
    /// Interface and link of each place.
    links: [Option<(u32, Link)>; 3],
    /// Whether links of an earlier process are adopted, or detached.
    is_set: bool,
}

impl LanPrograms {
    /// Loads the programs.
    pub(crate) fn open() -> Result<Self> {
        Ok(Self { object: load()?, links: [const { None }; 3], is_set: false })
    }

    /// Attaches the programs to these interfaces, and detaches them from all others, also those of an earlier process.
    pub(crate) fn set(&mut self, spec: LanSpec, directory: Option<&PinDirectory>) -> Result<()> {
        set_interfaces(&self.object, spec.host, spec.lans.map(Option::unwrap_or_default))?;
        let [a, b] = spec.lans;
        let wanted = [a, b, spec.sends_copies.then_some(spec.host)];
        for (place, interface) in wanted.into_iter().enumerate() {
            // An attached program runs on: attached again, both would share a frame.
            let attached = self.links[place].as_ref().map(|(interface, _)| *interface);
            if !self.is_set || attached != interface {
                self.links[place] = None;
                self.links[place] = self.place(place, interface, directory)?;
            }
        }
        self.is_set = true;
        Ok(())
    }

    fn place(
        &self,
        place: usize,
        interface: Option<u32>,
        directory: Option<&PinDirectory>,
    ) -> Result<Option<(u32, Link)>> {
        let (pin, program) = PLACES[place];
        if let Some(directory) = directory {
            if let (Some(link), Some(interface)) = (directory.open_tc_link(pin)?, interface) {
                if link.info().is_ok_and(|info| info.ifindex == interface) {
                    link.update(self.object.program(program).as_fd())
                        .context(|| format!("replace the program of link {pin}"))?;
                    return Ok(Some((interface, link)));
                }
            }
            directory.detach_tc_link(pin)?;
        }
        let Some(interface) = interface else { return Ok(None) };
        let mut link = attach(&self.object, program, interface)?;
        if let Some(directory) = directory {
            link.pin(&directory.tc_link(pin)).context(|| format!("pin link {pin}"))?;
        }
        Ok(Some((interface, link)))
    }

    /// Detaches the programs of an earlier process.
    pub(crate) fn remove(directory: &PinDirectory) -> Result<()> {
        PLACES.iter().try_for_each(|(pin, _)| directory.detach_tc_link(pin))
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
        let object = load()?;
        set_interfaces(&object, host, lans)?;
        Ok(Self(object))
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

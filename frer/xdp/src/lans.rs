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
fn set_interfaces(object: &Object, spec: LanSpec) -> Result<()> {
    use lans_skeleton::types::bss;
    let [lan_a, lan_b] = spec.lans.map(|lan| lan.map_or(0, |lan| lan.ifindex).to_ne_bytes());
    let accepting = |lan: Lan| if lan.is_generic { lan.ifindex } else { 0 };
    let [accepting_a, accepting_b] = spec.lans.map(|lan| lan.map_or(0, accepting).to_ne_bytes());
    let set = object.set_variables(&[
        (offset_of!(bss, host_ifindex), &spec.host.to_ne_bytes()),
        (offset_of!(bss, lan_a_ifindex), &lan_a),
        (offset_of!(bss, lan_b_ifindex), &lan_b),
        (offset_of!(bss, accepting_a_ifindex), &accepting_a),
        (offset_of!(bss, accepting_b_ifindex), &accepting_b),
    ]);
    set.context(|| "set the interfaces of the LAN programs".to_owned())
}

fn attach(object: &Object, program: &str, interface: u32) -> Result<Link> {
    let program = object.program(program);
    Link::first_tcx_ingress(program.as_fd(), interface).context(|| attaching(interface))
}

fn attaching(interface: u32) -> String {
    format!("attach a program to the tc ingress of interface {interface} (requires Linux 6.6)")
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

/// A LAN's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lan {
    pub(crate) ifindex: u32,
    /// Whether XDP runs in generic mode there: accepted frames arrive at the tc ingress.
    pub(crate) is_generic: bool,
}

/// The interfaces of a node whose frames XDP programs process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LanSpec {
    /// Of the port towards the host.
    pub(crate) host: u32,
    /// `None`: it is missing.
    pub(crate) lans: [Option<Lan>; 2],
    /// Whether frames of the host arrive with a trailer, and their copies are to be sent.
    pub(crate) sends_copies: bool,
}

/// The pins of links at the tc ingress of LAN A, LAN B and the port towards the host, and their programs.
const LINKS: [(&str, &str); 3] =
    [("share_a", "prp_share"), ("share_b", "prp_share"), ("copies", "prp_copies")];

/// Returns whether a node pins a link of this name at the tc ingress of an interface.
pub(crate) fn is_tc_link(name: &str) -> bool {
    LINKS.iter().any(|(pin, _)| *pin == name)
}

/// Programs for frames that XDP programs passed to network stacks. Pinned ones outlive this process.
#[derive(Debug)]
pub(crate) struct LanPrograms {
    object: Object,
    links: [Option<Link>; 3],
}

impl LanPrograms {
    /// Loads the programs.
    pub(crate) fn open() -> Result<Self> {
        Ok(Self { object: load()?, links: [const { None }; 3] })
    }

    /// Attaches the programs to these interfaces, and detaches them from all others, also those of an earlier process.
    /// A link that another process detached is attached again.
    pub(crate) fn set(&mut self, spec: LanSpec, directory: Option<&PinDirectory>) -> Result<()> {
        set_interfaces(&self.object, spec)?;
        let [a, b] = spec.lans.map(|lan| lan.map(|lan| lan.ifindex));
        let wanted = [a, b, spec.sends_copies.then_some(spec.host)];
        // First of all: two programs on one interface would both share a frame.
        let mut result = Ok(());
        for (number, wanted) in wanted.iter().enumerate() {
            result = result.and(self.detach_other(number, *wanted, directory));
        }
        // An interface that is missing does not keep the others from their programs.
        for (number, wanted) in wanted.iter().enumerate() {
            if let (None, Some(interface)) = (&self.links[number], wanted) {
                result = result.and(self.attach(number, *interface, directory));
            }
        }
        result
    }

    /// Keeps or adopts a link of this interface, and detaches any other.
    fn detach_other(
        &mut self,
        number: usize,
        wanted: Option<u32>,
        directory: Option<&PinDirectory>,
    ) -> Result<()> {
        let (pin, program) = LINKS[number];
        let interface = |link: &Link| link.info().map_or(0, |info| info.ifindex);
        if let Some(link) = &self.links[number] {
            if Some(interface(link)) == wanted {
                return Ok(());
            }
            self.links[number] = None;
        } else if let Some(link) = directory.map(|of| of.open_tc_link(pin)).transpose()?.flatten() {
            // The number of an interface is that of another one in another network namespace.
            let runs = |ifindex| {
                let info = link.info()?;
                let programs = Link::at_tcx_ingress(ifindex)?;
                std::io::Result::Ok(info.ifindex == ifindex && programs.contains(&info.program))
            };
            if wanted.is_some_and(|ifindex| runs(ifindex).unwrap_or(false)) {
                link.update(self.object.program(program).as_fd())
                    .context(|| format!("replace the program of link {pin}"))?;
                self.links[number] = Some(link);
                return Ok(());
            }
        }
        directory.map_or(Ok(()), |directory| directory.detach_tc_link(pin))
    }

    fn attach(
        &mut self,
        number: usize,
        interface: u32,
        directory: Option<&PinDirectory>,
    ) -> Result<()> {
        let (pin, program) = LINKS[number];
        let program = self.object.program(program);
        let mut link = match Link::first_tcx_ingress(program.as_fd(), interface) {
            // It is missing. Its return attaches the program.
            Err(error) if error.raw_os_error() == Some(nix::libc::ENODEV) => return Ok(()),
            attached => attached.context(|| attaching(interface))?,
        };
        if let Some(directory) = directory {
            link.pin(&directory.link_path(pin)).context(|| format!("pin link {pin}"))?;
        }
        self.links[number] = Some(link);
        Ok(())
    }

    /// Detaches the programs of an earlier process.
    pub(crate) fn remove(directory: &PinDirectory) -> Result<()> {
        LINKS.iter().try_for_each(|(pin, _)| directory.detach_tc_link(pin))
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
        let lans = lans.map(|ifindex| Some(Lan { ifindex, is_generic: true }));
        set_interfaces(&object, LanSpec { host, lans, sends_copies: true })?;
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

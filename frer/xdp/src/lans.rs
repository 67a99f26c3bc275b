//! Frames of a PRP node and the network stack of its LAN interfaces.

use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::ProgramMut;
use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};

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

/// Programs for frames that XDP programs passed to network stacks.
#[derive(Debug)]
pub(crate) struct LanPrograms {
    spec: LanSpec,
    _object: Object,
    _links: Vec<Link>,
}

impl LanPrograms {
    /// Loads and attaches the programs.
    pub(crate) fn open(spec: LanSpec) -> Result<Self> {
        let object = load(spec.host, spec.lans.map(Option::unwrap_or_default))?;
        let lans = spec.lans.into_iter().flatten();
        let mut links: Vec<_> =
            lans.map(|lan| attach(&object, "prp_share", lan)).collect::<Result<_>>()?;
        if spec.sends_copies {
            links.push(attach(&object, "prp_copies", spec.host)?);
        }
        Ok(Self { spec, _object: object, _links: links })
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

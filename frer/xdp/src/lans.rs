//! Frames of a PRP node and the network stack of its LAN interfaces.

use std::mem::offset_of;
use std::os::fd::AsFd;

use libbpf_rs::ProgramMut;
use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};

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

const PRP_SHIELD: &str = "prp_shield";
const PRP_SHARE: &str = "prp_share";
const PRP_COPIES: &str = "prp_copies";

/// A program at the tc ingress of an interface.
#[derive(Debug)]
struct AttachedProgram {
    program: &'static str,
    interface: u32,
    _link: Link,
}

/// Attaches programs to interfaces, and detaches all others. An attached one runs on.
fn attach_only(
    object: &Object,
    attached: &mut Vec<AttachedProgram>,
    wanted: &[(&'static str, u32)],
) -> Result<()> {
    attached.retain(|link| wanted.contains(&(link.program, link.interface)));
    for &(program, interface) in wanted {
        let is_this =
            |link: &AttachedProgram| (link.program, link.interface) == (program, interface);
        if !attached.iter().any(is_this) {
            let _link = attach(object, program, interface)?;
            attached.push(AttachedProgram { program, interface, _link });
        }
    }
    Ok(())
}

/// Drops multicast frames with a PRP trailer at the tc ingress of interfaces: packet sockets have delivered them to the
/// host. The program is removed with this process.
#[derive(Debug)]
pub struct Shield {
    object: Object,
    links: Vec<AttachedProgram>,
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
        let wanted: Vec<_> = interfaces.iter().map(|interface| (PRP_SHIELD, *interface)).collect();
        attach_only(&self.object, &mut self.links, &wanted)
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
    object: Object,
    links: Vec<AttachedProgram>,
}

impl LanPrograms {
    /// Loads the programs.
    pub(crate) fn open() -> Result<Self> {
        Ok(Self { object: load()?, links: Vec::new() })
    }

    /// Attaches the programs to these interfaces, and detaches them from all others.
    pub(crate) fn set(&mut self, spec: LanSpec) -> Result<()> {
        set_interfaces(&self.object, spec.host, spec.lans.map(Option::unwrap_or_default))?;
        let lans = spec.lans.into_iter().flatten().map(|lan| (PRP_SHARE, lan));
        let host = spec.sends_copies.then_some((PRP_COPIES, spec.host));
        attach_only(&self.object, &mut self.links, &lans.chain(host).collect::<Vec<_>>())
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

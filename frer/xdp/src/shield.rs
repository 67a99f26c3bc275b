//! Frames of a PRP node and the network stack of its LAN interfaces.

use std::mem::offset_of;
use std::os::fd::AsFd;

use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};

onbeat_bpf::bpf_skeleton!(shield_skeleton, "shield.skel.rs");

/// A program of bpf/shield.bpf.c at the tc ingress of interfaces. It is removed with this process.
#[derive(Debug)]
struct LanProgram {
    object: Object,
    name: &'static str,
    links: Vec<(u32, Link)>,
}

impl LanProgram {
    fn open(name: &'static str, host_ifindex: u32) -> Result<Self> {
        use shield_skeleton::types::rodata;
        let object: Result<Object> =
            Object::load(bpf_object!("shield.bpf.o"), "the program of LAN interfaces", |object| {
                let host = host_ifindex.to_ne_bytes();
                object.set_constants(&[(offset_of!(rodata, host_ifindex), &host)]);
                Ok(())
            });
        Ok(Self { object: object?, name, links: Vec::new() })
    }

    fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<()> {
        self.links.retain(|(interface, _)| interfaces.contains(interface));
        for interface in interfaces {
            if self.links.iter().any(|(known, _)| known == interface) {
                continue;
            }
            let link = Link::tcx_ingress(self.object.program(self.name).as_fd(), *interface);
            let link = link.context(|| {
                format!("attach a program to the tc ingress of interface {interface} (requires Linux 6.6)")
            })?;
            self.links.push((*interface, link));
        }
        Ok(())
    }
}

/// Drops multicast frames with a PRP trailer: packet sockets have delivered them to the host.
#[derive(Debug)]
pub struct Shield(LanProgram);

impl Shield {
    /// Loads the program.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self> {
        LanProgram::open("prp_shield", 0).map(Self)
    }

    /// Attaches the program to these interfaces, and detaches it from all others.
    ///
    /// # Errors
    /// The kernel has no tcx (before Linux 6.6), or refuses.
    pub fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<()> {
        self.0.set_interfaces(interfaces)
    }
}

/// Delivers multicast frames without a PRP trailer also to the host, where XDP programs process the frames of a node.
#[derive(Debug)]
pub(crate) struct Share {
    program: LanProgram,
    host: u32,
}

impl Share {
    /// Loads the program for this interface of the port towards the host.
    pub(crate) fn open(host: u32) -> Result<Self> {
        Ok(Self { program: LanProgram::open("prp_share", host)?, host })
    }

    /// Returns the interface.
    pub(crate) fn host(&self) -> u32 {
        self.host
    }

    /// Attaches the program to these interfaces, and detaches it from all others.
    pub(crate) fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<()> {
        self.program.set_interfaces(interfaces)
    }
}

//! Keeps frames of a PRP node from the network stack of its LAN interfaces.

use std::os::fd::AsFd;

use onbeat_bpf::{Link, Object, bpf_object};

use crate::error::{Context, Result};

/// Drops multicast frames with a PRP trailer at the tc ingress of interfaces: bpf/shield.bpf.c. It is removed with this
/// process.
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
        let object: Result<Object> =
            Object::load(bpf_object!("shield.bpf.o"), "the program of LAN interfaces", |_| Ok(()));
        Ok(Self { object: object?, links: Vec::new() })
    }

    /// Attaches the program to these interfaces, and detaches it from all others.
    ///
    /// # Errors
    /// The kernel has no tcx (before Linux 6.6), or refuses.
    pub fn set_interfaces(&mut self, interfaces: &[u32]) -> Result<()> {
        self.links.retain(|(interface, _)| interfaces.contains(interface));
        for interface in interfaces {
            if self.links.iter().any(|(known, _)| known == interface) {
                continue;
            }
            let link = Link::tcx_ingress(self.object.program("prp_shield").as_fd(), *interface);
            let link = link.context(|| {
                format!("attach a program to the tc ingress of interface {interface} (requires Linux 6.6)")
            })?;
            self.links.push((*interface, link));
        }
        Ok(())
    }
}

//! Attaches the programs to their tracepoints.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use onbeat_bpf::{Object, ProgramInfo};

use super::ON_SOCK_CREATE;
use crate::error::{Error, Result};

/// The attached programs, by name.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<String, Link>,
}

/// A program at its tracepoint, or one that was attached before.
#[derive(Debug, Default)]
struct Link {
    held: Option<onbeat_bpf::Link>,
    /// The kernel's id of it; 0: it was never attached.
    id: u32,
}

impl Links {
    /// Attaches those programs of an object that are loaded and wanted, and not attached yet.
    pub(super) fn attach(
        &mut self,
        object: &Object,
        group: Option<&OwnedFd>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        for program in object.programs() {
            let name = program.name().to_string_lossy().into_owned();
            if wanted(&name) {
                let failed = |error: io::Error| {
                    Error::kernel(format!("attach the ledger's {name}"), error.into())
                };
                let link = self.links.entry(name.clone()).or_default();
                if name == ON_SOCK_CREATE {
                    // Within a control group's namespace this may be refused: the walks over open files find the
                    // owners of new sockets, later.
                    let _ = link.attach(program.as_fd(), group);
                } else {
                    link.attach(program.as_fd(), None).map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Detaches programs that are not wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let unwanted = self.links.iter_mut().filter(|(name, _)| !wanted(name));
        unwanted.for_each(|(_, link)| link.held = None);
    }

    /// The attached programs.
    pub(super) fn attached(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter(|(_, link)| link.held.is_some()).map(|(name, _)| name.as_str())
    }
}

impl Link {
    /// At its tracepoint, or in a control group.
    fn attach(&mut self, program: BorrowedFd<'_>, group: Option<&OwnedFd>) -> io::Result<()> {
        if self.held.is_none() {
            // A process that was forked meanwhile may still hold the link: with a second one the program would
            // run twice.
            let link = match self.id {
                0 => None,
                id => open(id, program),
            };
            let create = || match group {
                Some(group) => onbeat_bpf::Link::socket_creation(program, group.as_fd()),
                None => onbeat_bpf::Link::tracepoint(program),
            };
            let link = link.map_or_else(create, Ok)?;
            self.id = link.info()?.id;
            self.held = Some(link);
        }
        Ok(())
    }
}

/// The link with this id, if it belongs to this program: the kernel reuses ids.
fn open(id: u32, program: BorrowedFd<'_>) -> Option<onbeat_bpf::Link> {
    let link = onbeat_bpf::Link::by_id(id).ok()?;
    let of = link.info().ok()?.program;
    (of == ProgramInfo::of(program).ok()?.id).then_some(link)
}

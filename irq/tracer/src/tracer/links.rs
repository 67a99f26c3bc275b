//! The programs at their tracepoints.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys as sys;

use crate::error::{Error, Result};

/// Which programs are attached, by name.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<String, Link>,
}

/// A program at its tracepoint, or one that was there.
#[derive(Debug, Default)]
struct Link {
    held: Option<OwnedFd>,
    /// The kernel's number of it; 0: it was never attached.
    id: u32,
}

impl Links {
    /// Attaches those programs of an object that are loaded and wanted, and are not attached yet.
    pub(super) fn attach(&mut self, object: &Object, wanted: impl Fn(&str) -> bool) -> Result<()> {
        for program in object.progs().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            if wanted(&name) {
                let failed = |error: io::Error| {
                    Error::kernel(format!("attach the ledger's {name}"), error.into())
                };
                self.links
                    .entry(name.clone())
                    .or_default()
                    .attach(program.as_fd())
                    .map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Detaches those that are not wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let unwanted = self.links.iter_mut().filter(|(name, _)| !wanted(name));
        unwanted.for_each(|(_, link)| link.held = None);
    }

    /// The programs that are attached.
    pub(super) fn attached(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter(|(_, link)| link.held.is_some()).map(|(name, _)| name.as_str())
    }
}

impl Link {
    fn attach(&mut self, program: BorrowedFd<'_>) -> io::Result<()> {
        if self.held.is_none() {
            // A process that was forked meanwhile may hold it still: a second one would have the
            // program run twice.
            let link = match open(self.id, program) {
                Some(link) => link,
                None => create(program)?,
            };
            self.id = info(link.as_fd())?.id;
            self.held = Some(link);
        }
        Ok(())
    }
}

fn create(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: an open descriptor, and no options.
    owned(unsafe {
        sys::bpf_link_create(program.as_raw_fd(), 0, sys::BPF_TRACE_RAW_TP, std::ptr::null())
    })
}

/// The link of this number, if it is one of this program: numbers are used again.
fn open(id: u32, program: BorrowedFd<'_>) -> Option<OwnedFd> {
    if id == 0 {
        return None;
    }
    // SAFETY: it takes a number only.
    let link = owned(unsafe { sys::bpf_link_get_fd_by_id(id) }).ok()?;
    let of = info(link.as_fd()).ok()?.prog_id;
    (of == program_id(program).ok()?).then_some(link)
}

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn info(link: BorrowedFd<'_>) -> io::Result<sys::bpf_link_info> {
    let mut info = sys::bpf_link_info::default();
    let mut length = size_of::<sys::bpf_link_info>() as u32;
    // SAFETY: `info` is as long as `length` says, and asks for nothing to be written elsewhere.
    let code =
        unsafe { sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length) };
    if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(info) }
}

fn program_id(program: BorrowedFd<'_>) -> io::Result<u32> {
    let mut info = sys::bpf_prog_info::default();
    let mut length = size_of::<sys::bpf_prog_info>() as u32;
    // SAFETY: as above.
    let code = unsafe {
        sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    };
    if code < 0 { Err(io::Error::from_raw_os_error(-code)) } else { Ok(info.id) }
}

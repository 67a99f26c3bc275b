//! Entries of an iterator program over one process.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::PlainData;

/// Octets per read: the kernel's walk for them is not interrupted.
const READ: usize = 4096;

/// Reads the entries that an iterator program over tasks, or files of tasks, writes for one process (Linux 6.1). `each`
/// returns whether to go on. A process that has ended has none.
///
/// # Errors
/// The kernel refuses.
pub fn entries_of_process<T: PlainData>(
    program: BorrowedFd<'_>,
    pid: u32,
    mut each: impl FnMut(&T) -> bool,
) -> io::Result<()> {
    let mut info = sys::bpf_iter_link_info {
        task: sys::bpf_iter_link_info__bindgen_ty_3 { pid, ..Default::default() },
    };
    let options = sys::bpf_link_create_opts {
        sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
        iter_info: &raw mut info,
        iter_info_len: size_of_val(&info) as u32,
        ..Default::default()
    };
    // SAFETY: the program is open; both structures outlive the call.
    let link = unsafe {
        sys::bpf_link_create(program.as_raw_fd(), 0, sys::BPF_TRACE_ITER, &raw const options)
    };
    let link = match owned(link) {
        Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => return Ok(()),
        link => link?,
    };
    // SAFETY: the link is open.
    let iterator = owned(unsafe { sys::bpf_iter_create(link.as_fd().as_raw_fd()) })?;
    let (mut iterator, mut rest) = (File::from(iterator), Vec::new());
    loop {
        let mut octets = [0; READ];
        match iterator.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(length) => rest.extend_from_slice(&octets[..length]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        let entries = rest.chunks_exact(size_of::<T>());
        let whole = entries.len() * size_of::<T>();
        if !entries.filter_map(T::from_octets).all(|entry| each(&entry)) {
            return Ok(());
        }
        rest.drain(..whole);
    }
}

/// Returns a new descriptor, or the error that libbpf returned.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just opened it, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

//! How programs run on interfaces, and whose they are.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use onbeat_bpf::{Link, ProgramInfo};
use onbeat_frer::dataplane::Mode;

/// The kernel's flag for a mode.
pub(crate) fn flag(mode: Mode) -> u32 {
    match mode {
        Mode::Native => sys::XDP_FLAGS_DRV_MODE,
        Mode::Generic => sys::XDP_FLAGS_SKB_MODE,
    }
}

/// What /proc shows of the object pinned at `path`: its class and type. The kernel's other
/// interfaces work for one class of object each. Empty where nothing is pinned.
pub(crate) fn pinned_object(path: &Path) -> io::Result<String> {
    let Some(object) = Link::open(path)? else {
        return Ok(String::new());
    };
    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_fd().as_raw_fd()))
}

/// Name of a loaded program, in quotes.
pub(crate) fn program_name(id: u32) -> String {
    let info = ProgramInfo::by_id(id);
    info.map_or_else(|_| "of unknown name".to_string(), |info| format!("{:?}", info.name))
}

/// Whether a loaded program is that of a node's data plane in the kernel, of any node.
#[must_use]
pub fn forwards(program: u32) -> bool {
    ProgramInfo::by_id(program).is_ok_and(|info| info.name == "frer_ingress")
}

/// Takes a program that no link holds off an interface.
pub(crate) fn detach_unlinked(ifindex: u32, mode: Mode) -> io::Result<()> {
    // SAFETY: no pointers but null options.
    match unsafe { sys::bpf_xdp_detach(ifindex as i32, flag(mode), std::ptr::null()) } {
        code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
        _ => Ok(()),
    }
}

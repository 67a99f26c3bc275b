//! XDP modes and attached programs of interfaces.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use onbeat_bpf::{Link, ProgramInfo};
use onbeat_frer::dataplane::Mode;

use crate::programs::is_ingress;

/// Returns the kernel's flag for a mode.
pub(crate) fn flag(mode: Mode) -> u32 {
    match mode {
        Mode::Native => sys::XDP_FLAGS_DRV_MODE,
        Mode::Generic => sys::XDP_FLAGS_SKB_MODE,
    }
}

/// Returns the entry in /proc of the object pinned at `path`: its class and type. The kernel's other
/// interfaces cover one class of object each. Empty if nothing is pinned.
pub(crate) fn pinned_object(path: &Path) -> io::Result<String> {
    let Some(object) = Link::open(path)? else {
        return Ok(String::new());
    };
    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.as_fd().as_raw_fd()))
}

/// Returns the name of a loaded program, in quotes.
pub(crate) fn program_name(id: u32) -> String {
    let info = ProgramInfo::by_id(id);
    info.map_or_else(|_| "of unknown name".to_string(), |info| format!("{:?}", info.name))
}

/// Returns whether a loaded program belongs to the XDP data plane of any node.
#[must_use]
pub fn forwards(program: u32) -> bool {
    ProgramInfo::by_id(program).is_ok_and(|info| is_ingress(&info.name))
}

/// Detaches a program without a link from an interface.
pub(crate) fn detach_unlinked(ifindex: u32, mode: Mode) -> io::Result<()> {
    // SAFETY: no pointers but null options.
    match unsafe { sys::bpf_xdp_detach(ifindex as i32, flag(mode), std::ptr::null()) } {
        code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
        _ => Ok(()),
    }
}

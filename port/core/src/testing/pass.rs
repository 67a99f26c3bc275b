//! An XDP program that passes every frame.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;
use onbeat_netdev::{Handle, Namespace, XdpMode};

use crate::Result;
use crate::error::failed;
use crate::xsk::{create_link, owned};

/// An XDP program on an interface, in native mode, that passes every frame to the network stack.
///
/// The other end of a veth needs one: a veth takes frames that a program sends ([`crate::XdpPort`]'s
/// answers) only where its receiving end runs a program too. It is gone with the value, however the
/// process ends.
#[derive(Debug)]
pub struct PassProgram {
    _link: OwnedFd,
}

impl PassProgram {
    /// The program's name.
    pub const NAME: &str = "onbeat_pass";

    /// Puts the program on an interface of `namespace`.
    ///
    /// # Errors
    /// Where the interface is not there, has a program, or the driver has no native mode; where the
    /// caller lacks CAP_BPF or CAP_NET_ADMIN.
    pub fn attach(namespace: &Namespace, interface: &str) -> Result<Self> {
        let index = Handle::in_namespace(namespace)?.index(interface)?;
        let program = load().map_err(failed(interface, "load an XDP program"))?;
        let link = namespace.run(|| create_link(program.as_raw_fd(), index, XdpMode::Native))?;
        Ok(Self { _link: link.map_err(failed(interface, "attach an XDP program"))? })
    }
}

fn load() -> io::Result<OwnedFd> {
    let instruction =
        |code: u32, imm| sys::bpf_insn { code: code as u8, imm, ..Default::default() };
    let program = [
        instruction(sys::BPF_ALU64 | sys::BPF_MOV | sys::BPF_K, sys::XDP_PASS as i32),
        instruction(sys::BPF_JMP | sys::BPF_EXIT, 0),
    ];
    let name = std::ffi::CString::new(PassProgram::NAME)?;
    // SAFETY: strings and instructions outlive the call; there are no options.
    owned(unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_XDP,
            name.as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            std::ptr::null_mut(),
        )
    })
}

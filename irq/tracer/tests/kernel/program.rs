//! XDP programs of another project, on the receiving interface.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys as sys;

use crate::harness::World;

/// Opcode, registers (source and destination), offset, immediate.
pub(crate) type Instruction = (u8, u8, i16, i32);

/// A program that returns `verdict`.
pub(crate) fn returns(verdict: i32) -> Vec<Instruction> {
    vec![(0xb7, 0, 0, verdict), (0x95, 0, 0, 0)]
}

pub(crate) fn load(program: &[Instruction]) -> OwnedFd {
    let code: Vec<sys::bpf_insn> = program
        .iter()
        .map(|&(code, registers, off, imm)| {
            let mut instruction = sys::bpf_insn { code, off, imm, ..Default::default() };
            instruction.set_dst_reg(registers & 0xf);
            instruction.set_src_reg(registers >> 4);
            instruction
        })
        .collect();
    // SAFETY: instructions, name and licence outlive the call.
    owned(unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_XDP,
            c"test".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as u64,
            std::ptr::null_mut(),
        )
    })
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel just returned this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// How a program is attached in native mode.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Attach {
    Link,
    Netlink,
}

impl Attach {
    /// Attaches to r0, until the result is dropped or the world.
    pub(crate) fn to(self, world: &World, program: &OwnedFd) -> Option<OwnedFd> {
        let index = world.receiver.index("r0").unwrap() as i32;
        let program = program.as_raw_fd();
        let flags = sys::XDP_FLAGS_DRV_MODE;
        let attach = || match self {
            Self::Link => {
                let options = sys::bpf_link_create_opts {
                    sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
                    flags,
                    ..Default::default()
                };
                // SAFETY: an open descriptor, and options that outlive the call.
                Some(owned(unsafe {
                    sys::bpf_link_create(program, index, sys::BPF_XDP, &raw const options)
                }))
            }
            Self::Netlink => {
                // SAFETY: an open descriptor and numbers.
                let code = unsafe { sys::bpf_xdp_attach(index, program, flags, std::ptr::null()) };
                assert_eq!(code, 0);
                None
            }
        };
        world.receiver.namespace().run(attach).unwrap()
    }
}

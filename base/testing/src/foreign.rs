//! XDP programs of another application.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_rs::libbpf_sys as sys;
use onbeat_bpf::Link;
use onbeat_netdev::{Handle, Namespace, XdpMode};

/// Opcode, registers (source in the upper four bits, destination in the lower), offset, immediate.
pub type Instruction = (u8, u8, i16, i32);

/// The method of attaching a program to its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMethod {
    /// To the interface, like `ip link set dev ... xdp`: until [`ForeignProgram::detach`].
    Interface,
    /// By a link, like libraries do: until the [`ForeignProgram`] is dropped.
    Link,
}

/// An XDP program on an interface that belongs to neither the product nor the kernel. Errors are panics.
#[derive(Debug)]
pub struct ForeignProgram {
    /// The id of the program.
    pub id: u32,
    interface: u32,
    hold: AttachMethod,
    flags: u32,
    _program: OwnedFd,
    _link: Option<Link>,
}

impl ForeignProgram {
    /// Its name in the kernel.
    pub const NAME: &str = "stranger";
    /// Verdict: the frame is dropped.
    pub const DROP: i32 = sys::XDP_DROP as i32;
    /// Verdict: the frame is passed to the network stack.
    pub const PASS: i32 = sys::XDP_PASS as i32;

    /// Returns the code of a program that returns `verdict` for each frame.
    #[must_use]
    pub fn returns(verdict: i32) -> [Instruction; 2] {
        [(0xb7, 0, 0, verdict), (0x95, 0, 0, 0)]
    }

    /// Attaches a program that passes every frame to an interface without one.
    ///
    /// # Panics
    /// It cannot be loaded or attached.
    #[must_use]
    pub fn attach(handle: &Handle, interface: &str, hold: AttachMethod, mode: XdpMode) -> Self {
        Self::attach_code(handle, interface, hold, mode, &Self::returns(Self::PASS))
    }

    /// Lets the far end of a veth pair receive frames that a program sends: this requires a program there
    /// too.
    ///
    /// # Panics
    /// As [`ForeignProgram::attach`].
    #[must_use]
    pub fn pass(namespace: &Namespace, interface: &str) -> Self {
        let handle = Handle::in_namespace(namespace).expect("enter the namespace");
        Self::attach(&handle, interface, AttachMethod::Link, XdpMode::Native)
    }

    /// Attaches a program of this code.
    ///
    /// # Panics
    /// Those of [`ForeignProgram::attach`]; the verifier refuses the code.
    #[must_use]
    pub fn attach_code(
        handle: &Handle,
        interface: &str,
        hold: AttachMethod,
        mode: XdpMode,
        code: &[Instruction],
    ) -> Self {
        let index = handle.index(interface).expect("an interface of this name");
        let program = load(code);
        let flags = match mode {
            XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
            _ => sys::XDP_FLAGS_DRV_MODE,
        };
        let link = handle.namespace().run(|| match hold {
            AttachMethod::Interface => {
                let fd = program.as_raw_fd();
                // SAFETY: an open descriptor and no options.
                let code = unsafe { sys::bpf_xdp_attach(index as i32, fd, flags, ptr::null()) };
                assert_eq!(code, 0, "{}", std::io::Error::from_raw_os_error(-code));
                None
            }
            AttachMethod::Link => Some(Link::xdp(program.as_fd(), index, flags).expect("a link")),
        });
        let attached = handle.link(interface).expect("the interface").xdp_program();
        let id = attached.expect("its program").program_id;
        let link = link.expect("enter the namespace");
        Self { id, interface: index, hold, flags, _program: program, _link: link }
    }

    /// Detaches it.
    ///
    /// # Panics
    /// The kernel refuses.
    pub fn detach(self, handle: &Handle) {
        if self.hold == AttachMethod::Interface {
            let index = self.interface as i32;
            // SAFETY: no options.
            let detach = || unsafe { sys::bpf_xdp_detach(index, self.flags, ptr::null()) };
            assert_eq!(handle.namespace().run(detach).expect("enter the namespace"), 0);
        }
    }
}

fn load(code: &[Instruction]) -> OwnedFd {
    let instruction = |&(code, registers, off, imm): &Instruction| {
        let mut instruction = sys::bpf_insn { code, off, imm, ..Default::default() };
        instruction.set_dst_reg(registers & 0xf);
        instruction.set_src_reg(registers >> 4);
        instruction
    };
    let code: Vec<_> = code.iter().map(instruction).collect();
    let name = std::ffi::CString::new(ForeignProgram::NAME).expect("a name without NUL");
    // SAFETY: instructions, name and license outlive the call.
    let fd = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_XDP,
            name.as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr(),
            code.len() as sys::size_t,
            ptr::null_mut(),
        )
    };
    assert!(fd >= 0, "load a program: {}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel returned this new descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

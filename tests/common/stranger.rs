//! An XDP program of another application.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use libbpf_rs::libbpf_sys as sys;
use onbeat_netdev::{Handle, XdpMode};

/// How the other program is held on its interface.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hold {
    /// By the interface, as `ip link set dev ... xdp` does.
    Interface,
    /// By a link, as libraries do nowadays.
    Link,
}

/// A program that lets every frame pass.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) id: u32,
    hold: Hold,
    /// Flags of its mode.
    mode: u32,
    _program: OwnedFd,
    _link: Option<OwnedFd>,
}

fn owned(fd: i32, what: &str) -> OwnedFd {
    assert!(fd >= 0, "{what}: {}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel just gave us this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The XDP program that runs on an interface.
pub(crate) fn xdp_program(handle: &Handle, interface: &str) -> Option<u32> {
    let link = handle.link(interface).unwrap();
    link.xdp_program().map(|program| program.program_id)
}

impl Stranger {
    /// Its name in the kernel.
    pub(crate) const NAME: &str = "stranger";

    fn load() -> OwnedFd {
        // r0 = XDP_PASS; exit
        let instructions = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let instructions: [u64; 2] = instructions.map(u64::from_le_bytes);
        let name = std::ffi::CString::new(Self::NAME).unwrap();
        // SAFETY: the strings and the instructions outlive the call; an instruction has 8 octets.
        owned(
            unsafe {
                sys::bpf_prog_load(
                    sys::BPF_PROG_TYPE_XDP,
                    name.as_ptr(),
                    c"GPL".as_ptr(),
                    instructions.as_ptr().cast(),
                    2,
                    ptr::null_mut(),
                )
            },
            "load a program",
        )
    }

    /// Attaches it to an interface without a program.
    pub(crate) fn attach(handle: &Handle, interface: &str, hold: Hold, mode: XdpMode) -> Stranger {
        let index = handle.index(interface).unwrap();
        let program = Self::load();
        let fd = program.as_raw_fd();
        let mode = match mode {
            XdpMode::Generic => sys::XDP_FLAGS_SKB_MODE,
            _ => sys::XDP_FLAGS_DRV_MODE,
        };
        let link = handle.namespace().run(|| match hold {
            Hold::Interface => {
                // SAFETY: an open descriptor and no options.
                let code = unsafe { sys::bpf_xdp_attach(index as i32, fd, mode, ptr::null()) };
                assert_eq!(code, 0);
                None
            }
            Hold::Link => {
                let options = sys::bpf_link_create_opts {
                    sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
                    flags: mode,
                    ..Default::default()
                };
                // SAFETY: an open descriptor, and options that outlive the call.
                let fd = unsafe { sys::bpf_link_create(fd, index as i32, sys::BPF_XDP, &options) };
                Some(owned(fd, "attach a program by a link"))
            }
        });
        let id = xdp_program(handle, interface).expect("its program");
        Stranger { id, hold, mode, _program: program, _link: link.unwrap() }
    }

    /// Detaches it.
    pub(crate) fn detach(self, handle: &Handle, interface: &str) {
        let index = handle.index(interface).unwrap();
        if let Hold::Interface = self.hold {
            // SAFETY: no options.
            let code = handle
                .namespace()
                .run(|| unsafe { sys::bpf_xdp_detach(index as i32, self.mode, ptr::null()) });
            assert_eq!(code.unwrap(), 0);
        }
    }
}

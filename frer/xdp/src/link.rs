//! XDP links: a program's hold on an interface, kept alive by a pin in the BPF file system.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{Error, ErrorKind, Result};

/// How a program runs on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel makes a socket buffer.
    Native,
    /// In the network stack, where the driver cannot.
    Generic,
}

impl Mode {
    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Generic => "generic",
        }
    }

    fn flag(self) -> u32 {
        match self {
            Mode::Native => sys::XDP_FLAGS_DRV_MODE,
            Mode::Generic => sys::XDP_FLAGS_SKB_MODE,
        }
    }
}

/// A link between a program and an interface.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// What the kernel says of a link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkInfo {
    /// The linked program.
    pub(crate) program: u32,
    /// The interface; 0 once that is gone.
    pub(crate) ifindex: u32,
}

fn last(code: i32) -> Result<i32> {
    if code < 0 { Err(Error::from_raw_os_error(-code)) } else { Ok(code) }
}

fn path_of(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::from_raw_os_error(libc::EINVAL))
}

impl Link {
    /// Attaches a program to an interface that has none.
    pub(crate) fn create(program: BorrowedFd<'_>, ifindex: u32, mode: Mode) -> Result<Self> {
        let options = sys::bpf_link_create_opts {
            sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
            flags: mode.flag(),
            ..Default::default()
        };
        // SAFETY: the program's descriptor is open and `options` outlives the call.
        let fd = last(unsafe {
            sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, sys::BPF_XDP, &options)
        })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The link pinned at `path`; `None` where nothing is.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        let path = path_of(path)?;
        // SAFETY: a C string that outlives the call.
        let fd = match last(unsafe { sys::bpf_obj_get(path.as_ptr()) }) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            fd => fd?,
        };
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Some(Self(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The link with this id.
    fn by_id(id: u32) -> Result<Self> {
        // SAFETY: no pointers.
        let fd = last(unsafe { sys::bpf_link_get_fd_by_id(id) })?;
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The XDP link that holds a program, if a link does.
    pub(crate) fn holding(program: u32) -> Option<Self> {
        let mut id = 0;
        loop {
            // SAFETY: `id` is a valid place for the answer.
            if unsafe { sys::bpf_link_get_next_id(id, &mut id) } != 0 {
                return None;
            }
            match Self::by_id(id).and_then(|link| Ok((link.info()?, link))) {
                Ok((info, link)) if info.program == program && info.ifindex != 0 => {
                    return Some(link);
                }
                _ => {}
            }
        }
    }

    /// Lets a file in the BPF file system hold the link.
    pub(crate) fn pin(&self, path: &Path) -> Result<()> {
        let path = path_of(path)?;
        // SAFETY: an open descriptor and a C string that outlive the call.
        last(unsafe { sys::bpf_obj_pin(self.0.as_raw_fd(), path.as_ptr()) }).map(drop)
    }

    /// Puts another program in place of the linked one; no frame sees neither.
    pub(crate) fn update(&self, program: BorrowedFd<'_>) -> Result<()> {
        // SAFETY: open descriptors; no options.
        last(unsafe {
            sys::bpf_link_update(self.0.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
        })
        .map(drop)
    }

    /// Takes the program off its interface, whoever holds the link.
    pub(crate) fn detach(&self) -> Result<()> {
        // SAFETY: an open descriptor.
        last(unsafe { sys::bpf_link_detach(self.0.as_raw_fd()) }).map(drop)
    }

    /// What the kernel says of it.
    pub(crate) fn info(&self) -> Result<LinkInfo> {
        let mut info = sys::bpf_link_info::default();
        let mut length = size_of::<sys::bpf_link_info>() as u32;
        // SAFETY: `info` is as long as `length` says, and any octets are a valid value of it.
        last(unsafe {
            sys::bpf_obj_get_info_by_fd(self.0.as_raw_fd(), (&raw mut info).cast(), &mut length)
        })?;
        let ifindex = if info.type_ == sys::BPF_LINK_TYPE_XDP {
            // SAFETY: the type says which member of the union is meant.
            unsafe { info.__bindgen_anon_1.xdp.ifindex }
        } else {
            0
        };
        Ok(LinkInfo { program: info.prog_id, ifindex })
    }
}

/// What /proc shows of the object pinned at `path`: its class and type. The kernel's other
/// interfaces work for one class of object each. Empty where nothing is pinned.
pub(crate) fn pinned_object(path: &Path) -> io::Result<String> {
    let Some(object) = Link::open(path).map_err(io::Error::other)? else {
        return Ok(String::new());
    };
    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", object.0.as_raw_fd()))
}

/// Name of a loaded program; its id where the name may not be read.
pub(crate) fn program_name(id: u32) -> String {
    libbpf_rs::Program::fd_from_id(id)
        .and_then(|fd| {
            let mut info = sys::bpf_prog_info::default();
            let mut length = size_of::<sys::bpf_prog_info>() as u32;
            // SAFETY: `info` is as long as `length` says, and any octets are a valid value of it.
            last(unsafe {
                sys::bpf_obj_get_info_by_fd(fd.as_raw_fd(), (&raw mut info).cast(), &mut length)
            })?;
            let octets = info.name.map(|c| c as u8);
            let end = octets.iter().position(|&c| c == 0).unwrap_or(octets.len());
            Ok(format!("{:?}", String::from_utf8_lossy(&octets[..end])))
        })
        .unwrap_or_else(|_| "of unknown name".to_string())
}

/// Whether a loaded program is that of a node's data plane in the kernel, of any node.
#[must_use]
pub fn forwards(program: u32) -> bool {
    program_name(program) == "\"frer_ingress\""
}

/// Takes a program that no link holds off an interface.
pub(crate) fn detach_unlinked(ifindex: u32, mode: Mode) -> Result<()> {
    // SAFETY: no pointers but null options.
    last(unsafe { sys::bpf_xdp_detach(ifindex as i32, mode.flag(), std::ptr::null()) }).map(drop)
}

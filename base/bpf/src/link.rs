//! Links: attachments of a program to an interface or a tracepoint. A created link ends when it is dropped,
//! unless it was pinned in the BPF file system.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libbpf_rs::libbpf_sys as sys;

use crate::program::{checked, owned};

/// A link between a program and its attachment point.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// Created here and not pinned.
    owned: bool,
}

/// Properties of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkInfo {
    /// The link id.
    pub id: u32,
    /// The id of its program.
    pub program: u32,
    /// The interface of an XDP or tcx link; 0 after its removal, and for other links.
    pub ifindex: u32,
}

impl Link {
    fn created(fd: OwnedFd) -> Self {
        Self { fd, owned: true }
    }

    fn opened(fd: OwnedFd) -> Self {
        Self { fd, owned: false }
    }

    /// Attaches an XDP program to an interface of the calling thread's network namespace that has none.
    /// `flags`: `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE`.
    ///
    /// # Errors
    /// EBUSY: another program runs there; EOPNOTSUPP: not in this mode; ENODEV, EPERM.
    pub fn xdp(program: BorrowedFd<'_>, ifindex: u32, flags: u32) -> io::Result<Self> {
        Self::create(program, ifindex, sys::BPF_XDP, flags)
    }

    /// Attaches a program to the tc ingress of an interface, after existing ones.
    ///
    /// # Errors
    /// EINVAL before Linux 6.6; ENODEV, EPERM.
    pub fn tcx_ingress(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<Self> {
        Self::create(program, ifindex, sys::BPF_TCX_INGRESS, 0)
    }

    /// Like [`Link::tcx_ingress`], before existing programs, whose verdict can be final.
    ///
    /// # Errors
    /// As there.
    pub fn first_tcx_ingress(program: BorrowedFd<'_>, ifindex: u32) -> io::Result<Self> {
        Self::create(program, ifindex, sys::BPF_TCX_INGRESS, sys::BPF_F_BEFORE)
    }

    /// Returns the ids of the programs at the tc ingress of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// EINVAL before Linux 6.6; ENODEV, EPERM.
    pub fn at_tcx_ingress(ifindex: u32) -> io::Result<Vec<u32>> {
        // The kernel permits 64.
        let mut ids = vec![0; 64];
        let mut count = ids.len() as u32;
        // SAFETY: `ids` has `count` elements, and `count` is a valid pointer; no attach flags are requested.
        checked(unsafe {
            sys::bpf_prog_query(
                ifindex as i32,
                sys::BPF_TCX_INGRESS,
                0,
                std::ptr::null_mut(),
                ids.as_mut_ptr(),
                &raw mut count,
            )
        })?;
        ids.truncate(count as usize);
        Ok(ids)
    }

    /// Attaches a program to the tracepoint that it was loaded for (`tp_btf`).
    ///
    /// # Errors
    /// EPERM.
    pub fn tracepoint(program: BorrowedFd<'_>) -> io::Result<Self> {
        Self::trace(program, sys::BPF_TRACE_RAW_TP)
    }

    /// Attaches a program to the start of the kernel's function that it was loaded for (`fentry`).
    ///
    /// # Errors
    /// EPERM; ENOTSUPP or EOPNOTSUPP: this kernel's functions cannot be traced.
    pub fn function_start(program: BorrowedFd<'_>) -> io::Result<Self> {
        Self::trace(program, sys::BPF_TRACE_FENTRY)
    }

    /// Attaches a program to the creation of sockets by the processes of a control group and those below it.
    ///
    /// # Errors
    /// EPERM; EINVAL: not a control group of version 2.
    pub fn socket_creation(program: BorrowedFd<'_>, group: BorrowedFd<'_>) -> io::Result<Self> {
        let target = group.as_raw_fd() as u32;
        Self::create(program, target, sys::BPF_CGROUP_INET_SOCK_CREATE, 0)
    }

    fn trace(program: BorrowedFd<'_>, kind: u32) -> io::Result<Self> {
        // SAFETY: an open descriptor, and no options.
        let fd = unsafe { sys::bpf_link_create(program.as_raw_fd(), 0, kind, std::ptr::null()) };
        owned(fd).map(Self::created)
    }

    fn create(program: BorrowedFd<'_>, ifindex: u32, kind: u32, flags: u32) -> io::Result<Self> {
        let options = sys::bpf_link_create_opts {
            sz: size_of::<sys::bpf_link_create_opts>() as sys::size_t,
            flags,
            ..Default::default()
        };
        // SAFETY: the program's descriptor is open and `options` outlives the call.
        let fd = unsafe {
            sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, kind, &raw const options)
        };
        owned(fd).map(Self::created)
    }

    /// Opens the link pinned at `path`; `None`: nothing is pinned there.
    ///
    /// # Errors
    /// The path cannot be read, or is not a BPF object.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let path = path_of(path)?;
        // SAFETY: a C string that outlives the call.
        match owned(unsafe { sys::bpf_obj_get(path.as_ptr()) }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            fd => Ok(Some(Self::opened(fd?))),
        }
    }

    /// Opens the link with this id.
    ///
    /// # Errors
    /// ENOENT; EPERM.
    pub fn by_id(id: u32) -> io::Result<Self> {
        // SAFETY: no pointers.
        owned(unsafe { sys::bpf_link_get_fd_by_id(id) }).map(Self::opened)
    }

    /// Returns the XDP link of a program, if it has one.
    #[must_use]
    pub fn holding(program: u32) -> Option<Self> {
        let mut id = 0;
        loop {
            // SAFETY: `id` is a valid pointer for the result.
            if unsafe { sys::bpf_link_get_next_id(id, &raw mut id) } != 0 {
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

    /// Pins the link in the BPF file system, where it outlives this value.
    ///
    /// # Errors
    /// EEXIST; the path is not in a BPF file system.
    pub fn pin(&mut self, path: &Path) -> io::Result<()> {
        let path = path_of(path)?;
        // SAFETY: an open descriptor and a C string that outlive the call.
        checked(unsafe { sys::bpf_obj_pin(self.fd.as_raw_fd(), path.as_ptr()) })?;
        self.owned = false;
        Ok(())
    }

    /// Replaces the linked program by another one; each frame is processed by one of them.
    ///
    /// # Errors
    /// EINVAL: a program of another type.
    pub fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: open descriptors; no options.
        let code = unsafe {
            sys::bpf_link_update(self.fd.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
        };
        checked(code).map(drop)
    }

    /// Detaches the program, also if other processes have the link open.
    ///
    /// # Errors
    /// This kind of link cannot be detached.
    pub fn detach(&self) -> io::Result<()> {
        // SAFETY: an open descriptor.
        checked(unsafe { sys::bpf_link_detach(self.fd.as_raw_fd()) }).map(drop)
    }

    /// Returns the properties of the link.
    ///
    /// # Errors
    /// The descriptor is not of a link: another object was pinned.
    pub fn info(&self) -> io::Result<LinkInfo> {
        let mut info = sys::bpf_link_info::default();
        let mut length = size_of::<sys::bpf_link_info>() as u32;
        // SAFETY: `info` is as long as `length` says, and any octets are a valid value of it.
        checked(unsafe {
            sys::bpf_link_get_info_by_fd(self.fd.as_raw_fd(), &raw mut info, &raw mut length)
        })?;
        let of_type = &info.__bindgen_anon_1;
        let ifindex = match info.type_ {
            // SAFETY: the type determines the active member of the union.
            sys::BPF_LINK_TYPE_XDP => unsafe { of_type.xdp.ifindex },
            // SAFETY: as above.
            sys::BPF_LINK_TYPE_TCX => unsafe { of_type.tcx.ifindex },
            _ => 0,
        };
        Ok(LinkInfo { id: info.id, program: info.prog_id, ifindex })
    }
}

impl Drop for Link {
    /// A child between `fork` and `exec` has the descriptor too: without this, the program would run until then.
    fn drop(&mut self) {
        if self.owned {
            // Links of tracepoints cannot be detached.
            let _ = self.detach();
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn path_of(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

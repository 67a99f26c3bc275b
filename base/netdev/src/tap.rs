//! TAP devices: Ethernet interfaces whose other end is this process.

use std::ffi::c_char;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;

use crate::{Error, Namespace, Result, check_name};

const DEVICE: &str = "/dev/net/tun";

/// An Ethernet interface of a namespace: this process receives the frames that the network stack sends, and
/// vice versa. The kernel removes it when the value is dropped or the process exits.
///
/// It neither blocks nor allocates memory.
#[derive(Debug)]
pub struct TapInterface(File);

/// Readable if there is a frame to receive.
impl AsFd for TapInterface {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl TapInterface {
    /// Creates an interface, which is down and has a random address.
    ///
    /// # Errors
    /// An interface of that name exists, the kernel has no TAP devices, or the caller lacks CAP_NET_ADMIN.
    pub fn create(namespace: &Namespace, name: &str) -> Result<Self> {
        check_name(name)?;
        // A descriptor belongs to the namespace of the thread that opens it.
        namespace.run(|| Self::create_here(name))?
    }

    fn create_here(name: &str) -> Result<Self> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENODEV) => Error::Unsupported {
                what: "a TAP device".into(),
                remedy: "load the module tun (modprobe tun), or use a kernel with CONFIG_TUN"
                    .into(),
            },
            _ => Error::io(format!("open {DEVICE}"), error),
        })?;
        let mut ifr_name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
        // check_name ensures room for the NUL.
        for (to, from) in ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as c_char;
        }
        let ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as i16;
        let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_flags };
        let mut request = libc::ifreq { ifr_name, ifr_ifru };
        // SAFETY: the descriptor is open, and `request` is the type of this ioctl.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        match Errno::result(result) {
            Ok(_) => Ok(Self(file)),
            Err(errno) => Err(Error::Kernel {
                operation: "create a TAP device".into(),
                interface: name.into(),
                errno,
                detail: (errno == Errno::EBUSY)
                    .then(|| "an interface of this name exists; use another name".into()),
            }),
        }
    }

    /// Receives a frame that the network stack sent, without FCS, into `buffer`; returns its length, if there
    /// is a frame.
    ///
    /// # Errors
    /// The interface is down or removed.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.0.read(buffer) {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an error of [`Self::receive`] means that the interface was removed: it never returns.
    #[must_use]
    pub fn is_removal(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EBADFD)
    }

    /// Passes a frame to the network stack, without FCS; returns whether it had room.
    ///
    /// # Errors
    /// The interface is down or removed, or the frame is invalid.
    pub fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        match self.0.write(frame) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

//! A lock on a name in a network namespace.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, Shutdown, SockFlag, SockType, UnixAddr, bind, connect, getsockopt,
    listen, shutdown, socket,
};
use nix::sys::stat::{fstat, stat};
use nix::unistd::geteuid;

use crate::error::failed;
use crate::{Error, Holder, Result};

/// Attempts while another process takes or releases the name, with a pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A lock on a name in a network namespace, between programs that do not share a directory, such as
/// containers on the network of the host.
///
/// It is an abstract Unix socket, whose name belongs to the network namespace. The kernel releases it
/// when the process exits. Any user can bind the name: a process of another user than root and this
/// one does not keep it from this process, which logs a warning and continues without the lock.
#[derive(Debug)]
pub struct NamespaceLock {
    socket: Option<OwnedFd>,
}

/// The state of a name that another socket has.
enum Occupant {
    /// The credentials of its owner.
    Process { uid: u32, pid: u32 },
    /// It accepts no connections, so that its owner is unknown.
    Unknown,
    /// It was released meanwhile.
    Gone,
}

impl NamespaceLock {
    /// Takes the lock without waiting. The name of the socket starts with `onbeat/`.
    ///
    /// # Errors
    /// [`Error::Locked`] with the process of root or of this user that has it; what the kernel
    /// refuses.
    pub fn take(namespace: &(impl AsFd + Sync), name: &str) -> Result<Self> {
        let name = format!("onbeat/{name}");
        // As ss shows it.
        let path = PathBuf::from(format!("@{name}"));
        let taken = inside(namespace.as_fd(), || take(&name));
        match taken.and_then(|taken| taken).map_err(failed(&path, "bind the socket"))? {
            Ok(socket) => Ok(Self { socket: Some(socket) }),
            Err(Occupant::Process { uid, pid }) if uid == 0 || uid == geteuid().as_raw() => {
                Err(Error::Locked { path, holder: Holder::of_pid(pid) })
            }
            Err(occupant) => {
                let owner = match occupant {
                    Occupant::Process { uid, pid } => {
                        format!("user {uid} ({})", Holder::of_pid(pid))
                    }
                    _ => "an unknown user, as it accepts no connections".to_owned(),
                };
                tracing::warn!(
                    "socket {path:?} belongs to {owner}: programs that do not share /run with this \
                     one are not excluded; find its process with: ss -xlp src {path:?}"
                );
                Ok(Self { socket: None })
            }
        }
    }

    /// Whether it excludes other programs.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.socket.is_some()
    }
}

/// Binds the name in the network namespace of this thread.
fn take(name: &str) -> nix::Result<std::result::Result<OwnedFd, Occupant>> {
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    let mut occupant = Occupant::Gone;
    for _ in 0..ATTEMPTS {
        let own = stream()?;
        match bind(own.as_raw_fd(), &address) {
            Ok(()) => {
                listen(&own, Backlog::MAXALLOWABLE)?;
                return Ok(Ok(own));
            }
            Err(Errno::EADDRINUSE) => {}
            Err(errno) => return Err(errno),
        }
        occupant = inspect(&address, name)?;
        if !matches!(occupant, Occupant::Gone) {
            break;
        }
        // It was released, or is about to listen.
        thread::sleep(PAUSE);
    }
    Ok(Err(match occupant {
        Occupant::Gone => creator(name).unwrap_or(Occupant::Unknown),
        occupant => occupant,
    }))
}

impl Drop for NamespaceLock {
    fn drop(&mut self) {
        // A child process has the socket too, between its fork and exec: others see that it is released.
        if let Some(socket) = &self.socket {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// The owner of the socket with this name, as far as a connection shows it.
fn inspect(address: &UnixAddr, name: &str) -> nix::Result<Occupant> {
    let probe = stream()?;
    match connect(probe.as_raw_fd(), address) {
        Ok(()) => {
            let peer = getsockopt(&probe, PeerCredentials)?;
            Ok(Occupant::Process { uid: peer.uid(), pid: peer.pid().unsigned_abs() })
        }
        // It has no room for another connection: any user can fill it.
        Err(Errno::EAGAIN) => Ok(creator(name).unwrap_or(Occupant::Unknown)),
        // It is bound and does not listen, or it was released.
        Err(Errno::ECONNREFUSED) => Ok(Occupant::Gone),
        Err(errno) => Err(errno),
    }
}

/// The user that made the socket with this name, and a process that has it open.
fn creator(name: &str) -> Option<Occupant> {
    let table = fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let shown = format!("@{name}");
    let mut inodes = table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(6);
        let inode = words.next()?;
        // Connections that wait to be accepted have the name and no inode.
        (inode != "0" && words.next() == Some(&shown)).then_some(inode)
    });
    // The name of another socket may contain a line end, and the rest of such a line.
    let (Some(inode), None) = (inodes.next(), inodes.next()) else { return None };
    let socket = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        for file in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            if fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == &*socket) {
                // The owner of the socket's inode is the user that made it.
                let uid = fs::metadata(file.path()).ok()?.uid();
                return Some(Occupant::Process { uid, pid });
            }
        }
    }
    None
}

fn stream() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::Stream, flags, None)
}

/// Runs `f` in a network namespace: on another thread, unless this one is there already, which
/// requires no privilege.
fn inside<T: Send>(namespace: BorrowedFd<'_>, f: impl FnOnce() -> T + Send) -> nix::Result<T> {
    let (here, there) = (stat("/proc/thread-self/ns/net")?, fstat(namespace)?);
    if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) {
        return Ok(f());
    }
    thread::scope(|scope| {
        let enter = || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(f())
        };
        scope.spawn(enter).join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

//! A lock on a name in a network namespace.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, UnixAddr, bind, shutdown, socket,
};
use nix::unistd::geteuid;
use onbeat_netdev::{Namespace, UnixSocket};

use crate::error::failed;
use crate::{Error, Holder, Result};

/// Attempts while another process releases the name, with a pause between them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// A lock on a name in a network namespace, between programs that do not share a directory, such as
/// containers on the network of the host.
///
/// It is an abstract Unix socket, whose name belongs to the network namespace. The kernel releases it
/// when the process exits. It does not listen, so that no other user can connect to it. Any user can
/// bind the name: a process of a user other than root and this one does not prevent this process from
/// continuing, which then logs a warning and has no lock.
#[derive(Debug)]
pub struct NamespaceLock {
    socket: Option<OwnedFd>,
}

impl NamespaceLock {
    /// Acquires the lock without waiting. The name of the socket starts with `onbeat/`.
    ///
    /// # Errors
    /// [`Error::Locked`] with the owning process of root or of this user; the kernel refuses, or does not
    /// report the owner.
    pub fn take(namespace: &Namespace, name: &str) -> Result<Self> {
        let name = format!("onbeat/{name}");
        // In the notation of ss.
        let path = PathBuf::from(format!("@{name}"));
        let inside = namespace.run(|| take(&path, &name));
        match inside.map_err(caused(&path, "bind the socket"))?? {
            Ok(socket) => Ok(Self { socket: Some(socket) }),
            Err(owner) if is_trusted(&owner) => Err(Error::Locked { path, holder: holder(&owner) }),
            Err(owner) => {
                tracing::warn!(
                    "socket {path:?} belongs to user {} ({}): programs that do not share /run with this \
                     one are not excluded; find its process with: ss -xap src {path:?}",
                    owner.uid,
                    holder(&owner)
                );
                Ok(Self { socket: None })
            }
        }
    }

    /// Returns whether it excludes other programs.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.socket.is_some()
    }
}

/// Returns whether root or this user created the socket.
fn is_trusted(socket: &UnixSocket) -> bool {
    socket.uid == 0 || socket.uid == geteuid().as_raw()
}

/// Binds the name in the network namespace of this thread; returns the socket that owns it otherwise.
fn take(path: &Path, name: &str) -> Result<std::result::Result<OwnedFd, UnixSocket>> {
    let failed = failed(path, "bind the socket");
    let address = UnixAddr::new_abstract(name.as_bytes()).map_err(&failed)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let own = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(&failed)?;
    let mut owner = None;
    for _ in 0..ATTEMPTS {
        match bind(own.as_raw_fd(), &address) {
            Ok(()) => return Ok(Ok(own)),
            Err(Errno::EADDRINUSE) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let owners = UnixSocket::with_abstract_name(name.as_bytes())
            .map_err(caused(path, "find the owner of the socket"))?;
        owner = owners.into_iter().max_by_key(is_trusted);
        if owner.as_ref().is_some_and(|owner| !owner.is_shut_down) {
            break;
        }
        // It was released.
        thread::sleep(PAUSE);
    }
    owner.map(Err).ok_or_else(|| failed(Errno::EADDRINUSE))
}

fn caused(path: &Path, operation: &'static str) -> impl Fn(onbeat_netdev::Error) -> Error {
    move |error| Error::Io { path: path.to_owned(), operation, source: io::Error::other(error) }
}

impl Drop for NamespaceLock {
    fn drop(&mut self) {
        // A child process has the socket too, between its fork and exec: shutdown makes the release visible.
        if let Some(socket) = &self.socket {
            let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
        }
    }
}

/// A process that has the socket open.
fn holder(owner: &UnixSocket) -> Holder {
    let socket = format!("socket:[{}]", owner.inode);
    let has_it = |process: &fs::DirEntry| {
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.as_os_str() == &*socket)
    };
    let mut processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pid = processes.find_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        has_it(&process).then_some(pid)
    });
    Holder::of_pid(pid)
}

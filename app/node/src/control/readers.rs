//! Sockets for groups: readers query a node, and change nothing; managers also replace its streams.
//!
//! They have directories of their own, since that of control sockets belongs to root alone.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::fcntl::AtFlags;
use nix::sys::stat::{Mode, SFlag, fchmod};
use nix::unistd::{Gid, fchownat};
use onbeat_host::PrivateDirectory;

use super::server::{BindError, is_abandoned, listen};

/// The directory of sockets for readers.
pub const READERS: &str = "/run/onbeat-readers";

/// The group of readers, unless a node names another one.
pub const READER_GROUP: &str = "onbeat";

/// The directory of sockets for managers.
pub const MANAGERS: &str = "/run/onbeat-managers";

/// The group of managers, unless a node names another one.
pub const MANAGER_GROUP: &str = "onbeat-fleet";

/// The users of a socket for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// They query the node.
    Readers,
    /// They also replace its streams.
    Managers,
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Readers => "readers",
            Self::Managers => "managers",
        })
    }
}

/// A listening socket for a group, removed at the end.
#[derive(Debug)]
pub(super) struct GroupSocket {
    directory: PrivateDirectory,
    name: String,
}

/// Why a node has no socket for a group.
#[derive(Debug, thiserror::Error)]
#[error("socket for {audience}: {cause}")]
pub struct GroupError {
    audience: Audience,
    cause: GroupErrorCause,
}

impl GroupError {
    /// Whether there is no such group.
    pub fn is_without_group(&self) -> bool {
        matches!(self.cause, GroupErrorCause::NoGroup { .. })
    }
}

/// Cause and remedy of a [`GroupError`].
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupErrorCause {
    /// No such group.
    #[error(
        "group {group:?} is not in /etc/group; create it (groupadd --system {group}), or name another one under [node], in the key of this socket"
    )]
    NoGroup {
        /// Its name.
        group: String,
    },
    /// The socket cannot be given to the group.
    #[error(
        "its group cannot be set to {group:?}: {source}; give its directory this group and mode 2755, or run the node \
         with CAP_CHOWN"
    )]
    Owner {
        /// The group.
        group: String,
        /// Cause.
        source: nix::Error,
    },
    /// Its directory.
    #[error(transparent)]
    Directory(#[from] onbeat_host::Error),
    /// Its directory does not exist.
    #[error(
        "directory {path:?} cannot be created: {source}; create it (systemd-tmpfiles --create), and start the node again"
    )]
    NoDirectory {
        /// The directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The socket.
    #[error(transparent)]
    Socket(#[from] BindError),
    /// Another file has its path.
    #[error(
        "{path:?} is used by another program, or is not a socket; remove it, or rename the node"
    )]
    Occupied {
        /// The path.
        path: PathBuf,
    },
}

impl GroupSocket {
    /// Listens for members of `group` in `directory`. The caller has the lock of the node of this name.
    pub(super) fn bind(
        directory: &Path,
        name: &str,
        group: &str,
    ) -> Result<(UnixListener, Self), GroupErrorCause> {
        let gid =
            group_id(group).ok_or_else(|| GroupErrorCause::NoGroup { group: group.to_owned() })?;
        let directory = open(directory)?;
        remove_left(&directory, name)?;
        let listener = listen(&directory, name, || give_to(&directory, name, group, gid))?;
        Ok((listener, Self { directory, name: name.to_owned() }))
    }
}

/// Removes the socket that a killed process left. The caller has the lock of the node of this name.
fn remove_left(directory: &PrivateDirectory, name: &str) -> Result<(), GroupErrorCause> {
    let Some(stat) = directory.stat(name)? else { return Ok(()) };
    let is_socket = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFSOCK.bits();
    if !is_socket || !is_abandoned(directory, name) {
        return Err(GroupErrorCause::Occupied { path: directory.file(name) });
    }
    Ok(directory.remove(name)?)
}

/// The number of a group of /etc/group. Other sources of groups require sockets and libraries that the service cannot
/// reach, or a static program does not have.
fn group_id(name: &str) -> Option<Gid> {
    let groups = fs::read("/etc/group").ok()?;
    let number = groups.split(|&octet| octet == b'\n').find_map(|line| {
        let mut fields = line.split(|&octet| octet == b':');
        (fields.next() == Some(name.as_bytes())).then(|| fields.nth(1))?
    })?;
    Some(Gid::from_raw(std::str::from_utf8(number).ok()?.parse().ok()?))
}

/// Opens the directory of sockets, which all users can enter. It may exist with another mode, as tmpfiles.d(5) creates it.
fn open(path: &Path) -> Result<PrivateDirectory, GroupErrorCause> {
    let failed = |source| GroupErrorCause::NoDirectory { path: path.to_owned(), source };
    let made = match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
        made => made.map(|()| true).map_err(failed)?,
    };
    let directory = PrivateDirectory::open(path)?;
    let directory = directory.ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
    if made {
        // Independent of the umask.
        let passable = Mode::from_bits_truncate(0o755);
        fchmod(directory.as_fd(), passable).map_err(|errno| failed(errno.into()))?;
    }
    Ok(directory)
}

/// Lets the group connect, before the socket listens.
fn give_to(
    directory: &PrivateDirectory,
    name: &str,
    group: &str,
    gid: Gid,
) -> Result<(), GroupErrorCause> {
    // In a directory with the set-group-id bit it has the group from the start, without a capability.
    let is_given = directory.stat(name)?.is_some_and(|stat| stat.st_gid == gid.as_raw());
    if !is_given {
        fchownat(directory.as_fd(), name, None, Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|source| GroupErrorCause::Owner { group: group.to_owned(), source })?;
    }
    Ok(directory.set_mode(name, 0o660)?)
}

/// Removes the socket that a killed process left, if any: of a node that is removed, none would follow it.
pub(super) fn forget(directory: &Path, name: &str) -> Result<(), GroupErrorCause> {
    match PrivateDirectory::open(directory)? {
        Some(directory) => remove_left(&directory, name),
        None => Ok(()),
    }
}

impl Audience {
    /// Adds the audience to a cause.
    pub(super) fn failed(self, cause: GroupErrorCause) -> GroupError {
        GroupError { audience: self, cause }
    }
}

impl Drop for GroupSocket {
    fn drop(&mut self) {
        // The listener is still open: no other node has replaced the socket.
        let _ = self.directory.remove(&self.name);
    }
}

//! Directories that only their owner can change.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{Uid, UnlinkatFlags, geteuid, unlinkat};

use crate::component::rename_new;
use crate::error::failed;
use crate::file::{read_stream, text};
use crate::{Error, RUN, Result, make_directory, open_directory};

/// Mode of directories that this process creates.
const PRIVATE: Mode = Mode::S_IRWXU;

/// Maximum number of attempts to create a directory while other processes remove it ([`PrivateDirectory::remove_empty`]).
const ATTEMPTS: usize = 100;

/// Bits that let other users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// An open directory that no other user can write to, on a path that no other user can redirect.
///
/// Each component is opened without following symbolic links. The directory belongs to the effective
/// user and is not writable by others. Its ancestors belong to that user or root and are not writable
/// by others, unless sticky. Files in it are reached through the descriptor, never again by path.
///
/// Clones share the descriptor.
#[derive(Debug, Clone)]
pub struct PrivateDirectory {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

/// The mode of resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Creates missing directories; tightens modes below the run-time directory.
    Create,
    /// Stops at a missing directory.
    Open,
    /// Like `Open`, for any user: the directory may also belong to root.
    Check,
}

impl PrivateDirectory {
    /// Opens a directory, and creates missing parts of its path with mode 0700, independent of the umask.
    /// Directories of this user in the run-time directory /run/onbeat get mode 0700.
    ///
    /// # Errors
    /// [`Error::Refused`] where another user could redirect the path or write to the directory.
    pub fn create(path: &Path) -> Result<Self> {
        walk(path, Walk::Create)?.ok_or_else(|| failed(path, "open the directory")(Errno::ENOENT))
    }

    /// Opens a directory; `None`: it does not exist.
    ///
    /// # Errors
    /// As [`PrivateDirectory::create`].
    pub fn open(path: &Path) -> Result<Option<Self>> {
        walk(path, Walk::Open)
    }

    /// Checks the rules for as much of the path as exists and this user can see, and changes
    /// nothing. Any user can check a directory of root.
    ///
    /// # Errors
    /// As [`PrivateDirectory::create`].
    pub fn check(path: &Path) -> Result<()> {
        match walk(path, Walk::Check) {
            Err(Error::Io { source, .. })
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Ok(())
            }
            other => other.map(drop),
        }
    }

    /// Removes the directory of this path, if it is empty.
    ///
    /// # Errors
    /// As [`PrivateDirectory::create`], for the parent directory.
    pub fn remove_empty(path: &Path) -> Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let Some(parent) = Self::open(parent)? else { return Ok(()) };
        match unlinkat(&parent.fd, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
            Err(errno) => Err(failed(path, "remove the directory")(errno)),
        }
    }

    /// Returns whether the directory was removed since it was opened: no file can be created in it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn is_removed(&self) -> Result<bool> {
        let stat = fstat(&self.fd).map_err(failed(&self.path, "read its status"))?;
        Ok(stat.st_nlink == 0)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in it, for messages.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Returns a path to a file in it for system calls without a descriptor argument, such as bind: it uses
    /// this descriptor, and is valid while the directory is open.
    #[must_use]
    pub fn through_descriptor(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd()).into()
    }

    /// Returns the status of an entry, without following a symbolic link; `None`: no entry.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stat(&self, name: &str) -> Result<Option<FileStat>> {
        self.check_name(name)?;
        match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(failed(&self.file(name), "read its status")(errno)),
        }
    }

    /// Removes an entry that is not a directory, if it exists.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.check_name(name)?;
        match unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(failed(&self.file(name), "remove it")(errno)),
        }
    }

    /// Sets the mode of an entry, independent of the umask.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_mode(&self, name: &str, mode: u32) -> Result<()> {
        self.check_name(name)?;
        let mode = Mode::from_bits_truncate(mode);
        fchmodat(&self.fd, name, mode, FchmodatFlags::FollowSymlink)
            .map_err(failed(&self.file(name), "set its mode"))
    }

    /// Creates an empty file with mode 0600 unless it exists, for a mount.
    ///
    /// # Errors
    /// [`Error::Refused`]: there is an entry that is not a regular file of this user.
    pub fn make_file(&self, name: &str) -> Result<()> {
        self.open_file(name, OFlag::O_RDONLY | OFlag::O_CREAT).map(drop)
    }

    /// Returns the names of its entries that are UTF-8 text.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn names(&self) -> Result<Vec<String>> {
        let failed = failed(&self.path, "list it");
        let entries = std::fs::read_dir(self.through_descriptor("")).map_err(&failed)?;
        let names = entries.map(|entry| Ok(entry.map_err(&failed)?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    /// Reads a regular file of this user of at most `limit` octets that is UTF-8 text, never through a symbolic link;
    /// `None`: it does not exist.
    ///
    /// # Errors
    /// [`Error::Refused`]: it is not such a file; it is longer, or not text.
    pub fn read_text(&self, name: &str, limit: u64) -> Result<Option<String>> {
        let failed = |source| Error::Io { path: self.file(name), operation: "read it", source };
        let Some((file, _)) = self.open_file(name, OFlag::O_RDONLY)? else { return Ok(None) };
        let text = read_stream(file, limit).and_then(text);
        text.map(Some).map_err(failed)
    }

    /// Returns whether its file system is in memory, so that its content does not survive a boot.
    pub(crate) fn is_volatile(&self) -> bool {
        fstatfs(&self.fd).is_ok_and(|fs| fs.filesystem_type() == TMPFS_MAGIC)
    }

    /// Renames an entry, unless there is one of the new name. Returns whether there was none.
    pub(crate) fn rename_new(&self, from: &str, to: &str) -> Result<bool> {
        self.check_name(to)?;
        match rename_new(&self.fd, from.as_ref(), to.as_ref()) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(failed(&self.file(from), "rename it")(errno)),
        }
    }

    /// Opens a regular file of this user, never through a symbolic link, and never waits for a pipe.
    /// `None`: it does not exist.
    pub(crate) fn open_file(&self, name: &str, flags: OFlag) -> Result<Option<(File, FileStat)>> {
        self.check_name(name)?;
        let path = self.file(name);
        let always = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file: File = match openat(&self.fd, name, flags | always, mode) {
            Ok(fd) => fd.into(),
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ELOOP) => {
                return Err(Error::refused(&path, "it is a symbolic link", "remove it"));
            }
            // Of a directory, and of a socket or device without a driver.
            Err(Errno::EISDIR | Errno::ENXIO) => return Err(not_a_file(&path)),
            Err(errno) => return Err(failed(&path, "open it")(errno)),
        };
        let stat = fstat(&file).map_err(failed(&path, "read its status"))?;
        if kind(&stat) != SFlag::S_IFREG {
            return Err(not_a_file(&path));
        }
        if stat.st_uid != geteuid().as_raw() {
            let why = format!("it belongs to user {}", stat.st_uid);
            return Err(Error::refused(&path, why, "remove it"));
        }
        if stat.st_nlink > 1 {
            let why = format!("it has {} names (hard links)", stat.st_nlink);
            return Err(Error::refused(&path, why, "remove it"));
        }
        Ok(Some((file, stat)))
    }

    /// Checks that a name is a file name in this directory.
    pub(crate) fn check_name(&self, name: &str) -> Result<()> {
        let mut components = Path::new(name).components();
        let normal = matches!(components.next(), Some(Component::Normal(first)) if first == name);
        if normal && components.next().is_none() && !name.contains('\0') {
            return Ok(());
        }
        Err(Error::refused(&self.file(name), "it is not a file name", "use a name without \"/\""))
    }
}

impl AsFd for PrivateDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn not_a_file(path: &Path) -> Error {
    Error::refused(path, "it is not a regular file", "remove it")
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits())
}

fn walk(path: &Path, how: Walk) -> Result<Option<PrivateDirectory>> {
    let path = std::path::absolute(path).map_err(|source| Error::Io {
        path: path.to_owned(),
        operation: "make its path absolute",
        source,
    })?;
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                return Err(Error::refused(&path, "it contains \"..\"", "write the path without"));
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let mut there = PathBuf::from("/");
    let mut fd = open("/", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(failed(&there, "open it"))?;
    verify(&fd, &there, names.is_empty(), how)?;
    for (number, name) in names.iter().enumerate() {
        there.push(name);
        let last = number + 1 == names.len();
        let Some(next) = enter(&fd, name, &there, last, how)? else { return Ok(None) };
        if how == Walk::Create && there.starts_with(RUN) {
            tighten(&fd, &next, name, &there)?;
        }
        verify(&next, &there, last, how)?;
        fd = next;
    }
    Ok(Some(PrivateDirectory { path, fd: Arc::new(fd) }))
}

/// Opens a directory of `parent`, which is verified; creates it if missing.
fn enter(
    parent: &OwnedFd,
    name: &OsStr,
    path: &Path,
    last: bool,
    how: Walk,
) -> Result<Option<OwnedFd>> {
    // An ancestor need not be readable.
    let access = if last { OFlag::O_RDONLY } else { OFlag::O_PATH };
    let enter = || open_directory(parent, name, access);
    let mut opened = enter();
    for _ in 0..ATTEMPTS {
        if how != Walk::Create || !matches!(opened, Err(Errno::ENOENT)) {
            break;
        }
        let made = make_directory(parent, name, PRIVATE);
        if made.map_err(failed(path, "make the directory"))? {
            // No other user can replace an entry of this user in a verified directory.
            match fchmodat(parent, name, PRIVATE, FchmodatFlags::FollowSymlink) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(failed(path, "set its mode")(errno)),
            }
        }
        opened = enter();
    }
    match opened {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::ENOENT) => Ok(None),
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW);
            let link = stat.is_ok_and(|stat| kind(&stat) == SFlag::S_IFLNK);
            Err(if link {
                let remedy = "write the path that it stands for";
                Error::refused(path, "it is a symbolic link", remedy)
            } else {
                Error::refused(path, "it is not a directory", "use a directory")
            })
        }
        Err(errno) => Err(failed(path, "open the directory")(errno)),
    }
}

/// Makes a directory of this user private, as an earlier version left it open to others.
fn tighten(parent: &OwnedFd, fd: &OwnedFd, name: &OsStr, path: &Path) -> Result<()> {
    let stat = fstat(fd).map_err(failed(path, "read its status"))?;
    if stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o777 == PRIVATE.bits() {
        return Ok(());
    }
    fchmodat(parent, name, PRIVATE, FchmodatFlags::FollowSymlink)
        .map_err(failed(path, "set its mode"))
}

fn verify(fd: &OwnedFd, path: &Path, last: bool, how: Walk) -> Result<()> {
    let stat = fstat(fd).map_err(failed(path, "read its status"))?;
    let owner = Uid::from_raw(stat.st_uid);
    let trusted = owner == geteuid() || owner.is_root() && (!last || how == Walk::Check);
    if !trusted {
        let why = format!("it belongs to user {owner}");
        let remedy = if last {
            "use a directory of the user that runs this command"
        } else {
            "use a directory whose parents belong to root or to the user that runs this command"
        };
        return Err(Error::refused(path, why, remedy));
    }
    let sticky = !last && stat.st_mode & Mode::S_ISVTX.bits() != 0;
    if stat.st_mode & WRITABLE_BY_OTHERS != 0 && !sticky {
        let why = format!("other users can write to it (mode {:04o})", stat.st_mode & 0o7777);
        return Err(Error::refused(
            path,
            why,
            "use a directory that only its owner can write to, such as /run/onbeat",
        ));
    }
    Ok(())
}

//! Single components of paths, which are never followed where they are symbolic links, and files that
//! are replaced as a whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, unlinkat};

/// Opens a directory of `parent`; `access` is `O_PATH` where it need not be readable. A symbolic link
/// is an error ([`Errno::ENOTDIR`] or [`Errno::ELOOP`]).
///
/// # Errors
/// What the kernel refuses.
pub fn open_directory(
    parent: impl AsFd,
    name: impl AsRef<OsStr>,
    access: OFlag,
) -> nix::Result<OwnedFd> {
    let flags = access | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(parent, name.as_ref(), flags, Mode::empty())
}

/// Makes a directory in `parent`; whether it was missing.
///
/// # Errors
/// What the kernel refuses.
pub fn make_directory(parent: impl AsFd, name: impl AsRef<OsStr>, mode: Mode) -> nix::Result<bool> {
    match mkdirat(parent, name.as_ref(), mode) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Writes a file of a directory in place of the one before, for this user alone: after a crash it is
/// the former one or the new one. A symbolic link of that name is replaced.
///
/// # Errors
/// What the kernel refuses: the file is as before.
pub fn replace(directory: impl AsFd, name: &OsStr, octets: &[u8]) -> io::Result<()> {
    let mut new = OsString::from(name);
    new.push(".new");
    let remove = || unlinkat(&directory, new.as_os_str(), UnlinkatFlags::NoRemoveDir);
    // Left by a process that was killed.
    match remove() {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let mut file = File::from(openat(&directory, new.as_os_str(), flags, mode)?);
    // On a disk the name must not lead to content that is not there yet.
    let written = file.write_all(octets).and_then(|()| file.sync_all());
    let rename =
        || renameat(&directory, new.as_os_str(), &directory, name).map_err(io::Error::from);
    if let Err(error) = written.and_then(|()| rename()) {
        let _ = remove();
        return Err(error);
    }
    Ok(fsync(directory)?)
}

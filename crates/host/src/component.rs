//! Single components of paths, which are never followed where they are symbolic links, and files that
//! are replaced as a whole.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, openat, renameat, renameat2};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, linkat, unlinkat};

/// Of files for this user alone.
const PRIVATE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

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
/// the former one or the new one. A symbolic link of that name is replaced, and no other file is.
///
/// # Errors
/// What the kernel refuses: the file is as before.
pub fn replace(directory: impl AsFd, name: &OsStr, octets: &[u8]) -> io::Result<()> {
    let new = fresh_name(name);
    let mut file = File::from(open_new(&directory, &new)?);
    // On a disk the name must not lead to content that is not there yet.
    let written = file.write_all(octets).and_then(|()| file.sync_all());
    let link = || link(&directory, &file, &new);
    let rename =
        || renameat(&directory, new.as_os_str(), &directory, name).map_err(io::Error::from);
    if let Err(error) = written.and_then(|()| link()).and_then(|()| rename()) {
        // It is missing where it was not linked.
        let _ = unlinkat(&directory, new.as_os_str(), UnlinkatFlags::NoRemoveDir);
        return Err(error);
    }
    Ok(fsync(directory)?)
}

/// Makes a file of a directory, for this user alone, which has its content as soon as it has its name.
/// Returns whether no file had this name before; such a file is as before.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn create(directory: impl AsFd, name: &OsStr, octets: &[u8]) -> io::Result<bool> {
    let new = fresh_name(name);
    let mut file = File::from(open_new(&directory, &new)?);
    let is_named = file.metadata()?.nlink() > 0;
    let written = file.write_all(octets).and_then(|()| Ok(fchmod(&file, PRIVATE)?));
    let made = written.and_then(|()| match is_named {
        true => Ok(rename_new(&directory, &new, name)?),
        false => link(&directory, &file, name),
    });
    if is_named && made.is_err() {
        let _ = unlinkat(&directory, new.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        made => made.map(|()| true),
    }
}

/// Renames a file of a directory; an error ([`Errno::EEXIST`]) where a file has the new name.
pub(crate) fn rename_new(directory: impl AsFd, from: &OsStr, to: &OsStr) -> nix::Result<()> {
    renameat2(&directory, from, &directory, to, RenameFlags::RENAME_NOREPLACE)
}

/// A name beside `name` that no other file has.
fn fresh_name(name: &OsStr) -> OsString {
    let mut new = OsString::from(name);
    new.push(format!(".{:016x}.new", RandomState::new().build_hasher().finish()));
    new
}

/// A new file without a name, which nothing of is left after a crash; with the name `new` where the
/// file system has no such files.
fn open_new(directory: impl AsFd, new: &OsStr) -> nix::Result<OwnedFd> {
    let (flags, mode) = (OFlag::O_WRONLY | OFlag::O_CLOEXEC, PRIVATE);
    match openat(&directory, ".", flags | OFlag::O_TMPFILE, mode) {
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            openat(&directory, new, flags | OFlag::O_CREAT | OFlag::O_EXCL, mode)
        }
        file => file,
    }
}

/// Gives a file of [`open_new`] its name, where it has none.
fn link(directory: impl AsFd, file: &File, new: &OsStr) -> io::Result<()> {
    if file.metadata()?.nlink() > 0 {
        return Ok(());
    }
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, unnamed.as_str(), directory, new, AtFlags::AT_SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn only_the_file_of_that_name_is_replaced() {
        // /dev/shm has files without a name; that for temporary files may not.
        for below in [Path::new("/dev/shm").to_owned(), std::env::temp_dir()] {
            let path = below.join(format!("onbeat-replace-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            let directory = File::open(&path).unwrap();
            fs::write(path.join("a.new"), "of a user").unwrap();
            for text in ["first", "second"] {
                replace(&directory, OsStr::new("a"), text.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(path.join("a")).unwrap(), text);
            }
            fs::create_dir(path.join("b")).unwrap();
            replace(&directory, OsStr::new("b"), b"over a directory").unwrap_err();
            let mut names: Vec<_> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            fs::remove_dir_all(&path).unwrap();
            assert_eq!(names, ["a", "a.new", "b"]);
        }
    }
}

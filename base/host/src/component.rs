//! Operations on single components of paths, without following symbolic links, and atomic replacement of files.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, Flock, FlockArg, OFlag, RenameFlags, openat, renameat, renameat2,
};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use nix::unistd::{UnlinkatFlags, fsync, geteuid, linkat, unlinkat};

/// Maximum number of symbolic links of a path, as in the kernel.
pub(crate) const LINKS: usize = 40;

/// Mode of new files: accessible to this user only.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Opens a directory of `parent`; `access` is `O_PATH` where it need not be readable. A symbolic link
/// is an error ([`Errno::ENOTDIR`] or [`Errno::ELOOP`]).
///
/// # Errors
/// The kernel refuses.
pub fn open_directory(
    parent: impl AsFd,
    name: impl AsRef<OsStr>,
    access: OFlag,
) -> nix::Result<OwnedFd> {
    let flags = access | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    openat(parent, name.as_ref(), flags, Mode::empty())
}

/// Creates a directory in `parent`; returns whether it was missing.
///
/// # Errors
/// The kernel refuses.
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
/// An operation that the kernel refused: the file is as before, or the new one where only the directory could not
/// be written to a disk.
pub fn replace(directory: impl AsFd, name: &OsStr, octets: &[u8]) -> io::Result<()> {
    let new = fresh_name(name);
    let mut file = File::from(open_new(&directory, &new)?);
    // So that `remove_unfinished` leaves the file alone. Without locks of files it removes none.
    let _lock = file.try_clone().map(|file| Flock::lock(file, FlockArg::LockExclusive));
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

/// Removes the new files that a process left which was killed in [`replace`] of the file with this
/// name. Files that another process is writing stay, and files of other names, types, modes and users.
///
/// # Errors
/// The kernel refuses.
pub fn remove_unfinished(directory: impl AsFd, name: &OsStr) -> io::Result<()> {
    let directory = directory.as_fd();
    for entry in fs::read_dir(format!("/proc/self/fd/{}", directory.as_raw_fd()))? {
        let new = entry?.file_name();
        if !is_fresh_name(&new, name) {
            continue;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let Ok(file) = openat(directory, &*new, flags, Mode::empty()).map(File::from) else {
            continue;
        };
        let found = file.metadata()?;
        // The umask may have cleared bits of the mode.
        let is_private = found.mode() & 0o7777 & !MODE.bits() == 0;
        let is_ours = found.is_file() && found.uid() == geteuid().as_raw() && is_private;
        let locked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        if is_ours && locked.is_ok() {
            // It is missing where its process has renamed it meanwhile.
            let _ = unlinkat(directory, &*new, UnlinkatFlags::NoRemoveDir);
        }
    }
    Ok(())
}

/// Makes a file of a directory, for this user alone, which has its content as soon as it has its name.
/// Returns whether no file had this name before; such a file is as before.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn create(directory: impl AsFd, name: &OsStr, octets: &[u8]) -> io::Result<bool> {
    let new = fresh_name(name);
    let mut file = File::from(open_new(&directory, &new)?);
    let is_named = file.metadata()?.nlink() > 0;
    let written = file.write_all(octets).and_then(|()| Ok(fchmod(&file, MODE)?));
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

/// Renames a file of a directory; an error ([`Errno::EEXIST`]) if a file has the new name.
pub(crate) fn rename_new(directory: impl AsFd, from: &OsStr, to: &OsStr) -> nix::Result<()> {
    renameat2(&directory, from, &directory, to, RenameFlags::RENAME_NOREPLACE)
}

/// Returns a new unique name derived from `name`.
fn fresh_name(name: &OsStr) -> OsString {
    let mut new = OsString::from(name);
    new.push(format!(".{:016x}.new", RandomState::new().build_hasher().finish()));
    new
}

/// Returns whether `new` is a [`fresh_name`] of `name`.
fn is_fresh_name(new: &OsStr, name: &OsStr) -> bool {
    let number = new.as_bytes().strip_prefix(name.as_bytes());
    let number = number.and_then(|rest| rest.strip_prefix(b".")?.strip_suffix(b".new"));
    number.is_some_and(|number| {
        number.len() == 16 && number.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Opens a new file without a name, which a crash before [`link`] removes; with the name `new` if the file
/// system does not support this.
fn open_new(directory: impl AsFd, new: &OsStr) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    match openat(&directory, ".", flags | OFlag::O_TMPFILE, MODE) {
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL) => {
            openat(&directory, new, flags | OFlag::O_CREAT | OFlag::O_EXCL, MODE)
        }
        file => file,
    }
}

/// Links a file of [`open_new`] to its name, unless it has one.
fn link(directory: impl AsFd, file: &File, new: &OsStr) -> io::Result<()> {
    if file.metadata()?.nlink() > 0 {
        return Ok(());
    }
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, unnamed.as_str(), directory, new, AtFlags::AT_SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{OpenOptionsExt, symlink};
    use std::path::Path;

    use onbeat_testing::TemporaryDirectory;

    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_the_file_of_that_name_is_replaced() {
        // /dev/shm has files without a name; that for temporary files may not.
        for below in [Path::new("/dev/shm"), &std::env::temp_dir()] {
            let temporary = TemporaryDirectory::below(below, "replace");
            let directory = File::open(temporary.path()).unwrap();
            fs::write(temporary.file("a.new"), "of a user").unwrap();
            for text in ["first", "second"] {
                replace(&directory, OsStr::new("a"), text.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(temporary.file("a")).unwrap(), text);
            }
            fs::create_dir(temporary.file("b")).unwrap();
            replace(&directory, OsStr::new("b"), b"over a directory").unwrap_err();
            assert_eq!(names(temporary.path()), ["a", "a.new", "b"]);
        }
    }

    #[test]
    fn files_of_a_killed_process_are_removed_and_no_others() {
        let temporary = TemporaryDirectory::new("unfinished");
        let directory = File::open(temporary.path()).unwrap();
        let make = |name: &OsStr, mode| {
            let mut options = File::options();
            options.write(true).create_new(true).mode(mode).open(temporary.file(name)).unwrap()
        };
        let a = OsStr::new("a");
        let (left, live) = (fresh_name(a), fresh_name(a));
        make(&left, 0o600);
        let _live = Flock::lock(make(&live, 0o600), FlockArg::LockExclusive).unwrap();
        let mut others = vec![live, fresh_name(OsStr::new("b")), fresh_name(a), fresh_name(a)];
        for name in ["a", "a.new", "a.0123.new", "a.0123456789ABCDEF.new", "a.0123456789abcdef"] {
            others.push(name.into());
        }
        for name in &others[4..] {
            make(name, 0o600);
        }
        make(&others[1], 0o600);
        make(&others[2], 0o640);
        symlink("a", temporary.file(&others[3])).unwrap();
        remove_unfinished(&directory, a).unwrap();
        others.sort();
        assert_eq!(names(temporary.path()), others);
    }
}

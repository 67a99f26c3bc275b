//! Output files, which root often writes to directories that other users may write to.
//!
//! There another user can plant a symbolic link, a hard link or another file under the name of an
//! expected output. The kernel's fs.protected_symlinks and fs.protected_regular refuse that in sticky
//! directories, where the administrator has switched them on. This does, always and everywhere: a path
//! is followed component by component, and
//!
//! - a symbolic link is followed only if it belongs to this user or to root;
//! - an existing file is overwritten only if it belongs to this user or to root, or to the owner of a
//!   directory that no other user may write to; and, unless only this user and root may write to its
//!   directory, only if it is a regular file with one name.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, lstat, stat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs, statfs};
use nix::unistd::{UnlinkatFlags, ftruncate, geteuid, unlinkat};

use crate::component::LINKS;
use crate::make_directory;

/// Creates a file, or empties the one that exists.
///
/// # Errors
/// The file cannot be written; another user may have planted it, or a link that leads to it.
pub fn create(path: &Path) -> io::Result<File> {
    Ok(Walk::new(path)?.open(false)?.0)
}

/// Creates a file like [`create`], with missing parent directories.
///
/// # Errors
/// Those of [`create`]; a directory cannot be created.
pub fn create_with_directories(path: &Path) -> io::Result<File> {
    Ok(Walk::new(path)?.open(true)?.0)
}

/// Creates a file like [`create`] that is useless unless complete: [`Output::complete`] keeps it.
///
/// # Errors
/// As [`create`].
pub fn create_whole(path: &Path) -> io::Result<Output> {
    let (file, partial) = Walk::new(path)?.open(false)?;
    Ok(Output { file, partial })
}

/// Writes a whole file.
///
/// # Errors
/// As [`create`].
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let mut output = create_whole(path)?;
    output.write_all(contents.as_ref())?;
    output.complete();
    Ok(())
}

/// The target of a path, to compare it with others before one of them is overwritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    file: FileId,
    /// Whether [`create`] appends to the file and does not empty it, since a process has it open already
    /// (/dev/stdout).
    pub append: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FileId {
    /// By device and inode.
    Existing(u64, u64),
    /// By device and inode of the directory, and name.
    New(u64, u64, OsString),
}

impl Target {
    /// Returns the regular file, or the file that [`create`] would create; `None` for devices, pipes,
    /// directories, and invalid paths.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            if statfs(parent).ok()?.filesystem_type() == PROC_SUPER_MAGIC {
                let file = FileId::existing(&stat(&path).ok()?)?;
                return Some(Self { file, append: true });
            }
            match lstat(&path) {
                Ok(found) if is(&found, SFlag::S_IFLNK) => {
                    path = parent.join(std::fs::read_link(&path).ok()?);
                }
                Ok(found) => return Some(Self { file: FileId::existing(&found)?, append: false }),
                Err(Errno::ENOENT) => {
                    let above = stat(parent).ok()?;
                    let name = path.file_name()?.to_owned();
                    let file = FileId::New(above.st_dev, above.st_ino, name);
                    return Some(Self { file, append: false });
                }
                Err(_) => return None,
            }
        }
        None
    }

    /// Returns the regular file of an open descriptor.
    #[must_use]
    pub fn of_open(descriptor: BorrowedFd<'_>) -> Option<Self> {
        Some(Self { file: FileId::existing(&fstat(descriptor).ok()?)?, append: true })
    }

    /// Returns whether the file exists.
    #[must_use]
    pub fn exists(&self) -> bool {
        matches!(self.file, FileId::Existing(..))
    }

    /// Returns whether both are the same file, with any names.
    #[must_use]
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl FileId {
    fn existing(found: &FileStat) -> Option<Self> {
        is(found, SFlag::S_IFREG).then_some(FileId::Existing(found.st_dev, found.st_ino))
    }
}

/// A file that is removed on drop unless it is complete. Devices and pipes stay.
#[derive(Debug)]
pub struct Output {
    file: File,
    partial: Option<Entry>,
}

/// A directory, and the name of a regular file in it.
type Entry = (OwnedFd, OsString);

impl Output {
    /// Keeps the file.
    pub fn complete(mut self) {
        self.partial = None;
    }
}

impl Write for Output {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let Some((directory, name)) = self.partial.take() else { return };
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        let (Ok(own), Ok(named)) =
            (fstat(&self.file), fstatat(&directory, name.as_os_str(), flags))
        else {
            return;
        };
        if (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino) {
            let _ = unlinkat(&directory, name.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

/// Returns the descriptor of standard output or standard error if that is the same file, so that both outputs
/// are appended to each other.
fn standard_stream(file: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let own = fstat(file)?;
    for stream in [io::stdout().as_fd(), io::stderr().as_fd()] {
        if fstat(stream).is_ok_and(|found| (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino))
        {
            return stream.try_clone_to_owned().map(Some);
        }
    }
    Ok(None)
}

/// A path being resolved.
struct Walk {
    directory: OwnedFd,
    /// Components not yet followed.
    rest: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        let directory = open_directory(".")?;
        let mut walk = Self { directory, rest: VecDeque::new(), links: 0 };
        walk.prepend(path)?;
        // Such a path is always a directory, though its components do not show it.
        let slash = path.as_os_str().as_encoded_bytes().ends_with(b"/");
        if slash || walk.rest.back().is_none_or(|last| last == "..") {
            return Err(ErrorKind::IsADirectory.into());
        }
        Ok(walk)
    }

    fn prepend(&mut self, path: &Path) -> io::Result<()> {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.rest.push_front(name.to_owned()),
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => {
                    self.directory = open_directory("/")?;
                }
            }
        }
        Ok(())
    }

    fn open(mut self, create_directories: bool) -> io::Result<(File, Option<Entry>)> {
        while let Some(name) = self.rest.pop_front() {
            // Links there are the kernel's, with targets that no path has: /dev/stdout.
            if fstatfs(&self.directory)?.filesystem_type() == PROC_SUPER_MAGIC {
                let rest: std::path::PathBuf = [name].into_iter().chain(self.rest).collect();
                // A file that is open already may hold what others wrote to it.
                let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CLOEXEC;
                let file = openat(&self.directory, &rest, flags, Mode::empty())?;
                return Ok((standard_stream(&file)?.unwrap_or(file).into(), None));
            }
            if self.rest.is_empty() {
                match self.open_last(&name)? {
                    Some((file, regular)) => {
                        return Ok((file, regular.then_some((self.directory, name))));
                    }
                    None => continue,
                }
            }
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = match openat(&self.directory, name.as_os_str(), flags, Mode::empty()) {
                Err(Errno::ENOENT) if create_directories => {
                    let mode = Mode::S_IRWXU | Mode::from_bits_truncate(0o055);
                    make_directory(&self.directory, &name, mode)?;
                    openat(&self.directory, name.as_os_str(), flags, Mode::empty())?
                }
                next => next?,
            };
            if is(&fstat(&next)?, SFlag::S_IFLNK) {
                self.follow(&next)?;
            } else {
                self.directory = next;
            }
        }
        Err(ErrorKind::IsADirectory.into())
    }

    /// Opens the file that the path ends with, and whether it is a regular one; `None` where that is
    /// a link, which is followed then.
    fn open_last(&mut self, name: &OsStr) -> io::Result<Option<(File, bool)>> {
        // A planted pipe must not make this wait for a reader.
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let flags = flags | OFlag::O_NONBLOCK;
        let file = match openat(&self.directory, name, flags, Mode::from_bits_truncate(0o666)) {
            Err(Errno::ELOOP) => {
                let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let link = openat(&self.directory, name, flags, Mode::empty())?;
                if is(&fstat(&link)?, SFlag::S_IFLNK) {
                    self.follow(&link)?;
                    return Ok(None);
                }
                return Err(Errno::ELOOP.into());
            }
            Err(Errno::ENXIO) => {
                let reason =
                    "it is a pipe that no process reads, or a socket; start the reader first";
                return Err(io::Error::new(ErrorKind::NotConnected, reason));
            }
            file => file?,
        };
        let (above, found) = (fstat(&self.directory)?, fstat(&file)?);
        let shared = above.st_mode & 0o022 != 0;
        let regular = is(&found, SFlag::S_IFREG);
        let trusted = is_own(&found) || !shared && found.st_uid == above.st_uid;
        let plain = regular && found.st_nlink == 1 || !shared && is_own(&above);
        if !trusted || !plain {
            let uid = found.st_uid;
            let reason = format!(
                "it exists, and belongs to another user or has other names (uid {uid}); remove it, or \
                 use a file in a directory of your own"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
        }
        if regular {
            ftruncate(&file, 0)?;
        }
        fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
        Ok(Some((file.into(), regular)))
    }

    fn follow(&mut self, link: &OwnedFd) -> io::Result<()> {
        let found = fstat(link)?;
        self.links += 1;
        if self.links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = readlinkat(link.as_fd(), "")?;
        if !is_own(&found) {
            let uid = found.st_uid;
            let reason = format!(
                "a symbolic link to {target:?} on its path belongs to another user (uid {uid}); name the \
                 file that is meant"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
        }
        self.prepend(Path::new(&target))
    }
}

/// Opens a directory for traversal: it need not be readable.
fn open_directory(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

fn is(found: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == kind
}

/// Returns whether it belongs to this user or to root.
fn is_own(found: &FileStat) -> bool {
    found.st_uid == 0 || found.st_uid == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use onbeat_testing::TemporaryDirectory;

    use super::*;

    /// A directory that all users may write to.
    fn shared(name: &str) -> TemporaryDirectory {
        let directory = TemporaryDirectory::new(&format!("output-{name}"));
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        directory
    }

    #[test]
    fn files_are_created_and_overwritten() {
        let directory = shared("plain");
        let file = directory.file("new");
        for text in ["a long text", "short"] {
            write(&file, text).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        symlink("new", directory.file("own-link")).unwrap();
        write(&directory.file("own-link"), "by a link").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "by a link");
        write(&directory.file("./x/../new"), "").unwrap_err();
        let below = directory.file("a/b/c");
        assert_eq!(create(&below).unwrap_err().kind(), ErrorKind::NotFound);
        create_with_directories(&below).unwrap().write_all(b"deep").unwrap();
        assert_eq!(fs::read_to_string(&below).unwrap(), "deep");
        for directory in [directory.path(), Path::new(""), Path::new("/"), &directory.file("new/")]
        {
            assert!(create(directory).is_err(), "{directory:?}");
        }
        symlink("loop", directory.file("loop")).unwrap();
        assert!(create(&directory.file("loop")).is_err());
        for device in ["/dev/null", "/proc/self/fd/2"] {
            create(Path::new(device)).unwrap();
        }
        // A log that this process has open keeps what is there.
        let log = directory.file("log");
        fs::write(&log, "before, ").unwrap();
        let open = fs::OpenOptions::new().write(true).open(&log).unwrap();
        let descriptor = format!("/proc/self/fd/{}", open.as_raw_fd());
        create(Path::new(&descriptor)).unwrap().write_all(b"after").unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), "before, after");
    }

    #[test]
    fn a_file_that_is_not_complete_is_removed() {
        let directory = shared("partial");
        let file = directory.file("half");
        create_whole(&file).unwrap().write_all(b"half").unwrap();
        assert!(!file.exists());
        let mut output = create_whole(&file).unwrap();
        // A file that another process put in its place stays.
        fs::rename(&file, directory.file("moved")).unwrap();
        fs::write(&file, "of another process").unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_to_string(&file).unwrap(), "of another process");
        create_whole(&file).unwrap().complete();
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
        create_whole(Path::new("/dev/null")).unwrap();
        assert!(Path::new("/dev/null").exists());
    }

    #[test]
    fn a_file_is_the_same_under_each_name() {
        let directory = TemporaryDirectory::new("same");
        let of = |name: &str| Target::of(&directory.file(name));
        fs::write(directory.file("file"), "").unwrap();
        fs::hard_link(directory.file("file"), directory.file("hard")).unwrap();
        fs::create_dir(directory.file("below")).unwrap();
        for (name, target) in [("link", "file"), ("new-link", "new"), ("loop", "loop")] {
            symlink(target, directory.file(name)).unwrap();
        }
        symlink("../link", directory.file("below/link")).unwrap();
        symlink("below", directory.file("way")).unwrap();
        let (file, new) = (of("file").unwrap(), of("new").unwrap());
        assert!(file.exists() && !new.exists() && !new.is_same_file(&of("other").unwrap()));
        for name in ["hard", "link", "way/link", "below/../file", "./file"] {
            assert!(of(name).unwrap().is_same_file(&file), "{name}");
        }
        for name in ["new-link", "below/../new"] {
            assert!(of(name).unwrap().is_same_file(&new), "{name}");
        }
        let open = File::open(directory.file("hard")).unwrap();
        let descriptor = format!("/dev/fd/{}", open.as_raw_fd());
        let found = Target::of(Path::new(&descriptor)).unwrap();
        assert!(found.is_same_file(&file) && found.append && !file.append);
        assert_eq!(Target::of_open(open.as_fd()), Some(found));
        for name in ["loop", "below", "no/where"] {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(Target::of(Path::new("/dev/null")), None);
    }

    #[test]
    fn a_pipe_without_a_reader_does_not_block_the_writer() {
        let directory = shared("pipe");
        let pipe = directory.file("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let error = create(&pipe).unwrap_err();
        assert!(error.to_string().contains("no process reads"), "{error}");
        assert!(pipe.exists());
    }

    #[test]
    fn a_file_planted_by_another_user_is_not_written() {
        if !geteuid().is_root() {
            eprintln!("not root: files of another user cannot be created");
            return;
        }
        const OTHER: u32 = 65534;
        let directory = shared("planted");
        let canary = directory.file("canary");
        fs::create_dir(directory.file("own")).unwrap();
        fs::write(&canary, "as it was").unwrap();

        symlink(&canary, directory.file("link")).unwrap();
        symlink(directory.path(), directory.file("way")).unwrap();
        symlink(directory.file("new"), directory.file("dangling")).unwrap();
        for link in ["link", "way", "dangling"] {
            lchown(directory.file(link), Some(OTHER), None).unwrap();
        }
        fs::hard_link(&canary, directory.file("hard")).unwrap();
        fs::write(directory.file("file"), "his").unwrap();
        chown(directory.file("file"), Some(OTHER), None).unwrap();
        symlink("../link", directory.file("own/to-link")).unwrap();

        for planted in ["link", "way/canary", "way/new", "dangling", "hard", "file", "own/to-link"]
        {
            let path = directory.file(planted);
            for open in [create, create_with_directories] {
                let error = open(&path).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{planted}: {error}");
            }
        }
        assert_eq!(fs::read_to_string(&canary).unwrap(), "as it was");
        assert_eq!(fs::read_to_string(directory.file("file")).unwrap(), "his");
        assert!(!directory.file("new").exists());
    }
}

//! A node's directory in a BPF file system.
//!
//! Its path comes from a configuration file, and root creates and removes its content. Therefore nothing is
//! done by path: the directory is opened component by component, without following a symbolic link, and stays
//! open. It must be in a BPF file system, below the root of the mount, and only the caller and root may write
//! to it. Nothing is removed recursively: only links and tables with names of a node, then empty directories.
//!
//! A directory belongs to one node. A process that changes it locks it (flock), which excludes others while
//! it runs. A symbolic link in it records the node's control socket, also after `kill -9`.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, readlinkat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat, fstatat};
use nix::sys::statfs::{BPF_FS_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, geteuid, symlinkat, unlinkat};
use onbeat_bpf::Link;
use onbeat_frer::spec::MAX_PORTS;
use onbeat_host::{make_directory, open_directory};

use crate::error::{Context, Error, Result};
use crate::lans::is_tc_link;
use crate::link::pinned_object;
use crate::output::is_hook;
use crate::programs::is_table;

/// The conventional mount point of a BPF file system.
pub const BPF_MOUNT: &str = "/sys/fs/bpf";

/// Subdirectory of pinned links: one for each port, named `SLOT-PORT`, those of programs that count output,
/// named after their tracepoints, and those of programs at the tc ingress.
const LINKS: &str = "links";

/// Subdirectory of pinned tables, by their names.
const TABLES: &str = "tables";

/// Symbolic link whose target is the control socket of the owning node. It is read and never followed.
const OWNER: &str = "node";

/// An open pin directory.
#[derive(Debug)]
pub struct PinDirectory {
    path: PathBuf,
    fd: OwnedFd,
    /// Its parent directory.
    parent: OwnedFd,
    /// Excludes other processes, once claimed.
    lock: Option<Flock<File>>,
}

/// The node that claims a pin directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinOwner {
    control: PathBuf,
    adopts: bool,
}

impl PinOwner {
    /// Creates the owner with this control socket. `adopts`: a directory of the former version, which records
    /// no node, is accepted as this node's.
    #[must_use]
    pub fn new(control: &Path, adopts: bool) -> Self {
        // Normalize the path.
        Self { control: control.components().collect(), adopts }
    }
}

/// Checks the path of a pin directory, without access to it.
///
/// # Errors
/// The reason for rejecting it, to follow the path in a message.
pub fn check_path(path: &Path) -> std::result::Result<(), &'static str> {
    if !path.is_absolute() {
        return Err("is not an absolute path");
    }
    let normal = |part| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.components().all(normal) {
        return Err("contains \"..\"");
    }
    if Path::new(BPF_MOUNT).starts_with(path) {
        return Err("is not below the root of a BPF file system");
    }
    Ok(())
}

impl PinDirectory {
    /// Opens a pin directory; `None`: it does not exist, or leads through a directory of another user, below which no
    /// node pins.
    ///
    /// # Errors
    /// The path does not lead to a directory below the root of a BPF file system that only this user and root
    /// may write to.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        walk(path, false)
    }

    /// Opens like [`PinDirectory::open`], creates a missing directory, and claims it for a node. A directory
    /// with entries that no node creates is refused.
    ///
    /// # Errors
    /// Those of [`PinDirectory::open`] and [`PinDirectory::claim`]; nothing was created.
    pub fn create(path: &Path, owner: &PinOwner) -> Result<Self> {
        let directory = walk(path, true)?.expect("walk creates it");
        directory.require_own()?;
        let directory = directory.claim(owner)?;
        for part in [LINKS, TABLES] {
            let made = make_directory(&directory.fd, part, Mode::S_IRWXU);
            made.map_err(|errno| directory.failed("create directory", part, errno))?;
        }
        Ok(directory)
    }

    /// Refuses the directory of another node.
    ///
    /// # Errors
    /// [`Error::PinOwner`] with the other node; [`Error::PinUnknown`]: the former version pinned it, and
    /// `owner` does not adopt it.
    pub fn check_owner(&self, owner: &PinOwner) -> Result<()> {
        let content = self.content()?;
        match &content.owner {
            Some(other) if *other != owner.control => Err(self.of_other("belongs to", other)),
            None if content.is_of_node() && !owner.adopts => {
                Err(Error::PinUnknown { path: self.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Locks the directory for a node and records the node in it.
    ///
    /// # Errors
    /// Those of [`PinDirectory::check_owner`]; [`Error::PinOwner`] if the node's process has the lock,
    /// [`Error::PinLocked`] if another process has it.
    pub fn claim(mut self, owner: &PinOwner) -> Result<Self> {
        let failed = |errno| self.failed("lock", "", errno);
        let file = File::from(open_directory(&self.fd, ".", OFlag::O_RDONLY).map_err(failed)?);
        self.check_owner(owner)?;
        // Any process that can open it can lock it.
        fchmod(&file, Mode::S_IRWXU).map_err(failed)?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(match self.content()?.owner {
                    Some(holder) => self.of_other("is in use by", &holder),
                    None => Error::PinLocked { path: self.path.clone() },
                });
            }
            Err((_, errno)) => return Err(failed(errno)),
        };
        // Its content may have changed before it was locked.
        self.check_owner(owner)?;
        match symlinkat(&owner.control, &self.fd, OWNER) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(self.failed("record the node in", OWNER, errno)),
        }
        self.lock = Some(lock);
        Ok(self)
    }

    fn of_other(&self, how: &'static str, control: &Path) -> Error {
        Error::PinOwner { path: self.path.clone(), how, control: control.to_path_buf() }
    }

    /// Refuses a directory with entries that no node creates.
    ///
    /// # Errors
    /// The first such entry.
    pub fn require_own(&self) -> Result<()> {
        match self.content()?.foreign.into_iter().next() {
            Some(foreign) => Err(Error::ForeignPin { path: self.path.clone(), foreign }),
            None => Ok(()),
        }
    }

    /// Returns whether it contains entries of a node.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn is_of_node(&self) -> Result<bool> {
        Ok(self.content()?.is_of_node())
    }

    /// Returns the control socket of the node that attached programs to interfaces and recorded itself.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn attached_by(&self) -> Result<Option<PathBuf>> {
        let content = self.content()?;
        Ok(content.owner.filter(|_| !content.links.is_empty()))
    }

    /// Returns the names of its entries.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn entries(&self) -> Result<Vec<String>> {
        self.names("")
    }

    /// Returns the time when its oldest table was pinned; `None`: it has no table.
    #[must_use]
    pub fn tables_since(&self) -> Option<SystemTime> {
        let entries = std::fs::read_dir(self.at(TABLES)).ok()?.flatten();
        entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).min()
    }

    /// Returns whether its file system is mounted in the mount namespace of process 1, so that it outlives
    /// the mount namespace of this process; `None` if that cannot be read.
    #[must_use]
    pub fn is_lasting(&self) -> Option<bool> {
        let device = fstat(&self.fd).ok()?.st_dev;
        let device = format!("{}:{}", libc::major(device), libc::minor(device));
        let mounts = std::fs::read_to_string("/proc/1/mountinfo").ok()?;
        Some(mounts.lines().any(|line| line.split(' ').nth(2) == Some(&device)))
    }

    /// Returns the path as configured.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path to the pin of a link that stays valid if the configured path changes.
    pub(crate) fn link(&self, slot: u8, port: &str) -> PathBuf {
        self.at(LINKS).join(format!("{slot}-{port}"))
    }

    /// Returns a path like [`PinDirectory::link`], for a link that is not of a port.
    pub(crate) fn link_path(&self, name: &str) -> PathBuf {
        self.at(LINKS).join(name)
    }

    /// Returns a path like [`PinDirectory::link`], for a table.
    pub(crate) fn table(&self, name: &str) -> PathBuf {
        self.at(TABLES).join(name)
    }

    fn at(&self, part: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{part}", self.fd.as_raw_fd()).into()
    }

    /// Opens the link of a program at the tc ingress; `None`: none is pinned.
    pub(crate) fn open_tc_link(&self, name: &str) -> Result<Option<Link>> {
        Link::open(&self.link_path(name)).context(|| format!("open link {}", self.shown(name)))
    }

    /// Detaches a program from the tc ingress of its interface and removes the link's pin, if there is one.
    pub(crate) fn detach_tc_link(&self, name: &str) -> Result<()> {
        if let Some(link) = self.open_tc_link(name)? {
            // A link of a removed interface is detached already.
            if link.info().is_ok_and(|info| info.ifindex != 0) {
                link.detach().context(|| format!("detach link {}", self.shown(name)))?;
            }
        }
        self.unlink(LINKS, name)
    }

    /// Returns slots and names of ports whose links are pinned.
    pub(crate) fn links(&self) -> Result<Vec<(u8, String)>> {
        Ok(self.content()?.links)
    }

    /// Returns the names of pinned links of programs that count output.
    pub(crate) fn hooks(&self) -> Result<Vec<String>> {
        Ok(self.content()?.hooks)
    }

    /// Returns the names of pinned tables.
    pub(crate) fn tables(&self) -> Result<Vec<String>> {
        Ok(self.content()?.tables)
    }

    /// Removes the pin of a link, if present.
    pub(crate) fn remove_link(&self, slot: u8, port: &str) -> Result<()> {
        self.unlink(LINKS, &format!("{slot}-{port}"))
    }

    fn unlink(&self, part: &str, name: &str) -> Result<()> {
        let failed = |errno| self.failed("remove", &format!("{part}/{name}"), errno);
        let directory = open_directory(&self.fd, part, OFlag::O_PATH).map_err(failed)?;
        match unlinkat(&directory, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// Detaches and removes all pins of a node, and the directory if it is empty then. Returns the remaining
    /// entries. The directory is claimed.
    ///
    /// # Errors
    /// An entry cannot be removed.
    pub fn remove(self) -> Result<Vec<PathBuf>> {
        debug_assert!(self.lock.is_some());
        let content = self.content()?;
        if !content.is_of_node() {
            return Ok(Vec::new());
        }
        for (slot, port) in &content.links {
            self.detach_link(*slot, port)?;
        }
        for link in &content.tc_links {
            self.detach_tc_link(link)?;
        }
        for hook in &content.hooks {
            self.unlink(LINKS, hook)?;
        }
        for table in &content.tables {
            self.unlink(TABLES, table)?;
        }
        for part in content.parts {
            remove_empty(&self.fd, part.as_ref())
                .map_err(|errno| self.failed("remove", part, errno))?;
        }
        if content.owner.is_some() {
            self.unlink(".", OWNER)?;
        }
        if let Some(name) = self.path.file_name() {
            remove_empty(&self.parent, name.as_ref())
                .map_err(|errno| self.failed("remove", "", errno))?;
        }
        Ok(content.foreign)
    }

    /// Detaches a program from its interface and removes the link's pin. Without the former, the kernel
    /// detaches some time after the latter, and a node that starts in between finds a program.
    pub(crate) fn detach_link(&self, slot: u8, port: &str) -> Result<()> {
        if let Some(link) = self.open_link(slot, port)? {
            link.detach().context(|| format!("detach link {}", self.shown_link(slot, port)))?;
        }
        self.remove_link(slot, port)
    }

    /// Opens the link of a port; `None`: none is pinned.
    pub(crate) fn open_link(&self, slot: u8, port: &str) -> Result<Option<Link>> {
        let what = || format!("open link {}", self.shown_link(slot, port));
        Link::open(&self.link(slot, port)).context(what)
    }

    /// Returns the pin of a link by the configured path, for messages.
    fn shown_link(&self, slot: u8, port: &str) -> String {
        self.shown(&format!("{slot}-{port}"))
    }

    fn shown(&self, link: &str) -> String {
        self.path.join(LINKS).join(link).display().to_string()
    }

    fn content(&self) -> Result<Content> {
        let mut content = Content::default();
        for name in self.names("")? {
            let part = [LINKS, TABLES].into_iter().find(|part| name == *part);
            match part {
                Some(part) if self.file_type("", part)? == Some(SFlag::S_IFDIR) => {
                    self.read_part(part, &mut content)?;
                }
                None if name == OWNER && self.file_type("", OWNER)? == Some(SFlag::S_IFLNK) => {
                    let target = readlinkat(&self.fd, OWNER);
                    let target = target.map_err(|errno| self.failed("read", OWNER, errno))?;
                    content.owner = Some(target.into());
                }
                _ => content.foreign.push(self.path.join(name)),
            }
        }
        Ok(content)
    }

    fn read_part(&self, part: &'static str, content: &mut Content) -> Result<()> {
        content.parts.push(part);
        for name in self.names(part)? {
            let mut object = String::new();
            if self.file_type(part, &name)? == Some(SFlag::S_IFREG) {
                object = pinned_object(&self.at(part).join(&name)).map_err(|source| {
                    Error::Pin { what: "read", path: self.path.join(part).join(&name), source }
                })?;
            }
            let is = |line: &str| object.lines().any(|shown| shown.starts_with(line));
            let traces = || is("link_type:\traw_tracepoint") || is("link_type:\ttracing");
            match link_name(&name) {
                Some(link) if part == LINKS && is("link_type:\txdp") => content.links.push(link),
                None if part == LINKS && is_hook(&name) && traces() => content.hooks.push(name),
                None if part == LINKS && is_tc_link(&name) && is("link_type:\ttcx") => {
                    content.tc_links.push(name);
                }
                _ if part == TABLES && is_table(&name) && is("map_type:") => {
                    content.tables.push(name);
                }
                _ => content.foreign.push(self.path.join(part).join(name)),
            }
        }
        Ok(())
    }

    /// Returns the names in the directory, or in a part of it.
    fn names(&self, part: &str) -> Result<Vec<String>> {
        let failed =
            |source| Error::Pin { what: "read directory", path: self.path.join(part), source };
        let entries = std::fs::read_dir(self.at(part)).map_err(failed)?;
        entries
            .map(|entry| Ok(entry.map_err(failed)?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    /// Returns the type of an entry, without following a symbolic link; `None`: no entry.
    fn file_type(&self, part: &str, name: &str) -> Result<Option<SFlag>> {
        let path = Path::new(part).join(name);
        match fstatat(&self.fd, &path, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => {
                Err(Error::Pin { what: "read", path: self.path.join(path), source: errno.into() })
            }
        }
    }

    fn failed(&self, what: &'static str, part: &str, errno: Errno) -> Error {
        Error::Pin { what, path: self.path.join(part), source: errno.into() }
    }
}

/// Content of a pin directory.
#[derive(Debug, Default)]
struct Content {
    /// Subdirectories that a node creates.
    parts: Vec<&'static str>,
    links: Vec<(u8, String)>,
    hooks: Vec<String>,
    /// At the tc ingress.
    tc_links: Vec<String>,
    tables: Vec<String>,
    /// Control socket of the owning node.
    owner: Option<PathBuf>,
    /// All other entries.
    foreign: Vec<PathBuf>,
}

impl Content {
    /// Returns whether a node created it: it contains links, tables, an owner, or at least both empty
    /// subdirectories.
    fn is_of_node(&self) -> bool {
        let empty = self.parts.len() == 2 && self.foreign.is_empty();
        let named = [&self.hooks, &self.tc_links, &self.tables];
        let pinned = !self.links.is_empty() || named.iter().any(|names| !names.is_empty());
        empty || self.owner.is_some() || pinned
    }
}

/// Parses slot and port of a pinned link.
fn link_name(name: &str) -> Option<(u8, String)> {
    let (slot, port) = name.split_once('-')?;
    let number: u8 = slot.parse().ok().filter(|&number| usize::from(number) < MAX_PORTS)?;
    (number.to_string() == slot && !port.is_empty()).then(|| (number, port.to_string()))
}

fn is_bpf(directory: impl AsFd) -> nix::Result<bool> {
    Ok(fstatfs(directory)?.filesystem_type() == BPF_FS_MAGIC)
}

/// Removes a directory if it exists and is empty.
fn remove_empty(parent: impl AsFd, name: &Path) -> nix::Result<()> {
    match unlinkat(parent, name, UnlinkatFlags::RemoveDir) {
        Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(()),
        removed => removed,
    }
}

/// Opens the directory at which the components of a path start, and returns the components.
///
/// `ip netns exec` gives its command a separate /sys without a BPF file system. One mounted there would
/// vanish with the command, and with it the data plane that is to outlive the daemon. The mount of process 1
/// is used instead if it has the same root directory: this crosses no container boundary, and `onbeat down`
/// finds the pins from anywhere.
fn start(path: &Path) -> nix::Result<(OwnedFd, &Path)> {
    let root = || File::open("/").map(OwnedFd::from).map_err(|error| errno(&error));
    if let Ok(below) = path.strip_prefix(BPF_MOUNT) {
        let here = File::open(BPF_MOUNT).ok();
        if !here.is_some_and(|here| is_bpf(here).unwrap_or(false)) {
            if let Some(shared) = bpf_of_init() {
                return Ok((shared, below));
            }
        }
    }
    Ok((root()?, path.strip_prefix("/").unwrap_or(path)))
}

/// Opens the BPF file system of process 1 if it has this root directory.
fn bpf_of_init() -> Option<OwnedFd> {
    let place = |path: &str| nix::sys::stat::stat(path).ok().map(|stat| (stat.st_dev, stat.st_ino));
    if place("/")? != place("/proc/1/root/")? {
        return None;
    }
    let shared = OwnedFd::from(File::open(format!("/proc/1/root{BPF_MOUNT}")).ok()?);
    is_bpf(&shared).unwrap_or(false).then_some(shared)
}

/// Returns whether pins under [`BPF_MOUNT`] go to the BPF file system of process 1, as none is mounted here.
#[must_use]
pub fn uses_mount_of_init() -> bool {
    start(&Path::new(BPF_MOUNT).join("-")).is_ok_and(|(_, rest)| rest == Path::new("-"))
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Opens a pin directory, or creates it with its missing parents in the BPF file system.
fn walk(path: &Path, create: bool) -> Result<Option<PinDirectory>> {
    let refused = |reason: String| Error::PinPath { path: path.to_path_buf(), reason };
    check_path(path).map_err(|reason| refused(reason.to_string()))?;
    let failed = |what| {
        move |errno: Errno| match errno {
            Errno::ENOTDIR | Errno::ELOOP => Error::PinPath {
                path: path.to_path_buf(),
                reason: "leads through a symbolic link or a file".to_string(),
            },
            errno => Error::Pin { what, path: path.to_path_buf(), source: errno.into() },
        }
    };
    let (mut directory, rest) = start(path).map_err(failed("open"))?;
    let mut parent = None;
    for component in rest.components() {
        let name = component.as_os_str();
        let next = match open_directory(&directory, name, OFlag::O_PATH) {
            Err(Errno::ENOENT) if create => {
                check_directory(path, directory.as_fd(), parent.is_some())?;
                make_directory(&directory, name, Mode::S_IRWXU).map_err(failed("create"))?;
                open_directory(&directory, name, OFlag::O_PATH)
            }
            Err(Errno::ENOENT) => return Ok(None),
            next => next,
        };
        let next = next.map_err(failed("open"))?;
        let device = |fd: &OwnedFd| fstat(fd).map(|stat| stat.st_dev).map_err(failed("read"));
        // The parent of a mount's root is in another file system.
        let below = device(&directory)? == device(&next)?;
        if below && is_bpf(&next).map_err(failed("read"))? {
            // No node pins below it, so that it keeps none from its removal. Its owner cannot replace one of root.
            if !create && is_of_another_user(&next).map_err(failed("read"))? {
                return Ok(None);
            }
            check_directory(path, next.as_fd(), true)?;
        }
        let above = std::mem::replace(&mut directory, next);
        parent = below.then_some(above);
    }
    check_directory(path, directory.as_fd(), parent.is_some())?;
    match parent {
        Some(parent) => {
            Ok(Some(PinDirectory { path: path.to_path_buf(), fd: directory, parent, lock: None }))
        }
        None => Err(refused("is the root of a mount".to_string())),
    }
}

fn is_of_another_user(directory: &OwnedFd) -> std::result::Result<bool, Errno> {
    let owner = fstat(directory)?.st_uid;
    Ok(owner != 0 && owner != geteuid().as_raw())
}

/// Checks that directories may be created, and objects pinned, in an open directory on the way to `path`. The
/// root of a BPF file system may be writable by all users, with the sticky bit.
fn check_directory(path: &Path, directory: BorrowedFd<'_>, below_root: bool) -> Result<()> {
    let path = path.to_path_buf();
    let read = |errno: Errno| Error::Pin { what: "read", path: path.clone(), source: errno.into() };
    if !is_bpf(directory).map_err(read)? {
        return Err(Error::NoBpfFilesystem { path });
    }
    let stat = fstat(directory).map_err(read)?;
    let mode = Mode::from_bits_truncate(stat.st_mode);
    let shared = mode.intersects(Mode::S_IWGRP | Mode::S_IWOTH);
    let own = stat.st_uid == 0 || stat.st_uid == geteuid().as_raw();
    if own && (!shared || !below_root && mode.contains(Mode::S_ISVTX)) {
        return Ok(());
    }
    let (uid, mode) = (stat.st_uid, mode.bits());
    let reason = format!(
        "leads through a directory that other users may write to (uid {uid}, mode {mode:04o})"
    );
    Err(Error::PinPath { path, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_paths_of_a_pin_directory() {
        for path in
            ["", "onbeat/a", "/", "/sys", "/sys/fs", "/sys/fs/bpf", "/sys/fs/bpf/", "/sys/fs/./bpf"]
        {
            assert!(check_path(Path::new(path)).is_err(), "{path}");
        }
        for path in ["/sys/fs/bpf/..", "/sys/fs/bpf/../x", "/sys/fs/bpf/onbeat/../../a", "/a/.."] {
            assert!(check_path(Path::new(path)).is_err(), "{path}");
        }
        for path in ["/sys/fs/bpf/a", "/sys/fs/bpf//onbeat/a/", "/run/bpf/a", "/a"] {
            assert!(check_path(Path::new(path)).is_ok(), "{path}");
        }
    }

    #[test]
    fn an_unreadable_directory_is_not_empty() {
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        let path = PathBuf::from("/sys/fs/bpf/hx");
        let directory = PinDirectory { path, fd: file(), parent: file(), lock: None };
        for error in [directory.links().unwrap_err(), directory.open_link(0, "a").unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("/sys/fs/bpf/hx"), "{text}");
            assert!(format!("{error:?} {text}").contains("ot a directory"), "{error:?}");
        }
    }

    #[test]
    fn names_of_links() {
        assert_eq!(link_name("0-path1"), Some((0, "path1".to_string())));
        assert_eq!(link_name("12-a-b"), Some((12, "a-b".to_string())));
        for name in ["", "0", "0-", "00-a", "+1-a", "-a", "256-a", "x-a", "99-a"] {
            assert_eq!(link_name(name), None, "{name}");
        }
    }
}

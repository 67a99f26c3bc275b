//! Network namespaces that exist as long as a file descriptor refers to them.

use std::{
    fs::{self, File, Metadata},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    panic,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sched::{CloneFlags, setns, unshare},
    sys::stat::fstat,
};

use crate::{Error, Handle, PrivateMounts, Result, sysfs};

/// The directory in which `ip netns` keeps namespaces by name.
pub const NAMED_NAMESPACES: &str = "/run/netns";

/// A network namespace, referenced by a file descriptor.
///
/// A namespace created by [`Namespace::new`] has no name and no mount. When the last descriptor is closed and
/// the last thread or process has left it, the kernel removes it with all virtual devices in it. The kernel
/// also closes the descriptors of a killed process, so no clean-up code is required.
///
/// Clones share the descriptor. Two values are equal if they refer to the same namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

/// The calling thread's namespace; `/proc/self` would be that of the main thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

impl Namespace {
    /// Creates an empty namespace; its loopback interface is down.
    ///
    /// # Errors
    /// The caller lacks CAP_SYS_ADMIN or the kernel lacks network namespaces.
    pub fn new() -> Result<Self> {
        // Only the helper thread changes its namespace.
        on_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::io("create a network namespace", errno))?;
            Self::current()
        })?
    }

    /// Creates a namespace whose loopback interface is up.
    ///
    /// # Errors
    /// As [`Namespace::new`].
    pub fn with_loopback() -> Result<Self> {
        let namespace = Self::new()?;
        Handle::in_namespace(&namespace)?.set_up("lo")?;
        Ok(namespace)
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// /proc is not mounted or not readable.
    pub fn current() -> Result<Self> {
        Self::from_path(CURRENT)
    }

    /// Opens the namespace of a file: `/run/netns/NAME`, `/proc/PID/ns/net`.
    ///
    /// Entering it fails if the file is not a network namespace.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| {
            Error::io(format!("open network namespace {}", path.display()), error)
        })?;
        Ok(Self { fd: Arc::new(file.into()) })
    }

    /// Returns a path by which other programs access the namespace while this process has it open, for
    /// example `nsenter --net=PATH`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()).into()
    }

    /// Returns the number that identifies the namespace while it exists (`net:[NUMBER]` in /proc).
    #[must_use]
    pub fn inode(&self) -> u64 {
        // fstat of an open descriptor does not fail in practice.
        fstat(&self.fd).map_or(0, |stat| stat.st_ino)
    }

    /// Returns the path of the namespace with this inode in the directory of `ip netns`; `None`: it has no
    /// name there.
    #[must_use]
    pub fn named_path(inode: u64) -> Option<PathBuf> {
        let device = fs::metadata("/proc/self/ns/net").ok()?.dev();
        let entries = fs::read_dir(NAMED_NAMESPACES).ok()?.flatten();
        let is = |of: Metadata| (of.dev(), of.ino()) == (device, inode);
        entries.map(|entry| entry.path()).find(|path| fs::metadata(path).is_ok_and(is))
    }

    /// Moves the calling thread into the namespace permanently.
    ///
    /// # Errors
    /// The caller lacks CAP_SYS_ADMIN or the descriptor is not of a network namespace.
    pub fn enter_thread(&self) -> Result<()> {
        // A thread that is in it already needs no privilege.
        if Self::current().is_ok_and(|current| current == *self) {
            return Ok(());
        }
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::io("enter a network namespace", errno))
    }

    /// Runs `f` in the namespace on a separate thread, and returns its result. The calling thread stays in
    /// its namespace. A panic of `f` continues in the caller.
    ///
    /// # Errors
    /// Those of [`Namespace::enter_thread`]; then `f` did not run.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        on_new_thread(|| {
            self.enter_thread()?;
            Ok(f())
        })?
    }

    /// Runs `f` like [`Namespace::run`], with a /sys that shows this namespace's devices.
    ///
    /// sysfs shows the devices of the namespace in which it was *mounted*, independent of the reader. The
    /// thread therefore gets a separate mount namespace with a new sysfs on /sys. It hides mounts below
    /// (including /sys/fs/bpf), and ends with the thread. Without CAP_SYS_ADMIN the thread uses the sysfs on
    /// /sys, if that shows this namespace's devices.
    ///
    /// # Errors
    /// Those of [`Namespace::run`]; sysfs cannot be mounted.
    pub fn run_with_sysfs<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        self.run(|| {
            let _mounts = match PrivateMounts::enter() {
                Err(error) if error.errno() == Some(Errno::EPERM) => {
                    return if sysfs::shows(&Handle::open()?)? { Ok(f()) } else { Err(error) };
                }
                entered => entered?,
            };
            match mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>) {
                // There is one sysfs per network namespace, and this one is mounted there.
                Err(Errno::EBUSY) => Ok(f()),
                Err(errno) => Err(Error::io("mount a sysfs for a network namespace", errno)),
                Ok(()) => Ok(f()),
            }
        })?
    }

    /// Makes `command` start in the namespace.
    pub fn start_in<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let namespace = self.clone();
        // SAFETY: between fork and exec the closure only calls setns, which is a bare system call: no
        // allocation, no lock.
        unsafe {
            command.pre_exec(move || {
                setns(&namespace.fd, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from)
            })
        }
    }
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.inode() == other.inode()
    }
}

impl Eq for Namespace {}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Namespace {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn on_new_thread<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, f)
            .map_err(|error| Error::io("start a thread for a network namespace", error))?;
        thread.join().map_err(|payload| panic::resume_unwind(payload))
    })
}

//! Network namespaces that nothing but a file descriptor keeps alive.

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

/// Where `ip netns` keeps namespaces by name.
pub const NAMED_NAMESPACES: &str = "/run/netns";

/// A network namespace, held by a file descriptor.
///
/// A namespace made by [`Namespace::new`] has no name and no mount. When the last descriptor is
/// closed and the last thread or process has left it, the kernel removes it with every virtual
/// device inside. A process killed by any means closes its descriptors, so that nothing stays
/// behind: no clean-up code has to run for that.
///
/// Clones share the descriptor. Two values are equal where they are the same namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
}

/// The calling thread's namespace. `/proc/self` would name that of the main thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

impl Namespace {
    /// A new, empty namespace; its loopback interface is down.
    ///
    /// # Errors
    /// Where the caller lacks CAP_SYS_ADMIN or the kernel lacks network namespaces.
    pub fn new() -> Result<Self> {
        // Only the helper thread changes its namespace: the caller stays where it is.
        on_new_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET)
                .map_err(|errno| Error::io("make a network namespace", errno))?;
            Self::current()
        })?
    }

    /// A new namespace whose loopback interface is up.
    ///
    /// # Errors
    /// As [`Namespace::new`].
    pub fn with_loopback() -> Result<Self> {
        let namespace = Self::new()?;
        Handle::in_namespace(&namespace)?.set_up("lo")?;
        Ok(namespace)
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// Where /proc is not mounted or not readable.
    pub fn current() -> Result<Self> {
        Self::from_path(CURRENT)
    }

    /// The namespace that a file stands for: `/run/netns/NAME`, `/proc/PID/ns/net`.
    ///
    /// That the file is a network namespace shows when it is entered.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|error| {
            Error::io(format!("open network namespace {}", path.display()), error)
        })?;
        Ok(Self { fd: Arc::new(file.into()) })
    }

    /// A path by which other programs reach the namespace while this process holds it, for
    /// example `nsenter --net=PATH`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd()).into()
    }

    /// The number that identifies the namespace as long as it lives (`net:[NUMBER]` in /proc).
    #[must_use]
    pub fn inode(&self) -> u64 {
        // fstat of a descriptor that is open fails for no reason that a caller could meet.
        fstat(&self.fd).map_or(0, |stat| stat.st_ino)
    }

    /// The path of the namespace with this inode that `ip netns` names; `None` where it has no name
    /// there.
    #[must_use]
    pub fn named_path(inode: u64) -> Option<PathBuf> {
        let device = fs::metadata("/proc/self/ns/net").ok()?.dev();
        let entries = fs::read_dir(NAMED_NAMESPACES).ok()?.flatten();
        let is = |of: Metadata| (of.dev(), of.ino()) == (device, inode);
        entries.map(|entry| entry.path()).find(|path| fs::metadata(path).is_ok_and(is))
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Errors
    /// Where the caller lacks CAP_SYS_ADMIN or the descriptor is of no network namespace.
    pub fn enter_thread(&self) -> Result<()> {
        // A thread that is there already needs no privilege to stay.
        if Self::current().is_ok_and(|current| current == *self) {
            return Ok(());
        }
        setns(&self.fd, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Error::io("enter a network namespace", errno))
    }

    /// Runs `f` in the namespace, on a thread of its own, and returns what it returns. The
    /// calling thread stays where it is. A panic of `f` goes on in the caller.
    ///
    /// # Errors
    /// As [`Namespace::enter_thread`]; then `f` did not run.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        on_new_thread(|| {
            self.enter_thread()?;
            Ok(f())
        })?
    }

    /// As [`Namespace::run`], with a /sys that shows this namespace's devices.
    ///
    /// sysfs shows the devices of the namespace in which it was *mounted*, whoever reads it. The
    /// thread therefore gets a mount namespace of its own with a fresh sysfs on /sys, which hides
    /// what is mounted below (/sys/fs/bpf among it), and vanishes with the thread. Without CAP_SYS_ADMIN
    /// it uses the sysfs on /sys, if that shows this namespace's devices.
    ///
    /// # Errors
    /// As [`Namespace::run`], and where sysfs cannot be mounted.
    pub fn run_with_sysfs<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        self.run(|| {
            let _mounts = match PrivateMounts::enter() {
                Err(error) if error.errno() == Some(Errno::EPERM) => {
                    return if sysfs::shows(&Handle::open()?)? { Ok(f()) } else { Err(error) };
                }
                entered => entered?,
            };
            match mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>) {
                // There is one sysfs for each network namespace, and this one is mounted there.
                Err(Errno::EBUSY) => Ok(f()),
                Err(errno) => Err(Error::io("mount a sysfs for a network namespace", errno)),
                Ok(()) => Ok(f()),
            }
        })?
    }

    /// Makes `command` start in the namespace.
    pub fn start_in<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let namespace = self.clone();
        // SAFETY: between fork and exec the closure calls setns and nothing else, which is a bare
        // system call: no allocation, no lock.
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

//! One program at a time on a network interface.

use std::path::Path;

use nix::unistd::geteuid;
use onbeat_netdev::Namespace;

use crate::{Error, Holder, Lock, NamespaceLock, PrivateDirectory, Result};

/// A lock on a network interface, by its namespace and index: programs that open it exclusively exclude
/// each other, with any back end. It is a lock file, and a
/// [`NamespaceLock`] for programs that do not share the run-time directory.
///
/// A process that is not root opens raw sockets by a capability (CAP_NET_RAW), and cannot write to
/// the run-time directory: it takes no lock, and logs a warning that names the interface. Every
/// other lock that such a process could take, any unprivileged process could hold as well, and keep
/// root from the interface with it.
#[derive(Debug)]
pub struct InterfaceLock {
    namespace: u64,
    index: u32,
    locks: Option<(Lock, NamespaceLock)>,
}

impl InterfaceLock {
    /// Directory of the locks.
    pub const DIRECTORY: &str = run_directory!("interfaces");

    /// Takes the lock on the interface with this index in the network namespace.
    /// `what` describes the holder to others: a node, a command.
    ///
    /// # Errors
    /// [`Error::InterfaceInUse`] with the owning process.
    pub fn take(namespace: &Namespace, index: u32, interface: &str, what: &str) -> Result<Self> {
        let inode = namespace.inode();
        if !geteuid().is_root() {
            tracing::warn!(
                "interface {interface:?} is not locked, as this process is not root: other programs \
                 can use it at the same time; each then receives every frame, and two senders use \
                 the same sequence numbers; run it as root to exclude them"
            );
            return Ok(Self { namespace: inode, index, locks: None });
        }
        let directory = PrivateDirectory::create(Path::new(Self::DIRECTORY))?;
        let lock = Lock::take(&directory, &file_name(namespace, index), what);
        let locks = lock.and_then(|lock| {
            Ok((lock, NamespaceLock::take(namespace, &format!("interface/{index}"))?))
        });
        match locks {
            Ok(locks) => {
                // Without a process that could remove them they would stay until the next boot.
                if let Err(error) = Lock::remove_stale(&directory) {
                    tracing::warn!("stale lock files not removed: {error}");
                }
                Ok(Self { namespace: inode, index, locks: Some(locks) })
            }
            Err(Error::Locked { holder, .. }) => {
                Err(Error::InterfaceInUse { interface: interface.to_owned(), holder })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the process that has the lock on the interface with this index; `None`: none that shares the run-time
    /// directory. Nothing is changed.
    ///
    /// # Errors
    /// The locks are not readable.
    pub fn holder(namespace: &Namespace, index: u32) -> Result<Option<Holder>> {
        let Some(directory) = PrivateDirectory::open(Path::new(Self::DIRECTORY))? else {
            return Ok(None);
        };
        Lock::holder(&directory, &file_name(namespace, index))
    }

    /// Returns whether it excludes other programs: false in a process that is not root.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.locks.is_some()
    }

    /// Returns whether it is the lock on this interface.
    #[must_use]
    pub fn is_of(&self, namespace: u64, index: u32) -> bool {
        (self.namespace, self.index) == (namespace, index)
    }
}

/// Name of the lock file of an interface.
fn file_name(namespace: &Namespace, index: u32) -> String {
    format!("{}-{index}.lock", namespace.inode())
}

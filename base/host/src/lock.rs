//! A lock that the kernel releases when its process exits, however it exits.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::{FileStat, Mode, fchmod, fstat};

use crate::component::create;
use crate::error::failed;
use crate::holder::{Record, holder, own_holder};
use crate::{Error, Holder, PrivateDirectory, Result};

/// Octets of a lock file that are read.
const CONTENT: u64 = 4096;

/// Attempts while other processes release the lock, each of which removes the file, and while the
/// file describes a process that no longer exists: the holder is removing it, or has not recorded
/// itself yet. A thread of real-time priority can preempt such a holder for most of a second.
const ATTEMPTS: usize = 2000;
const PAUSE: Duration = Duration::from_millis(1);

/// A lock on a name in a private directory: at most one process has it.
///
/// The file has mode 0600 from the moment it is made, so that no other user can open it, and thus
/// none can hold the lock: flock requires no more than read permission. Released on drop, and by the
/// kernel when the process exits.
#[derive(Debug)]
pub struct Lock {
    directory: PrivateDirectory,
    name: String,
    file: Flock<File>,
    is_inherited: bool,
}

impl Lock {
    /// Acquires the lock without waiting. `what` describes the holder to others: a node, a command.
    ///
    /// # Errors
    /// [`Error::Locked`] with the owning process; [`Error::Refused`]: the file is not a regular file of this
    /// user.
    pub fn take(directory: &PrivateDirectory, name: &str, what: &str) -> Result<Self> {
        let path = directory.file(name);
        for _ in 0..ATTEMPTS {
            let Some((file, stat)) = open_locked(directory, name)? else {
                // With content from the start: other programs create lock files without content.
                let record = record(what).map_err(failed(&path, "write the lock"))?;
                create(directory, name.as_ref(), &record)
                    .map_err(failed(&path, "make the lock"))?;
                continue;
            };
            if stat.st_mode & 0o7777 != 0o600 {
                let mode = Mode::S_IRUSR | Mode::S_IWUSR;
                fchmod(&*file, mode).map_err(failed(&path, "set its mode"))?;
            }
            let is_inherited = Record::is_of_live_process(&content(&file)) == Some(false);
            // From here on dropping removes the file, also if it cannot be written.
            let mut lock =
                Self { directory: directory.clone(), name: name.to_owned(), file, is_inherited };
            lock.record(what).map_err(failed(&path, "write the lock"))?;
            return Ok(lock);
        }
        Err(failed(&path, "lock it")(Errno::EAGAIN))
    }

    /// Returns the process that has the lock; `None`: none. The file is not changed.
    ///
    /// # Errors
    /// As [`Lock::take`].
    pub fn holder(directory: &PrivateDirectory, name: &str) -> Result<Option<Holder>> {
        match open_locked(directory, name) {
            Ok(_) => Ok(None),
            Err(Error::Locked { holder, .. }) => Ok(Some(holder)),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a killed process left the lock, and no process has it. The file is not changed.
    ///
    /// # Errors
    /// Those of [`Lock::take`], but [`Error::Locked`].
    pub fn is_left(directory: &PrivateDirectory, name: &str) -> Result<bool> {
        match open_locked(directory, name) {
            Ok(Some((file, _))) => Ok(Record::is_of_live_process(&content(&file)) == Some(false)),
            Ok(None) | Err(Error::Locked { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a killed process left the file: objects that it created under this lock may still
    /// exist.
    #[must_use]
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Removes lock files of processes that no longer exist, such as those of removed interfaces. Other files
    /// stay.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_stale(directory: &PrivateDirectory) -> Result<()> {
        for name in directory.names()?.into_iter().filter(|name| name.ends_with(".lock")) {
            // Another process may have removed it; files of other users are ignored.
            let Ok(Some((file, stat))) = directory.open_file(&name, OFlag::O_RDWR) else {
                continue;
            };
            if Record::is_of_live_process(&content(&file)) != Some(false) {
                continue;
            }
            let Ok(file) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
            if is_same(directory.stat(&name)?, &stat) {
                // Dropping removes the file while it is locked.
                drop(Self { directory: directory.clone(), name, file, is_inherited: true });
            }
        }
        Ok(())
    }

    /// Writes a description of this process, for messages of others.
    fn record(&mut self, what: &str) -> io::Result<()> {
        let mut record = record(what)?;
        let length = record.len() as u64;
        // The former record may be longer. The file is never empty, as this process may be killed.
        let before = self.file.metadata()?.len().clamp(length, CONTENT.max(length));
        record.resize(usize::try_from(before).map_err(io::Error::other)?, b' ');
        self.file.rewind()?;
        self.file.write_all(&record)?;
        self.file.set_len(length)
    }

    /// Refuses while a live process of this user holds a flock of the former version: on a file of
    /// that name, or on the directory itself where there is no name. Other users' locks do not
    /// count: that file was readable for them.
    ///
    /// # Errors
    /// [`Error::Locked`].
    pub fn refuse_former(directory: &PrivateDirectory, name: Option<&str>) -> Result<()> {
        let (path, stat) = match name {
            Some(name) => (directory.file(name), directory.stat(name)?),
            None => (directory.path().to_owned(), fstat(directory).ok()),
        };
        match stat.as_ref().and_then(own_holder) {
            Some(holder) => Err(Error::Locked { path, holder }),
            None => Ok(()),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.file(&self.name)
    }
}

/// The content of the lock file of this process.
fn record(what: &str) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(&Record::new(what))?)
}

/// Returns the content of a lock file, as far as it can be read.
fn content(file: &File) -> Vec<u8> {
    let mut content = Vec::new();
    // Unreadable content is not that of a lock.
    let _ = file.take(CONTENT).read_to_end(&mut content);
    content
}

/// Opens and locks the file of a name; `None`: no such file.
fn open_locked(
    directory: &PrivateDirectory,
    name: &str,
) -> Result<Option<(Flock<File>, FileStat)>> {
    let path = directory.file(name);
    for attempt in 1..=ATTEMPTS {
        let Some((file, stat)) = directory.open_file(name, OFlag::O_RDWR)? else {
            return Ok(None);
        };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) if is_same(directory.stat(name)?, &stat) => return Ok(Some((file, stat))),
            // The process before removed the file between open and lock.
            Ok(_) => {}
            Err((file, Errno::EWOULDBLOCK)) => {
                let content = content(&file);
                let is_stale = Record::is_of_live_process(&content) != Some(true);
                if is_stale && attempt < ATTEMPTS {
                    thread::sleep(PAUSE);
                    continue;
                }
                return Err(Error::Locked { path, holder: holder(&stat, &content) });
            }
            Err((_, errno)) => return Err(failed(&path, "lock it")(errno)),
        }
    }
    Err(failed(&path, "lock it")(Errno::EAGAIN))
}

fn is_same(there: Option<FileStat>, locked: &FileStat) -> bool {
    there.is_some_and(|there| (there.st_dev, there.st_ino) == (locked.st_dev, locked.st_ino))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // While the lock is held the name is this process's own. The file is closed only
        // afterwards, so that a process that opened the file before sees that it was removed.
        let own = fstat(&*self.file).ok();
        if own.is_some_and(|own| is_same(self.directory.stat(&self.name).ok().flatten(), &own)) {
            let _ = self.directory.remove(&self.name);
        }
    }
}

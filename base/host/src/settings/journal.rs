//! Former values of settings, in a file for later processes.

use std::path::{Path, PathBuf};

use crate::{Content, Lock, PrivateDirectory, command_line, discard_remedy};
use serde::{Deserialize, Serialize};

use super::Result;
use super::{Entry, Log};

const FILE: &str = "journal.json";

/// The journal of this host's settings, locked: one process at a time changes them.
#[derive(Debug)]
pub struct Journal {
    file: crate::Journal<Entries>,
    entries: Vec<Entry>,
    _lock: Lock,
    // Dropped after the lock, whose file is in the directory.
    _directory: TemporaryDirectory,
}

/// A directory that is removed once no process has a file in it.
#[derive(Debug)]
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Err(error) = PrivateDirectory::remove_empty(&self.0) {
            tracing::debug!("{error}");
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Entries {
    entries: Vec<Entry>,
}

impl Content for Entries {
    fn check(&self) -> std::result::Result<(), String> {
        self.entries.iter().try_for_each(|entry| entry.place.check())
    }
}

impl Journal {
    /// The directory of the journal.
    pub const DIRECTORY: &str = crate::run_directory!("realtime");

    /// Opens the journal in a directory, with the entries that an earlier process left. `discard` is the
    /// command that discards a damaged one ([`Journal::set_aside`]).
    ///
    /// # Errors
    /// [`super::Error::Host`]: another process has it, it cannot be used, other users can write to
    /// the directory.
    pub fn open(directory: &Path, discard: &str) -> Result<Self> {
        let (lock, file) = locked(directory, discard)?;
        let entries = file.read()?.map(|content| content.entries).unwrap_or_default();
        let _directory = TemporaryDirectory(directory.to_owned());
        Ok(Self { file, entries, _lock: lock, _directory })
    }

    /// Discards a damaged journal: moves it aside and returns its new path. `None`: the journal is usable, or
    /// does not exist.
    ///
    /// # Errors
    /// Those of [`Journal::open`], except that it is unusable.
    pub fn set_aside(directory: &Path) -> Result<Option<PathBuf>> {
        let (_lock, file) = locked(directory, "")?;
        Ok(file.set_aside()?)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }
}

fn locked(directory: &Path, discard: &str) -> Result<(Lock, crate::Journal<Entries>)> {
    let (lock, directory) = loop {
        let directory = PrivateDirectory::create(directory)?;
        Lock::refuse_former(&directory, None)?;
        match Lock::take(&directory, "journal.lock", &command_line()) {
            Ok(lock) => break (lock, directory),
            // Removed by the former owner of the journal.
            Err(_) if directory.is_removed()? => {}
            Err(error) => return Err(error.into()),
        }
    };
    Ok((lock, crate::Journal::new(directory, FILE, discard_remedy(discard))))
}

impl Log for Journal {
    fn entries(&self) -> Vec<Entry> {
        self.entries.clone()
    }

    fn replace(&mut self, entries: Vec<Entry>) -> Result<()> {
        let content = Entries { entries };
        if content.entries.is_empty() {
            self.file.remove()?;
        } else {
            self.file.write(&content)?;
        }
        self.entries = content.entries;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Error;
    use super::*;

    #[test]
    fn the_last_journal_removes_the_directory_without_refusing_others() {
        let parent = onbeat_testing::TemporaryDirectory::new("realtime-journal");
        let path = parent.file("journal");
        let opened = AtomicUsize::new(0);
        let open = || {
            for _ in 0..100 {
                match Journal::open(&path, "") {
                    Ok(_journal) => _ = opened.fetch_add(1, Ordering::Relaxed),
                    Err(Error::Host(crate::Error::Locked { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(open)));
        assert!(opened.into_inner() > 0);
        assert!(!path.exists());
    }
}

//! The journal of an interface that is claimed, or whose NIC is set to stamp: its settings from
//! before, so that any later process can restore them.

use std::path::{Path, PathBuf};

use onbeat_host::{Content, Journal as File, Lock, PrivateDirectory, command_line};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Content of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry<B> {
    /// The inode of the namespace that the interface comes from.
    pub(crate) home: u64,
    /// The interface as it was there.
    pub(crate) before: B,
}

/// Each value goes to an interface by a request that the kernel checks; none is a path or a name that
/// is followed.
impl<B: Serialize + DeserializeOwned> Content for Entry<B> {
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// A journal, locked.
#[derive(Debug)]
pub(crate) struct Journal<B> {
    directory: PrivateDirectory,
    file: File<Entry<B>>,
    _lock: Lock,
}

impl<B: Serialize + DeserializeOwned> Journal<B> {
    /// Where it is.
    pub(crate) fn path(directory: &Path, interface: &str) -> PathBuf {
        directory.join(name(interface))
    }

    /// Opens and locks the journal of an interface, whose name is checked.
    pub(crate) fn lock(directory: &Path, interface: &str) -> Result<Self> {
        let directory = PrivateDirectory::create(directory)?;
        let name = name(interface);
        let claimed = |error| match error {
            onbeat_host::Error::Locked { holder, .. } => {
                Error::Claimed { interface: interface.to_owned(), by: holder }
            }
            error => error.into(),
        };
        Lock::refuse_former(&directory, Some(&name)).map_err(claimed)?;
        let lock = Lock::take(&directory, &format!("{interface}.lock"), &command_line());
        let lock = lock.map_err(claimed)?;
        let remedy = format!(
            "restore the settings of {interface:?} by hand, and remove the file: none of its values \
             is restored"
        );
        let file = File::new(directory.clone(), &name, remedy);
        Ok(Self { directory, file, _lock: lock })
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &PrivateDirectory {
        &self.directory
    }

    /// The settings that an earlier process left changed.
    pub(crate) fn left(&self) -> Result<Option<Entry<B>>> {
        Ok(self.file.read()?)
    }

    pub(crate) fn write(&self, entry: &Entry<B>) -> Result<()> {
        Ok(self.file.write(entry)?)
    }

    /// Removes it: everything is restored.
    pub(crate) fn remove(self) -> Result<()> {
        Ok(self.file.remove()?)
    }
}

fn name(interface: &str) -> String {
    format!("{interface}.json")
}

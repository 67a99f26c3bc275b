//! The journal of an interface that is claimed, or whose NIC time stamps are enabled: its former settings, so that
//! any later process can restore them.

use std::path::{Path, PathBuf};

use onbeat_host::{Content, Journal as File, Lock, PrivateDirectory, command_line, discard_remedy};
use onbeat_netdev::{InterfaceIdentity, check_name};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The content of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredEntry<B>")]
pub(crate) struct JournalEntry<B> {
    /// The interface, in its original namespace.
    pub(crate) interface: InterfaceIdentity,
    /// The former settings.
    pub(crate) before: B,
}

/// An entry of this version or the former one, which held only the inode of the namespace: the name is that of the
/// journal.
#[derive(Deserialize)]
struct StoredEntry<B> {
    interface: Option<InterfaceIdentity>,
    #[serde(default)]
    home: u64,
    before: B,
}

impl<B> From<StoredEntry<B>> for JournalEntry<B> {
    fn from(StoredEntry { interface, home, before }: StoredEntry<B>) -> Self {
        let interface = interface.unwrap_or_else(|| InterfaceIdentity::former(home, ""));
        Self { interface, before }
    }
}

/// Settings of an interface in a journal.
pub(crate) trait Settings: Serialize + DeserializeOwned {
    /// Checks that a process could have read them from the interface; the content is untrusted.
    ///
    /// # Errors
    /// The cause, with the invalid value.
    fn check(&self, interface: &str) -> std::result::Result<(), String>;
}

impl<B: Settings> Content for JournalEntry<B> {
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    fn check_name(&self, name: &str) -> std::result::Result<(), String> {
        let interface = name.strip_suffix(SUFFIX).unwrap_or(name);
        if !["", interface].contains(&self.interface.name()) {
            return Err(format!("it belongs to interface {:?}", self.interface.name()));
        }
        self.before.check(interface)
    }
}

/// The suffix of a journal's file name, after the name of the interface.
const SUFFIX: &str = ".json";

/// A locked journal.
#[derive(Debug)]
pub(crate) struct Journal<B: Settings> {
    directory: PrivateDirectory,
    file: File<JournalEntry<B>>,
    interface: String,
    _lock: Lock,
}

impl<B: Settings> Journal<B> {
    /// Returns the path of the journal.
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
        let file = File::new(directory.clone(), &name, remedy(directory.path()));
        Ok(Self { directory, file, interface: interface.to_owned(), _lock: lock })
    }

    /// Discards the damaged journals in a directory, except those that a live process uses: moves them aside, and
    /// returns their new paths.
    pub(crate) fn discard_damaged(directory: &Path) -> Result<Vec<PathBuf>> {
        let mut aside = Vec::new();
        let Some(opened) = PrivateDirectory::open(directory)? else { return Ok(aside) };
        for name in opened.names()? {
            let interface = name.strip_suffix(SUFFIX);
            let Some(interface) = interface.filter(|name| check_name(name).is_ok()) else {
                continue;
            };
            match Self::lock(directory, interface) {
                Err(Error::Claimed { .. }) => {}
                journal => aside.extend(journal?.file.set_aside()?),
            }
        }
        Ok(aside)
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &PrivateDirectory {
        &self.directory
    }

    /// Returns the settings that an earlier process left changed.
    pub(crate) fn left(&self) -> Result<Option<JournalEntry<B>>> {
        let mut left = self.file.read()?;
        if let Some(entry) = &mut left {
            entry.interface.set_former_name(&self.interface);
        }
        Ok(left)
    }

    pub(crate) fn write(&self, entry: &JournalEntry<B>) -> Result<()> {
        Ok(self.file.write(entry)?)
    }

    /// Removes the journal once everything is restored.
    pub(crate) fn remove(self) -> Result<()> {
        Ok(self.file.remove()?)
    }
}

fn name(interface: &str) -> String {
    format!("{interface}{SUFFIX}")
}

/// Adds the name of the journal to the error of an interface that cannot be identified.
pub(crate) fn not_identified(error: Error, journal: &Path) -> Error {
    match error {
        Error::Netdev(onbeat_netdev::Error::NotIdentified { interface, why, remedy }) => {
            Error::InUse {
                interface,
                why: format!("it is not the interface of journal {journal:?}: {why}"),
                remedy: format!("{remedy}, or remove the journal"),
            }
        }
        error => error,
    }
}

/// Returns the remedy for a damaged journal. The command discards those in the run-time directory.
fn remedy(directory: &Path) -> String {
    if directory.starts_with(onbeat_host::RUN) {
        discard_remedy("onbeat doctor --restore --forget")
    } else {
        "restore the settings by hand, and remove the file".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_the_command_for_the_run_time_directory() {
        for (directory, command) in
            [("/run/onbeat/claims", true), ("/run/onbeat/taps/7", true), ("/tmp/claims", false)]
        {
            let remedy = remedy(Path::new(directory));
            assert_eq!(remedy.ends_with("onbeat doctor --restore --forget"), command, "{remedy}");
        }
    }
}

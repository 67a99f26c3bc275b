//! Former values of settings, in a file for later processes.

use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::path::PathBuf;

use nix::fcntl::OFlag;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::failed;
use crate::holder::boot;
use crate::{Error, PrivateDirectory, Result, remove_unfinished, replace};

/// Maximum length of a journal, in octets.
const LONGEST: u64 = 16 << 20;

/// Maximum number of discarded journals of one name.
const ASIDE: usize = 100;

/// Version of the journal format.
const VERSION: u64 = 1;

/// Content of a journal.
pub trait Content: Serialize + DeserializeOwned {
    /// Checks the content as untrusted input: a privileged process acts on it.
    ///
    /// # Errors
    /// The invalid part, with its value.
    fn check(&self) -> std::result::Result<(), String>;

    /// Checks that the content belongs to the journal with this file name.
    ///
    /// # Errors
    /// As [`Content::check`].
    fn check_name(&self, _name: &str) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// A journal in a private directory. The process that uses it has a [`Lock`](crate::Lock) there.
///
/// The file is written as a whole: after a crash it is the former one or the new one. It names the
/// boot: settings of network interfaces, interrupts and threads, and interfaces that a program made,
/// do not survive a boot, so that there is nothing to restore from a journal of an earlier one, and
/// [`Journal::read`] reports none. A journal that names no boot, as the former version wrote it, is of
/// this boot where its file system does not survive one either: a tmpfs, such as /run. Elsewhere its
/// boot is unknown, and the journal is refused.
#[derive(Debug)]
pub struct Journal<T> {
    directory: PrivateDirectory,
    name: String,
    remedy: String,
    content: PhantomData<T>,
}

/// Returns the remedy for an unusable journal that this command discards.
#[must_use]
pub fn discard_remedy(command: &str) -> String {
    format!("discard it, and restore none of its settings, with: {command}")
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u64,
    boot: String,
    content: T,
}

impl<T: Content> Journal<T> {
    /// The journal of this name; opens nothing. `remedy` is the user's remedy for a journal that
    /// cannot be used, such as [`discard_remedy`].
    #[must_use]
    pub fn new(directory: PrivateDirectory, name: &str, remedy: impl Into<String>) -> Self {
        let (name, remedy) = (name.to_owned(), remedy.into());
        Self { directory, name, remedy, content: PhantomData }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.file(&self.name)
    }

    /// Returns the content; `None`: no journal, or one of an earlier boot. Removes incomplete files of a
    /// process that was killed during a write.
    ///
    /// # Errors
    /// [`Error::Damaged`]: it is empty, cut off, not a journal, too long, of another user, writable
    /// by others, of an unknown boot, or its content breaks a rule of [`Content`].
    pub fn read(&self) -> Result<Option<T>> {
        let failed = failed(&self.path(), "read it");
        remove_unfinished(&self.directory, self.name.as_ref()).map_err(&failed)?;
        let (file, stat) = match self.directory.open_file(&self.name, OFlag::O_RDONLY) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(None),
            Err(Error::Refused { why, .. }) => return Err(self.damaged(why)),
            Err(error) => return Err(error),
        };
        if stat.st_mode & 0o022 != 0 {
            let mode = stat.st_mode & 0o7777;
            return Err(self.damaged(format!("other users can write to it (mode {mode:04o})")));
        }
        let octets = read(file).map_err(failed)?;
        if octets.len() as u64 > LONGEST {
            return Err(self.damaged(format!("it is longer than {LONGEST} octets")));
        }
        if octets.is_empty() {
            return Err(self.damaged("it is empty".into()));
        }
        let content = self.parse(&octets, &boot()).map_err(|why| self.damaged(why))?;
        Ok(content)
    }

    /// The content of a journal of this boot. The former version wrote the content alone, of which
    /// some named the boot.
    fn parse(&self, octets: &[u8], this_boot: &str) -> std::result::Result<Option<T>, String> {
        let not_one = |error: serde_json::Error| format!("it is not a journal: {error}");
        let value: Value = serde_json::from_slice(octets).map_err(not_one)?;
        let named = value.get("boot").and_then(Value::as_str).unwrap_or_default();
        if !is_of_boot(named, this_boot, self.directory.is_volatile())? {
            return Ok(None);
        }
        let content: T = match value.get("version").map(Value::as_u64) {
            None => serde_json::from_value(value).map_err(not_one)?,
            Some(Some(VERSION)) => {
                serde_json::from_value::<Envelope<T>>(value).map_err(not_one)?.content
            }
            Some(_) => return Err("another version of onbeat wrote it".into()),
        };
        content.check()?;
        content.check_name(&self.name)?;
        Ok(Some(content))
    }

    /// Writes the content in place of the former one.
    ///
    /// # Errors
    /// The kernel refuses: as [`replace`].
    pub fn write(&self, content: &T) -> Result<()> {
        let failed = failed(&self.path(), "write it");
        let envelope = Envelope { version: VERSION, boot: boot(), content };
        let octets = serde_json::to_vec_pretty(&envelope).map_err(|e| failed(e.into()))?;
        self.directory.check_name(&self.name)?;
        replace(&self.directory, self.name.as_ref(), &octets).map_err(failed)
    }

    /// Removes the journal: everything is restored.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&self) -> Result<()> {
        self.directory.remove(&self.name)
    }

    /// Discards a journal that cannot be used: moves it aside, for a person to read, and replaces no
    /// file. Returns where it is then; `None` where the journal can be used, or there is none.
    ///
    /// # Errors
    /// The kernel refuses; [`Error::Damaged`] where too many were moved aside before.
    pub fn set_aside(&self) -> Result<Option<PathBuf>> {
        match self.read() {
            Err(Error::Damaged { .. }) => {
                let first = format!("{}.damaged", self.name);
                let others = (1..ASIDE).map(|number| format!("{first}.{number}"));
                for aside in std::iter::once(first.clone()).chain(others) {
                    if self.directory.rename_new(&self.name, &aside)? {
                        return Ok(Some(self.directory.file(&aside)));
                    }
                }
                let names = self.directory.file(&format!("{first}*"));
                Err(self.damaged(format!("{ASIDE} files {names:?} exist; remove them first")))
            }
            other => other.map(|_| None),
        }
    }

    fn damaged(&self, why: String) -> Error {
        Error::Damaged { path: self.path(), why, remedy: self.remedy.clone() }
    }
}

/// Reads at most one octet more than the maximum, which indicates that it is too long.
fn read(file: File) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut octets)?;
    Ok(octets)
}

/// Whether a journal that names the boot `named` is of the boot `this`; either is empty where it is
/// unknown. `volatile`: the journal's file system does not survive a boot.
fn is_of_boot(named: &str, this: &str, volatile: bool) -> std::result::Result<bool, String> {
    match (named, this) {
        ("", _) | (_, "") if volatile => Ok(true),
        ("", _) => Err("it does not name the boot that it was written in".into()),
        (_, "") => Err("the kernel does not report the id of this boot".into()),
        (named, this) => Ok(named == this),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_boot_is_this_one_only_where_no_file_survives_a_boot() {
        for (named, this, volatile, expected) in [
            ("a", "a", false, Some(true)),
            ("a", "a", true, Some(true)),
            ("a", "b", false, Some(false)),
            ("a", "b", true, Some(false)),
            ("", "b", true, Some(true)),
            ("a", "", true, Some(true)),
            ("", "", true, Some(true)),
            ("", "b", false, None),
            ("a", "", false, None),
            ("", "", false, None),
        ] {
            let found = is_of_boot(named, this, volatile).ok();
            assert_eq!(found, expected, "{named:?} {this:?} {volatile}");
        }
    }
}

//! What was there before, in a file that any later process finds.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::{Entry, Log};
use crate::{Error, Result};

/// The journal of this host's settings, locked: one process at a time changes them.
///
/// The lock is on the directory, so that no file stays when there is nothing to put back; the kernel
/// takes it away with the process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    content: Content,
    _lock: Flock<File>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    /// The process that wrote it last.
    pid: u32,
    /// A boot sets everything anew: what an earlier one changed is not there to put back.
    boot: String,
    entries: Vec<Entry>,
}

impl Journal {
    /// Where the journal is, from the root of the file system.
    pub const DIRECTORY: &str = "/run/onbeat/realtime";

    /// Opens the journal in a directory, with what an earlier process left.
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Journal`] where it is not to be had or cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("journal.json");
        let failed = |operation| failed(&path, operation);
        fs::create_dir_all(directory).map_err(failed("make its directory"))?;
        let file = File::open(directory).map_err(failed("open its directory"))?;
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => {
                let pid = read(&path).ok().flatten().map(|content| content.pid);
                let by = pid.map_or("another process".into(), |pid| format!("process {pid}"));
                return Err(Error::Busy { path: directory.to_owned(), by });
            }
            Err((_, errno)) => return Err(failed("lock its directory")(errno.into())),
        };
        let boot = boot();
        let left = read(&path).map_err(failed("read it"))?;
        let entries = match left {
            Some(content) if content.boot == boot => content.entries,
            _ => Vec::new(),
        };
        let content = Content { pid: std::process::id(), boot, entries };
        Ok(Self { path, content, _lock: lock })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Log for Journal {
    fn entries(&self) -> Vec<Entry> {
        self.content.entries.clone()
    }

    fn replace(&mut self, entries: Vec<Entry>) -> Result<()> {
        let content = Content { entries, boot: self.content.boot.clone(), ..self.content };
        if content.entries.is_empty() {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&self.path, "remove it")(error));
                }
                _ => {}
            }
        } else {
            // A process that is killed leaves the old one or the new one.
            let new = self.path.with_extension("new");
            serde_json::to_vec_pretty(&content)
                .map_err(io::Error::from)
                .and_then(|text| fs::write(&new, text))
                .and_then(|()| fs::rename(&new, &self.path))
                .map_err(failed(&self.path, "write it"))?;
        }
        self.content = content;
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Option<Content>> {
    match fs::read(path) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number of this boot; nothing where /proc does not say, which is the same within a boot.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Journal { path: path.clone(), operation, source }
}

//! The journal of what is taken or changed: what an interface was like, so that any later process
//! can give it back. Its lock says whether the process that wrote it lives: the kernel takes the lock away
//! with the process, however that ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry<B> {
    /// The process that wrote it.
    pub(crate) pid: u32,
    /// The inode of the namespace that the interface comes from.
    pub(crate) home: u64,
    /// The interface as it was there.
    pub(crate) before: B,
}

/// A journal, locked.
#[derive(Debug)]
pub(crate) struct Journal<B> {
    path: PathBuf,
    file: Flock<File>,
    before: PhantomData<B>,
}

impl<B: Serialize + DeserializeOwned> Journal<B> {
    /// Where it is.
    pub(crate) fn path(directory: &Path, interface: &str) -> PathBuf {
        directory.join(format!("{interface}.json"))
    }

    /// Opens and locks the journal of an interface.
    pub(crate) fn lock(directory: &Path, interface: &str) -> Result<Self> {
        let path = Self::path(directory, interface);
        let failed = |operation| failed(&path, operation);
        fs::create_dir_all(directory).map_err(failed("make its directory"))?;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.open(&path).map_err(failed("open the journal"))?;
            let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let by = read::<B>(&mut file)
                        .map_or("another process".into(), |entry| format!("process {}", entry.pid));
                    return Err(Error::Claimed { interface: interface.to_owned(), by });
                }
                Err((_, errno)) => return Err(failed("lock the journal")(errno.into())),
            };
            // Whoever had the lock before may have removed the file that it is a lock of.
            let locked = file.metadata().map_err(failed("look at the journal"))?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == locked) {
                return Ok(Self { path, file, before: PhantomData });
            }
        }
    }

    /// What an earlier process left undone. A journal cut off while it was written is of a process
    /// that had changed nothing yet.
    pub(crate) fn left(&mut self) -> Option<Entry<B>> {
        read(&mut self.file)
    }

    pub(crate) fn write(&mut self, entry: &Entry<B>) -> Result<()> {
        let file = &mut *self.file;
        let result = serde_json::to_vec_pretty(entry).map_err(io::Error::from).and_then(|text| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&text)
        });
        result.map_err(failed(&self.path, "write the journal"))
    }

    /// Forgets it: all is given back.
    pub(crate) fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(failed(&self.path, "remove the journal"))
    }
}

fn read<B: DeserializeOwned>(file: &mut File) -> Option<Entry<B>> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

pub(crate) fn failed(path: &Path, operation: &'static str) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Claim { path: path.clone(), operation, source }
}

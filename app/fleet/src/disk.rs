//! Files of this program: read if no other user can have written them, and written whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use onbeat_host::{file, trust};

use crate::error::{Error, Result};

/// Creates a directory that only its owner can read.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    let created = DirBuilder::new().mode(0o700).recursive(true).create(path);
    created.map_err(Error::file(path))
}

/// Whether something has this name.
pub(crate) fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::file(path)(error)),
    }
}

/// Requires a name of a directory that does not exist, or is empty: keys are never replaced.
pub(crate) fn check_new(path: &Path) -> Result<()> {
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    match exists(path)? && !is_empty {
        true => Err(Error::Content {
            path: path.to_owned(),
            fault: "exists, and is not empty; name another directory, or remove it".into(),
        }),
        false => Ok(()),
    }
}

/// Creates a directory with files that only its owner can read: it has all of them, or does not exist.
pub(crate) fn create_whole(path: &Path, files: &[(PathBuf, String)]) -> Result<()> {
    let name = path.file_name().ok_or_else(|| Error::Content {
        path: path.to_owned(),
        fault: "is no name of a new directory".into(),
    })?;
    check_new(path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    create_directory(parent)?;
    // Of an interrupted command another one can be there: its name is not used again.
    let unfinished = parent.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    DirBuilder::new().mode(0o700).create(&unfinished).map_err(Error::file(&unfinished))?;
    let written = write_all(&unfinished, files).and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = written {
        let _ = fs::remove_dir_all(&unfinished);
        return Err(Error::file(path)(error));
    }
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(Error::file(parent))
}

fn write_all(directory: &Path, files: &[(PathBuf, String)]) -> std::io::Result<()> {
    for (name, content) in files {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        DirBuilder::new().mode(0o700).recursive(true).create(parent)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
    }
    Ok(())
}

/// Reads a text of at most this number of octets.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    trust::load(path, |path| file::read_text(path, most).map_err(Error::file(path)))
}

/// Reads a text; `None`: the file does not exist.
pub(crate) fn read_if_there(path: &Path, most: u64) -> Result<Option<String>> {
    if exists(path)? { read(path, most).map(Some) } else { Ok(None) }
}

/// Writes a file such that it has the old content or the new one, also after a loss of power.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default();
    let opened = File::open(directory.unwrap_or(Path::new(".")));
    let written = opened.and_then(|directory| onbeat_host::replace(directory, name, content));
    written.map_err(Error::file(path))
}

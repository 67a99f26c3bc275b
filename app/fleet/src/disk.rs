//! Files of this program: read if no other user can have written them, and written whole.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use onbeat_host::{file, trust};

use crate::error::{Error, Result};

/// Creates a directory that only its owner can read.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    let created = DirBuilder::new().mode(0o700).recursive(true).create(path);
    created.map_err(Error::file(path))
}

/// Reads a text of at most this number of octets.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    trust::load(path, |path| file::read_text(path, most).map_err(Error::file(path)))
}

/// Reads a text; `None`: the file does not exist.
pub(crate) fn read_if_there(path: &Path, most: u64) -> Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        _ => read(path, most).map(Some),
    }
}

/// Writes a file such that it has the old content or the new one, also after a loss of power.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default();
    let opened = File::open(directory.unwrap_or(Path::new(".")));
    let written = opened.and_then(|directory| onbeat_host::replace(directory, name, content));
    written.map_err(Error::file(path))
}

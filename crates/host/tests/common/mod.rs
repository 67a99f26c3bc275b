//! A place for the files of a test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A directory with mode 0755 that is removed with the value.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// In memory: a boot removes it.
    pub(crate) fn in_memory(name: &str) -> Self {
        Self::below(Path::new("/dev/shm"), name)
    }

    pub(crate) fn below(directory: &Path, name: &str) -> Self {
        let path = directory.join(format!("onbeat-host-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        set_mode(&path, 0o755);
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

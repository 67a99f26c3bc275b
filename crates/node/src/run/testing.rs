//! What unit tests of a node share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A private directory that is removed with the value.
#[derive(Debug)]
pub(super) struct Temporary(PathBuf);

impl Temporary {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onbeat-run-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! Directories for the files of tests.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A directory with mode 0700, in the directory for temporary files. Removed on drop.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Creates a directory, whose name contains `name` and the process id.
    ///
    /// # Panics
    /// It exists, or cannot be created.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// Creates a directory like [`TemporaryDirectory::new`], in another directory.
    ///
    /// # Panics
    /// As [`TemporaryDirectory::new`].
    #[must_use]
    pub fn below(directory: &Path, name: &str) -> Self {
        let path = directory.join(format!("onbeat-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).expect("make a temporary directory");
        Self(path)
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in it.
    #[must_use]
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Fails only if the test removed it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

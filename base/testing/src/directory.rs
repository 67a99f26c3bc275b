//! Directories for the files of tests.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// A directory with mode 0700, below that for temporary files. Removed on drop.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Makes a directory, whose name contains `name` and the process id.
    ///
    /// # Panics
    /// Where it exists, or cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// As [`TemporaryDirectory::new`], below another directory.
    ///
    /// # Panics
    /// As [`TemporaryDirectory::new`].
    #[must_use]
    pub fn below(directory: &Path, name: &str) -> Self {
        let path = directory.join(format!("onbeat-{name}-{}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&path).expect("make a temporary directory");
        Self(path)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    #[must_use]
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Fails only where the test removed it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

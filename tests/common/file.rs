//! Files of tests, in the directory for temporary files.

use std::fs;
use std::path::{Path, PathBuf};

/// The path of a file, which is removed with it.
pub(crate) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// The file is not made.
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("onbeat-{}-{name}", std::process::id())))
    }

    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let file = Self::new(name);
        fs::write(&file.0, content).expect("a file");
        file
    }

    pub(crate) fn name(&self) -> &str {
        self.0.to_str().expect("a path that is text")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // The test may have removed it.
        let _ = fs::remove_file(&self.0);
    }
}

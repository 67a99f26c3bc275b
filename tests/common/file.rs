//! Files of tests, in the directory for temporary files.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes an executable file, by another process. If this one had it open for writing, a process that another test
/// starts meanwhile would inherit the descriptor until it executes its program, and the kernel executes no file
/// that a process has open for writing (ETXTBSY).
pub(crate) fn make_executable(path: &Path, content: impl AsRef<[u8]>) {
    let mut install = Command::new("install");
    install.args(["-m", "755", "/dev/stdin"]).arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().expect("install");
    install.stdin.take().expect("a pipe").write_all(content.as_ref()).expect("it reads");
    assert!(install.wait().expect("its status").success(), "install {path:?}");
}

/// The path of a file, which is removed with it.
pub(crate) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Does not create the file.
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
        // The test may have removed it already.
        let _ = fs::remove_file(&self.0);
    }
}

//! Samples as a file, for tools of one's own.

use std::fmt::{Arguments, Display};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Result};

/// A file of lines with commas.
pub(super) struct Csv {
    path: PathBuf,
    file: BufWriter<File>,
    /// Kept until the end: a closure that takes events cannot fail.
    failed: Option<std::io::Error>,
}

impl Csv {
    /// Creates the file, with a line of headings.
    pub(super) fn create(path: &Path, headings: &str) -> Result<Self> {
        let failed = |error| cannot_write(path, &error);
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
        writeln!(file, "{headings}").map_err(failed)?;
        Ok(Self { path: path.into(), file, failed: None })
    }

    pub(super) fn row(&mut self, cells: Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = writeln!(self.file, "{cells}").err();
        }
    }

    /// Writes what is not written yet; says what went wrong, now or before.
    pub(super) fn finish(&mut self) -> Result<()> {
        let ended = self.failed.take().map_or_else(|| self.file.flush(), Err);
        ended.map_err(|error| cannot_write(&self.path, &error))
    }
}

/// A value, or nothing.
pub(super) fn cell(value: Option<impl Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("--csv: {} cannot be written: {error}", path.display()))
}

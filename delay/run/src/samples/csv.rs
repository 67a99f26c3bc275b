//! CSV files.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

use onbeat_host::output::{self, Output};

use super::{Column, SampleValue, SampleWriter};
use crate::error::{Error, Result};

/// A CSV file.
pub(super) struct CsvFile {
    path: PathBuf,
    file: BufWriter<Output>,
    failed: Option<io::Error>,
}

impl CsvFile {
    /// Creates the file, with a header line.
    pub(super) fn create(path: &Path, columns: &[Column]) -> Result<Self> {
        let failed = |error| cannot_write(path, &error);
        let mut file = BufWriter::new(output::create_whole(path).map_err(failed)?);
        let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
        writeln!(file, "{}", names.join(",")).map_err(failed)?;
        Ok(Self { path: path.into(), file, failed: None })
    }
}

impl SampleWriter for CsvFile {
    fn row(&mut self, values: &[SampleValue]) {
        if self.failed.is_none() {
            self.failed = write(&mut self.file, values).err();
        }
    }

    fn finish(self: Box<Self>) -> Result<()> {
        let Self { path, file, failed } = *self;
        let output =
            failed.map_or_else(|| file.into_inner().map_err(IntoInnerError::into_error), Err);
        output.map(Output::complete).map_err(|error| cannot_write(&path, &error))
    }
}

fn write(file: &mut impl Write, values: &[SampleValue]) -> io::Result<()> {
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            file.write_all(b",")?;
        }
        match value {
            SampleValue::Number(number) => write!(file, "{number}")?,
            SampleValue::Text(text) => file.write_all(text.as_bytes())?,
            SampleValue::Nothing => {}
        }
    }
    file.write_all(b"\n")
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::output("--csv", path, error)
}

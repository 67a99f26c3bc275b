//! Files of single samples, for other tools.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;

use std::path::PathBuf;

use crate::error::{Error, Result};
use csv::CsvFile;

/// Files for samples.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SampleFiles {
    /// Also write each delay to a CSV file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Also write each delay to a Parquet file, which DuckDB, Polars and Spark read
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
}

impl SampleFiles {
    /// Refuses a format that this program does not support.
    pub(super) fn check(&self) -> Result<()> {
        match self.parquet {
            Some(_) if !cfg!(feature = "parquet") => Err(Error::NoParquet),
            _ => Ok(()),
        }
    }

    /// Returns true if samples are written.
    pub(super) fn are_enabled(&self) -> bool {
        self.csv.is_some() || self.parquet.is_some()
    }
}

/// A file of one format.
trait SampleWriter {
    /// Adds a row. [`SampleWriter::finish`] reports errors.
    fn row(&mut self, values: &[SampleValue]);

    /// Flushes the file. A file that cannot be written is removed.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A column of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    name: &'static str,
    kind: ColumnType,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    /// A number in each row.
    Number,
    /// A number, or nothing.
    MaybeNumber,
    /// A word in each row.
    Text,
}

/// The value of a column in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SampleValue {
    Number(i64),
    Nothing,
    Text(&'static str),
}

impl Column {
    /// A column of numbers. Its name has their unit: `delay_ns`.
    pub(super) const fn number(name: &'static str) -> Self {
        Self { name, kind: ColumnType::Number }
    }

    /// A column of numbers that may be missing.
    pub(super) const fn maybe_number(name: &'static str) -> Self {
        Self { name, kind: ColumnType::MaybeNumber }
    }

    /// A column of words.
    pub(super) const fn text(name: &'static str) -> Self {
        Self { name, kind: ColumnType::Text }
    }
}

impl<N: Into<i64>> From<N> for SampleValue {
    fn from(number: N) -> Self {
        SampleValue::Number(number.into())
    }
}

impl SampleValue {
    /// A number, or nothing.
    pub(super) fn maybe(number: Option<impl Into<i64>>) -> Self {
        number.map_or(SampleValue::Nothing, SampleValue::from)
    }
}

/// The files for samples: none, one, or one of each format.
#[derive(Default)]
pub(super) struct Samples {
    writers: Vec<Box<dyn SampleWriter>>,
}

impl Samples {
    /// Creates the files.
    pub(super) fn create(files: &SampleFiles, columns: &'static [Column]) -> Result<Self> {
        let mut writers: Vec<Box<dyn SampleWriter>> = Vec::new();
        if let Some(path) = &files.csv {
            writers.push(Box::new(CsvFile::create(path, columns)?));
        }
        #[cfg(feature = "parquet")]
        if let Some(path) = &files.parquet {
            writers.push(Box::new(parquet::ParquetFile::create(path, columns)?));
        }
        Ok(Self { writers })
    }

    /// Returns true if samples are written.
    pub(super) fn are_enabled(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Writes a row, with a value for each of the columns. [`Samples::finish`] reports errors: the source of the
    /// events cannot be stopped.
    pub(super) fn row(&mut self, values: &[SampleValue]) {
        self.writers.iter_mut().for_each(|writer| writer.row(values));
    }

    /// Flushes the files; returns the first error, of this or of a row.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.writers.drain(..).try_for_each(|writer| writer.finish())
    }
}

#[cfg(all(test, not(feature = "parquet")))]
mod tests {
    use super::*;

    #[test]
    fn parquet_is_refused_with_a_remedy() {
        let files = SampleFiles { csv: None, parquet: Some("delays.parquet".into()) };
        let text = files.check().unwrap_err().to_string();
        assert!(text.starts_with("--parquet: ") && text.contains("--features parquet"), "{text}");
        assert!(SampleFiles::default().check().is_ok());
    }
}

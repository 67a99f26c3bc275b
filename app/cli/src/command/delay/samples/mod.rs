//! Samples one by one as files, for tools of one's own.

mod csv;
mod parquet;

use std::path::PathBuf;

use onbeat_terminal::exit::Result;

use csv::Csv;
use parquet::Parquet;

/// Where samples go.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Files {
    /// Write each delay to a file, too
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write each delay to a Parquet file, too, which DuckDB, Polars and Spark read
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

impl Files {
    /// Whether samples are written at all.
    pub(super) fn are_wanted(&self) -> bool {
        self.csv.is_some() || self.parquet.is_some()
    }
}

/// A column of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    name: &'static str,
    kind: Kind,
}

/// What stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A number in each row.
    Number,
    /// A number, or nothing.
    MaybeNumber,
    /// A word in each row.
    Text,
}

/// What stands in one row of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Number(i64),
    Nothing,
    Text(&'static str),
}

impl Column {
    /// Of numbers. The name has their unit: `delay_ns`.
    pub(super) const fn number(name: &'static str) -> Self {
        Self { name, kind: Kind::Number }
    }

    /// Of numbers that may be missing.
    pub(super) const fn maybe_number(name: &'static str) -> Self {
        Self { name, kind: Kind::MaybeNumber }
    }

    /// Of words.
    pub(super) const fn text(name: &'static str) -> Self {
        Self { name, kind: Kind::Text }
    }
}

impl<N: Into<i64>> From<N> for Value {
    fn from(number: N) -> Self {
        Value::Number(number.into())
    }
}

impl Value {
    /// A number, or nothing.
    pub(super) fn maybe(number: Option<impl Into<i64>>) -> Self {
        number.map_or(Value::Nothing, Value::from)
    }
}

/// The files that samples are written to: none, one, or one of each kind.
#[derive(Default)]
pub(super) struct Samples {
    csv: Option<Csv>,
    parquet: Option<Parquet>,
}

impl Samples {
    /// Creates the files that are asked for.
    pub(super) fn create(files: &Files, columns: &'static [Column]) -> Result<Self> {
        let csv = files.csv.as_deref().map(|path| Csv::create(path, columns)).transpose()?;
        let parquet = files.parquet.as_deref().map(|path| Parquet::create(path, columns));
        Ok(Self { csv, parquet: parquet.transpose()? })
    }

    /// Whether anything is written at all.
    pub(super) fn are_wanted(&self) -> bool {
        self.csv.is_some() || self.parquet.is_some()
    }

    /// Writes a row, with a value for each of the columns. What fails is told by [`Samples::finish`]: who
    /// takes events as they come cannot stop them.
    pub(super) fn row(&mut self, values: &[Value]) {
        if let Some(csv) = &mut self.csv {
            csv.row(values);
        }
        if let Some(parquet) = &mut self.parquet {
            parquet.row(values);
        }
    }

    /// Writes what is not written yet; says what went wrong, now or before.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.csv.take().map_or(Ok(()), Csv::finish)?;
        self.parquet.take().map_or(Ok(()), Parquet::finish)
    }
}

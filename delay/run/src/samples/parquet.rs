//! Apache Parquet, for files larger than memory: typed columns, in row groups that other programs read in parallel
//! and skip by their statistics.
//!
//! Numbers are written as differences from the previous one (DELTA_BINARY_PACKED), words by a dictionary: a sample
//! takes a few octets, without a compressor.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use onbeat_host::output::{self, Output};
use parquet::basic::{ConvertedType, Encoding, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::Result as Written;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::{Column, ColumnType, SampleValue, SampleWriter};
use crate::error::{Error, Result};

/// Rows per group: determines the memory used; equal to DuckDB's row group.
const GROUP: usize = 122_880;
/// Words that are converted for the library at a time.
const WORDS: usize = 4096;

/// Presence of a value in a row, as Parquet encodes it (its definition level).
const THERE: i16 = 1;
const MISSING: i16 = 0;

/// A file of columns.
pub(super) struct ParquetFile {
    path: PathBuf,
    writer: SerializedFileWriter<Output>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
    group: usize,
    failed: Option<parquet::errors::ParquetError>,
}

/// The rows of a column that are not written yet.
enum ColumnBuffer {
    Numbers(Vec<i64>),
    MaybeNumbers { values: Vec<i64>, levels: Vec<i16> },
    Texts(Vec<&'static str>),
}

impl ParquetFile {
    /// Creates the file. Before [`SampleWriter::finish`] it has no footer, and no program accepts it as complete.
    pub(super) fn create(path: &Path, columns: &[Column]) -> Result<Self> {
        Self::with_groups_of(GROUP, path, columns)
    }

    fn with_groups_of(group: usize, path: &Path, columns: &[Column]) -> Result<Self> {
        let file = output::create_whole(path).map_err(|error| cannot_write(path, &error))?;
        let failed = |error: parquet::errors::ParquetError| cannot_write(path, &error);
        let writer = SerializedFileWriter::new(
            file,
            Arc::new(schema(columns).map_err(failed)?),
            Arc::new(properties(columns)),
        );
        Ok(Self {
            path: path.into(),
            writer: writer.map_err(failed)?,
            columns: columns.iter().map(|column| ColumnBuffer::new(column.kind)).collect(),
            rows: 0,
            group,
            failed: None,
        })
    }

    /// Writes a group of rows.
    fn flush(&mut self) -> Written<()> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl SampleWriter for ParquetFile {
    fn row(&mut self, values: &[SampleValue]) {
        if self.failed.is_some() {
            return;
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
        self.rows += 1;
        if self.rows == self.group {
            self.failed = self.flush().err();
        }
    }

    /// Also writes the footer, without which the file cannot be read.
    fn finish(mut self: Box<Self>) -> Result<()> {
        let flushed = self.failed.take().map_or_else(|| self.flush(), Err);
        let Self { path, writer, .. } = *self;
        let output = flushed.and_then(|()| writer.into_inner());
        output.map(Output::complete).map_err(|error| cannot_write(&path, &error))
    }
}

impl ColumnBuffer {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Number => ColumnBuffer::Numbers(Vec::new()),
            ColumnType::MaybeNumber => {
                ColumnBuffer::MaybeNumbers { values: Vec::new(), levels: Vec::new() }
            }
            ColumnType::Text => ColumnBuffer::Texts(Vec::new()),
        }
    }

    /// Adds a value. A value of another type than the column's is a bug.
    fn push(&mut self, value: SampleValue) {
        match (self, value) {
            (ColumnBuffer::Numbers(values), SampleValue::Number(number)) => values.push(number),
            (ColumnBuffer::MaybeNumbers { values, levels }, SampleValue::Number(number)) => {
                values.push(number);
                levels.push(THERE);
            }
            (ColumnBuffer::MaybeNumbers { levels, .. }, SampleValue::Nothing) => {
                levels.push(MISSING)
            }
            (ColumnBuffer::Texts(texts), SampleValue::Text(text)) => texts.push(text),
            (_, value) => unreachable!("{value:?} in a column of another type"),
        }
    }

    /// Writes the buffered rows, and clears the buffer.
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, Output>) -> Written<()> {
        let Some(mut column) = group.next_column()? else { return Ok(()) };
        match self {
            ColumnBuffer::Numbers(values) => {
                column.typed::<Int64Type>().write_batch(values, None, None)?;
                values.clear();
            }
            ColumnBuffer::MaybeNumbers { values, levels } => {
                column.typed::<Int64Type>().write_batch(values, Some(levels), None)?;
                values.clear();
                levels.clear();
            }
            ColumnBuffer::Texts(texts) => {
                for some in texts.chunks(WORDS) {
                    let words: Vec<ByteArray> = some.iter().copied().map(ByteArray::from).collect();
                    column.typed::<ByteArrayType>().write_batch(&words, None, None)?;
                }
                texts.clear();
            }
        }
        column.close()
    }
}

fn schema(columns: &[Column]) -> Written<Type> {
    let field = |column: &Column| {
        let (kind, repetition) = match column.kind {
            ColumnType::Number => (PhysicalType::INT64, Repetition::REQUIRED),
            ColumnType::MaybeNumber => (PhysicalType::INT64, Repetition::OPTIONAL),
            ColumnType::Text => (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED),
        };
        let field = Type::primitive_type_builder(column.name, kind).with_repetition(repetition);
        let field = match column.kind {
            ColumnType::Text => field.with_converted_type(ConvertedType::UTF8),
            ColumnType::Number | ColumnType::MaybeNumber => field,
        };
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Written<_>>()?;
    Type::group_type_builder("samples").with_fields(fields).build()
}

fn properties(columns: &[Column]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("onbeat ", env!("CARGO_PKG_VERSION")).into())
        // Of each row group; statistics of each page would only enlarge the file.
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in columns.iter().filter(|column| column.kind != ColumnType::Text) {
        let path = ColumnPath::from(column.name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn cannot_write(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::output("--parquet", path, error)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    const COLUMNS: &[Column] =
        &[Column::number("arrival_ns"), Column::maybe_number("delay_ns"), Column::text("verdict")];

    fn row(number: i64) -> [SampleValue; 3] {
        let delay = (number % 7 != 3).then_some(number * 1_000_003 % 5_000 - 20);
        let verdict = if delay.is_some() { "certain" } else { "lost" };
        [
            SampleValue::from(i64::MAX - number),
            SampleValue::maybe(delay),
            SampleValue::Text(verdict),
        ]
    }

    fn written(name: &str, rows: i64, group: usize) -> SerializedFileReader<File> {
        let path = std::env::temp_dir().join(format!("onbeat-{name}-{}", std::process::id()));
        let mut parquet = ParquetFile::with_groups_of(group, &path, COLUMNS).ok().unwrap();
        (0..rows).for_each(|number| parquet.row(&row(number)));
        assert!(Box::new(parquet).finish().is_ok());
        let file = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    #[test]
    fn written_rows_are_read_back() {
        for rows in [0, 1, 99, 100, 101, 1_000, 9_999] {
            let reader = written("back", rows, 100);
            let metadata = reader.metadata();
            assert_eq!(metadata.file_metadata().num_rows(), rows);
            assert_eq!(metadata.num_row_groups() as i64, (rows + 99) / 100);
            let mut found = 0;
            for read in reader.get_row_iter(None).unwrap() {
                let fields: Vec<Field> =
                    read.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect();
                let expected = row(found).map(|value| match value {
                    SampleValue::Number(number) => Field::Long(number),
                    SampleValue::Nothing => Field::Null,
                    SampleValue::Text(text) => Field::Str(text.into()),
                });
                assert_eq!(fields, expected, "{found}");
                found += 1;
            }
            assert_eq!(found, rows);
        }
    }

    #[test]
    fn columns_have_types_and_missing_values() {
        let reader = written("columns", 1_000, GROUP);
        let descriptor = reader.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<&str> = descriptor.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, ["arrival_ns", "delay_ns", "verdict"]);
        let levels: Vec<i16> = descriptor.columns().iter().map(|c| c.max_def_level()).collect();
        assert_eq!(levels, [0, 1, 0]);
        let group = reader.metadata().row_group(0);
        let missing = group.column(1).statistics().and_then(|found| found.null_count_opt());
        assert_eq!(missing, Some(143));
        // A delay takes two octets, instead of eight.
        assert!(group.column(1).compressed_size() < 3_000, "{}", group.column(1).compressed_size());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let failure =
            ParquetFile::create(Path::new("/no/such/file.parquet"), COLUMNS).err().unwrap();
        let text = failure.to_string();
        assert!(text.contains("--parquet: cannot write /no/such/file.parquet"), "{text}");
    }
}

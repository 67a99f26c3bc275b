//! The files: rows sorted by function and time, differences of numbers compressed by zstd.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{
    Compression, ConvertedType, Encoding, Repetition, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::{ColumnPath, Type};

use super::{COUNTERS, Counters, Function, Row};

/// Rows per group: readers skip groups by the names of their streams.
const GROUP: usize = 32_768;

/// Columns that are words; `time_ms`, `number` and the counters are numbers.
const WORDS: [&str; 3] = ["stream", "function", "port"];

fn schema() -> Result<Type> {
    let word = |name: &&str| {
        Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY)
            .with_converted_type(ConvertedType::UTF8)
            .with_repetition(Repetition::REQUIRED)
            .build()
    };
    let number = |name: &str| {
        let kind =
            if name == "time" { ConvertedType::TIMESTAMP_MILLIS } else { ConvertedType::NONE };
        Type::primitive_type_builder(name, PhysicalType::INT64)
            .with_converted_type(kind)
            .with_repetition(Repetition::REQUIRED)
            .build()
    };
    let words = WORDS.iter().map(word);
    let numbers = ["number", "time"].into_iter().chain(COUNTERS).map(number);
    let fields = words.chain(numbers).map(|field| field.map(Arc::new)).collect::<Result<_>>()?;
    Type::group_type_builder("history").with_fields(fields).build()
}

fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("onbeat ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for name in ["number", "time"].into_iter().chain(COUNTERS) {
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Returns the octets of a file with these rows, which are sorted.
pub(super) fn encode<'a>(
    rows: impl Iterator<Item = (&'a Function, i64, &'a Counters)>,
) -> Result<Vec<u8>> {
    let mut writer =
        SerializedFileWriter::new(Vec::new(), Arc::new(schema()?), Arc::new(properties()))?;
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let some: Vec<_> = rows.by_ref().take(GROUP).collect();
        let mut group = writer.next_row_group()?;
        let words: [fn(&Function) -> &str; 3] =
            [|function| &function.stream, |function| &function.function, |function| &function.port];
        for word in words {
            let values: Vec<ByteArray> =
                some.iter().map(|(function, ..)| ByteArray::from(word(function))).collect();
            let mut column = group.next_column()?.ok_or_else(eof)?;
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            column.close()?;
        }
        for index in 0..2 + COUNTERS.len() {
            let values: Vec<i64> = some
                .iter()
                .map(|(function, time_ms, counters)| match index {
                    0 => function.number,
                    1 => *time_ms,
                    _ => counters[index - 2],
                })
                .collect();
            let mut column = group.next_column()?.ok_or_else(eof)?;
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
            column.close()?;
        }
        group.close()?;
    }
    writer.into_inner()
}

/// A schema with fewer columns than are written.
fn eof() -> ParquetError {
    ParquetError::General("the schema has too few columns".into())
}

/// Passes the rows of a file in their order.
pub(super) fn read(path: &Path, mut row: impl FnMut(Row)) -> Result<()> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    for fields in reader.get_row_iter(None)? {
        let fields = fields?;
        let (mut words, mut numbers) = (Vec::new(), Vec::new());
        for (name, field) in fields.get_column_iter() {
            match field {
                Field::Str(word) if WORDS.contains(&name.as_str()) => words.push(word.clone()),
                Field::Long(number) | Field::TimestampMillis(number) => numbers.push(*number),
                other => {
                    let fault = format!(
                        "column {name:?} has {other:?}; onbeat fleet agent did not write it"
                    );
                    return Err(ParquetError::General(fault));
                }
            }
        }
        let fault = || ParquetError::General("not the columns of onbeat fleet agent".into());
        let [stream, function, port] = <[String; 3]>::try_from(words).map_err(|_| fault())?;
        let [number, time_ms, counters @ ..] = &numbers[..] else { return Err(fault()) };
        let counters = Counters::try_from(counters.to_vec()).map_err(|_| fault())?;
        let function = Function { stream, function, port, number: *number };
        row(Row { function, time_ms: *time_ms, counters });
    }
    Ok(())
}

//! The ledger over time, in a file: docs/reference/recordings.md describes it.
//!
//! A file is lines of JSON: the first identifies the format, the last states that the file is complete.
//! [`Writer`] writes and [`Reader`] reads line by line, so that memory does not depend on the length.
//! [`Summary`] has the totals, [`Timelines`] the values over time.

mod error;
mod format;
mod reader;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod writer;

pub use error::{Error, Result};
pub use format::{
    CpuLine, FORMAT, IntervalLine, Line, NameRecord, RecordingHeader, RecordingTrailer, SampleLine,
    Times, VERSION,
};
pub use reader::Reader;
pub use summary::{Correction, Summary};
pub use timeline::{Timeline, Timelines};
pub use writer::{IntervalExtras, Writer};

//! The ledger over time, in a file: docs/reference/recordings.md describes it.
//!
//! A file is lines of JSON: the first says what it is, the last that it is whole. [`Writer`] writes it
//! as things happen, and [`Reader`] reads it line by line, so that neither needs more memory for a
//! longer one. [`Summary`] is what all of it comes to, [`Timelines`] how it went.

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
    Begin, CpuLine, End, FORMAT, IntervalLine, Line, Named, SampleLine, Times, VERSION,
    VERSION_SAMPLED,
};
pub use reader::Reader;
pub use summary::{Correction, Summary};
pub use timeline::{Timeline, Timelines};
pub use writer::{Besides, Writer};

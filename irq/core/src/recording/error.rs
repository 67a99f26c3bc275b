//! Errors of recordings.

use std::io;

/// A result of reading or writing a recording.
pub type Result<T> = std::result::Result<T, Error>;

/// An error while reading or writing a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file system error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file has another format.
    #[error("not a recording of `onbeat irq record`: the first line is {0}")]
    NoRecording(String),
    /// The file was written by another version.
    #[error(
        "format version {found} is not supported: this program reads versions 1 to {}; use the \
         onbeat version that recorded it, or record again",
        super::VERSION
    )]
    Version {
        /// The version of the file.
        found: u64,
    },
    /// A line is invalid.
    #[error("line {line} is invalid: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The problem.
        what: String,
    },
    /// The last line is missing.
    #[error(
        "no end line after line {line}: the recording was cut off, or is still running; --partial \
         reports the part that exists"
    )]
    CutOff {
        /// The last complete line.
        line: u64,
    },
}

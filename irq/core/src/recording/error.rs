//! What can be wrong with a recording.

use std::io;

/// A result of reading or writing a recording.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is another kind of file.
    #[error("it is no recording of `onbeat irq record`: its first line is {0}")]
    NoRecording(String),
    /// It was written by another version.
    #[error(
        "it is of version {found} of the format, and this program reads versions {} and {}: take the \
         onbeat that recorded it, or record again",
        super::VERSION,
        super::VERSION_SAMPLED
    )]
    Version {
        /// The file's.
        found: u64,
    },
    /// A line makes no sense.
    #[error("line {line} is broken: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// It ends before its end.
    #[error(
        "it ends after line {line} without its end: the recording was cut off, or goes on; --partial \
         reports on what is there"
    )]
    CutOff {
        /// The last whole line.
        line: u64,
    },
}

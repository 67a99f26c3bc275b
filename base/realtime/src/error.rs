//! What can go wrong, said with the thing, the value and the way out.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a setting was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call or file.
    #[error("cannot {operation}: {source}; {remedy}")]
    System {
        /// What was being done, its value included.
        operation: String,
        /// The cause.
        source: io::Error,
        /// The way out.
        remedy: &'static str,
    },
    /// A list of CPUs that is none.
    #[error("{text:?} is no list of CPUs: {why}; write it like 1 or 0-1,4")]
    CpuList {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A real-time priority that does not exist.
    #[error("there is no real-time priority {0}; they are 1 (lowest) to 99")]
    Priority(u32),
    /// More stack than the thread has.
    #[error(
        "the stack has room for {room} octets, not for {wanted}; prefault less, or start the \
         thread with a larger stack"
    )]
    Stack {
        /// Octets asked for.
        wanted: usize,
        /// Octets left, less a margin.
        room: usize,
    },
}

impl Error {
    pub(crate) fn system(
        operation: impl Into<String>,
        source: impl Into<io::Error>,
        remedy: &'static str,
    ) -> Self {
        Error::System { operation: operation.into(), source: source.into(), remedy }
    }
}

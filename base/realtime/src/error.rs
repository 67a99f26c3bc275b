//! Errors of real-time settings, with operation, cause and remedy.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a setting was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call or file.
    #[error("cannot {operation}: {source}; {remedy}")]
    System {
        /// The operation, including its value.
        operation: String,
        /// The cause.
        source: io::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// An invalid list of CPUs.
    #[error("{text:?} is not a list of CPUs: {why}; examples: 1, 0-1,4")]
    CpuList {
        /// The given text.
        text: String,
        /// The reason.
        why: &'static str,
    },
    /// A real-time priority that does not exist.
    #[error("invalid real-time priority {0}; use 1 (lowest) to 99")]
    Priority(u32),
    /// The thread's stack is too small.
    #[error(
        "cannot prefault {wanted} octets of stack: {room} octets are left; prefault less, or start the \
         thread with a larger stack"
    )]
    Stack {
        /// The requested octets.
        wanted: usize,
        /// The octets left, less a margin.
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

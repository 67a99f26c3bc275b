//! Errors of the ledger in the kernel.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// A value of a table has an unknown size.
    #[error("unknown value of {octets} octets in table {table}; use the programs of this version")]
    Foreign {
        /// The table.
        table: &'static str,
        /// The value's size.
        octets: usize,
    },
}

impl Error {
    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Bpf(onbeat_bpf::Error::kernel(what, source))
    }
}

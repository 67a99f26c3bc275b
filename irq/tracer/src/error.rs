//! Errors of the ledger in the kernel.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the ledger cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// Softirqs are preempted, and what a CPU does between two points says nothing of packets.
    #[error(
        "this kernel is PREEMPT_RT, whose softirqs are preempted: the ledger cannot tell their time"
    )]
    PreemptRt,
    /// A value of a table has another size than this program knows.
    #[error("table {table} holds a value of {octets} octets, which this version does not know")]
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

//! What can go wrong with the ledger in the kernel.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the ledger cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel does not describe its types.
    #[error("the kernel does not describe its types: {0}; it takes one with CONFIG_DEBUG_INFO_BTF")]
    NoTypes(libbpf_rs::Error),
    /// The kernel lacks a tracepoint.
    #[error("this kernel has no tracepoint {name}; it takes {remedy}")]
    NoTracepoint {
        /// Its name.
        name: &'static str,
        /// A kernel that has it.
        remedy: &'static str,
    },
    /// Softirqs are preempted, and what a CPU does between two points says nothing of packets.
    #[error(
        "this kernel is PREEMPT_RT, whose softirqs are preempted: the ledger cannot tell their time"
    )]
    PreemptRt,
    /// The kernel refused.
    #[error("cannot {what}: {source}{}", remedy(source))]
    Kernel {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
    /// A value of a table has another size than this program knows.
    #[error("table {table} holds a value of {octets} octets, which this version does not know")]
    Foreign {
        /// The table.
        table: &'static str,
        /// The value's size.
        octets: usize,
    },
}

fn remedy(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => "; run it as root",
        _ => "",
    }
}

impl Error {
    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Kernel { what: what.into(), source }
    }
}

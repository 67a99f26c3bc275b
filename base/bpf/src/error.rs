//! What can go wrong with BPF programs.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program cannot be loaded, attached or read.
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
    /// A table cannot be mapped into memory.
    #[error("cannot map the {octets} octets of table {table} into memory: {source}")]
    Mapping {
        /// The table.
        table: String,
        /// Its size.
        octets: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// The kernel refused.
    #[error("cannot {what}: {source}{}", remedy(source))]
    Kernel {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        source: libbpf_rs::Error,
    },
}

fn remedy(source: &libbpf_rs::Error) -> &'static str {
    match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => "; run it as root",
        _ => "",
    }
}

impl Error {
    /// What the kernel answered to an attempt, "load the program".
    pub fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Kernel { what: what.into(), source }
    }
}

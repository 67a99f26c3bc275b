//! Errors of BPF programs.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a program cannot be loaded, attached or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel has no type information.
    #[error(
        "the kernel has no type information (BTF): {0}; requires a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(libbpf_rs::Error),
    /// The kernel lacks tracepoints.
    #[error("this kernel lacks tracepoints: {names}; requires {remedy}")]
    NoTracepoints {
        /// Their names.
        names: String,
        /// A kernel that has them.
        remedy: String,
    },
    /// A table cannot be mapped into memory.
    #[error("cannot map the {octets} octets of table {table} into memory: {source}")]
    Mapping {
        /// The table.
        table: String,
        /// Its size.
        octets: usize,
        /// The cause.
        source: std::io::Error,
    },
    /// The kernel refused.
    #[error("cannot {what}: {source}{}", remedy(source))]
    Kernel {
        /// The operation.
        what: String,
        /// The cause.
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
    /// Creates the error of an operation, such as "load the program".
    pub fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Kernel { what: what.into(), source }
    }

    /// Whether the process lacks a privilege.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let denied = libbpf_rs::ErrorKind::PermissionDenied;
        matches!(self, Self::Kernel { source, .. } if source.kind() == denied)
    }
}

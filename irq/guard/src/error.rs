//! Errors of the guard.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// The ledger, which budgets are compared with.
    #[error(transparent)]
    Ledger(#[from] onbeat_irq::Error),
    /// An interface to guard does not exist.
    #[error("interface {0:?} not found; list interfaces: ip link")]
    NoInterface(String),
    /// A process to explain does not exist.
    #[error("there is no process {0}; list processes: ps -e")]
    NoProcess(u32),
    /// A socket to explain is not open.
    #[error(
        "no process has a socket {0} open; list sockets: ss -tuanpe, with -N of another network namespace"
    )]
    NoSocket(String),
    /// An interface that cannot be guarded.
    #[error("interface {interface:?} cannot be guarded: {reason}")]
    Refused {
        /// The interface.
        interface: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// A setting that an earlier guard changed and that cannot be restored.
    #[error(
        "cannot restore {place}, which an earlier guard changed: {reason}; discard its value: \
         onbeat irq guard --restore --forget"
    )]
    NotRestored {
        /// The setting.
        place: String,
        /// The reason.
        reason: String,
    },
    /// Settings that contradict each other.
    #[error(transparent)]
    Policy(#[from] onbeat_irq_core::policy::ConfigError),
    /// The kernel has no ingress programs that are removed with their process.
    #[error(
        "this kernel cannot drop packets early for budgets; use Linux 6.6 or later (tcx), or a \
         guard without budgets"
    )]
    NoIngress,
    /// A setting of the host, or its journal.
    #[error(transparent)]
    Settings(#[from] onbeat_host::settings::Error),
    /// A network device or namespace.
    #[error(transparent)]
    Netdev(#[from] onbeat_netdev::Error),
    /// A system call.
    #[error("cannot {operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Bpf(onbeat_bpf::Error::kernel(what, source))
    }
}

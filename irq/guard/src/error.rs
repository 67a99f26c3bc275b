//! Errors of the guard.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why interfaces cannot be guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// The ledger, which budgets are compared with.
    #[error(transparent)]
    Ledger(#[from] onbeat_irq::Error),
    /// An interface to guard that is not there.
    #[error("interface {0:?} not found; see what there is: ip link")]
    NoInterface(String),
    /// An interface that cannot be guarded.
    #[error("interface {interface:?} cannot be guarded: {reason}")]
    Refused {
        /// The interface.
        interface: String,
        /// Why, with the way out.
        reason: String,
    },
    /// What an earlier guard changed and this one cannot put back.
    #[error(
        "an earlier guard changed {place}, which cannot be put back: {reason}; give it up: onbeat \
         irq guard --restore --forget"
    )]
    Left {
        /// Where it is.
        place: String,
        /// Why not.
        reason: String,
    },
    /// Settings that contradict each other.
    #[error(transparent)]
    Policy(#[from] onbeat_irq_core::policy::ConfigError),
    /// The kernel has no programs at the ingress of interfaces that go with their process.
    #[error(
        "this kernel cannot drop packets early for budgets; it takes Linux 6.6 (tcx), or a guard without budgets"
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
        /// What was being done.
        operation: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn kernel(what: impl Into<String>, source: libbpf_rs::Error) -> Self {
        Self::Bpf(onbeat_bpf::Error::kernel(what, source))
    }
}

//! What can go wrong with the ledger in the kernel.

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
    Policy(#[from] crate::policy::ConfigError),
    /// The kernel has no programs at the ingress of interfaces that go with their process.
    #[error(
        "this kernel cannot drop packets early for budgets; it takes Linux 6.6 (tcx), or a guard without budgets"
    )]
    NoIngress,
    /// A setting of a thread.
    #[error(transparent)]
    Realtime(#[from] onbeat_realtime::Error),
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

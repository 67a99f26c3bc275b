//! Why a laboratory could not be built or a scenario not be run.

use std::io;
use std::path::PathBuf;

use onbeat_realtime::interrupt::Interrupted;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a laboratory could not be built or a scenario not be run. That a scenario ran and its
/// checks failed is no error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device or namespace.
    #[error(transparent)]
    Net(#[from] onbeat_netdev::Error),
    /// A directory that other users could write to.
    #[error(transparent)]
    Host(#[from] onbeat_host::Error),
    /// A file that another user could have written.
    #[error(transparent)]
    Untrusted(#[from] onbeat_host::trust::Untrusted),
    /// A real-time port.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// A setting for real time.
    #[error(transparent)]
    Realtime(#[from] onbeat_realtime::Error),
    /// A setting of the host.
    #[error(transparent)]
    Settings(#[from] onbeat_host::settings::Error),
    /// The interrupt ledger.
    #[error(transparent)]
    Irq(#[from] onbeat_irq::Error),
    /// The guard.
    #[error(transparent)]
    Guard(#[from] onbeat_irq_guard::Error),
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// The hooks of the stack.
    #[error(transparent)]
    Hooks(#[from] onbeat_hooks::Error),
    /// A probe or its reflector.
    #[error(transparent)]
    Probe(#[from] onbeat_probe::Error),
    /// A system call or file.
    #[error("cannot {operation}: {source}")]
    Io {
        /// What was being done, to what.
        operation: String,
        /// Why not.
        source: io::Error,
    },
    /// A description of a network that is none.
    #[error(transparent)]
    Topology(#[from] crate::topology::TopologyError),
    /// A file that describes no network.
    #[error("{path}: {source}", path = path.display())]
    TopologyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: crate::topology::TopologyError,
    },
    /// A frame that cannot be made.
    #[error(transparent)]
    Frame(#[from] crate::traffic::FrameError),
    /// No host, node or link of this name.
    #[error("there is no {what} {name:?}; there are: {}", known.join(", "))]
    Unknown {
        /// "host or node", "link", "scenario".
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The configuration of a node.
    #[error("node {node:?}: {source}")]
    Config {
        /// The node.
        node: String,
        /// What is wrong.
        source: onbeat_node::config::ConfigError,
    },
    /// A node that did not start or did not end, or a daemon that is not there.
    #[error("node {node:?}: {reason}{}", log_tail(log))]
    Node {
        /// The node.
        node: String,
        /// What happened.
        reason: String,
        /// What it wrote to standard error, its last lines.
        log: String,
    },
    /// A node that does not answer.
    #[error("node {node:?}: {source}")]
    Control {
        /// The node.
        node: String,
        /// Why.
        source: onbeat_node::control::ClientError,
    },
    /// The program to run nodes with is not there.
    #[error("{path:?} is no program to run nodes with; build it: make build", path = path.display())]
    NoProgram {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Options that do not parse.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A value of an option that the scenario cannot use.
    #[error("{option} {value} cannot be used here: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Why, and what can.
        reason: String,
    },
    /// A CPU on which another process runs real-time tasks.
    #[error(
        "CPU {cpu} cannot be used: {holder} runs real-time tasks there, and did not exit within \
         {seconds} s; stop it, or choose other CPUs with taskset"
    )]
    CpuInUse {
        /// The CPU.
        cpu: u16,
        /// The process.
        holder: onbeat_host::Holder,
        /// Time waited.
        seconds: f64,
    },
    /// The measurement itself failed, so that its result would tell nothing.
    #[error("the measurement is not valid: {0}")]
    Invalid(String),
    /// Something that had to happen did not.
    #[error("{what} did not happen within {seconds} s")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        seconds: f64,
    },
    /// A signal asked to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

fn log_tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; it said:\n{log}") }
}

impl Error {
    pub(crate) fn io(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { operation: operation.into(), source: source.into() }
    }
}

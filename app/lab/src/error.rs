//! Errors of the laboratory.

use std::io;
use std::path::PathBuf;

use onbeat_realtime::interrupt::Interruption;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A network could not be built, or a scenario or bench not be run. A failed check of a scenario is no
/// error.
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
    Untrusted(#[from] onbeat_host::trust::UntrustedFile),
    /// A real-time port.
    #[error(transparent)]
    Port(#[from] onbeat_link::Error),
    /// A real-time setting.
    #[error(transparent)]
    Realtime(#[from] onbeat_realtime::Error),
    /// A host setting.
    #[error(transparent)]
    Settings(#[from] onbeat_host::settings::Error),
    /// The interrupt ledger.
    #[error(transparent)]
    Irq(#[from] onbeat_irq::Error),
    /// The softirq guard.
    #[error(transparent)]
    Guard(#[from] onbeat_irq_guard::Error),
    /// A BPF program.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// The hooks in the network stack.
    #[error(transparent)]
    Hooks(#[from] onbeat_hooks::Error),
    /// A probe or its reflector.
    #[error(transparent)]
    Probe(#[from] onbeat_probe::Error),
    /// A system call or file.
    #[error("cannot {operation}: {source}")]
    Io {
        /// The failed operation with its object.
        operation: String,
        /// The cause.
        source: io::Error,
    },
    /// An invalid topology.
    #[error(transparent)]
    Topology(#[from] crate::topology::TopologyError),
    /// An invalid topology file.
    #[error("{path}: {source}", path = path.display())]
    TopologyFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: crate::topology::TopologyError,
    },
    /// An invalid specification of a frame.
    #[error(transparent)]
    Frame(#[from] crate::traffic::FrameError),
    /// An unknown host, node, link or scenario.
    #[error("unknown {what} {name:?}; use one of: {}", known.join(", "))]
    Unknown {
        /// "host or node", "link", "scenario".
        what: &'static str,
        /// The unknown name.
        name: String,
        /// The known names.
        known: Vec<String>,
    },
    /// An error of the configuration of a node.
    #[error("node {node:?}: {source}")]
    Config {
        /// The node.
        node: String,
        /// The cause.
        source: onbeat_node::config::ConfigError,
    },
    /// A node did not start or exit, or its daemon is not running.
    #[error("node {node:?}: {reason}{}", log_tail(log))]
    Node {
        /// The node.
        node: String,
        /// The cause.
        reason: String,
        /// The last lines of its standard error.
        log: String,
    },
    /// A node does not answer requests.
    #[error("node {node:?}: {source}")]
    Control {
        /// The node.
        node: String,
        /// The cause.
        source: onbeat_node::control::ClientError,
    },
    /// The program of nodes is missing.
    #[error("{path:?} is not the onbeat program, which runs nodes; build it: make build", path = path.display())]
    NoProgram {
        /// Its expected path.
        path: PathBuf,
    },
    /// A program of the distribution is missing.
    #[error("cannot start {program}: it is not installed; install it: {remedy}")]
    NotInstalled {
        /// The program.
        program: &'static str,
        /// The command that installs it.
        remedy: &'static str,
    },
    /// A command failed.
    #[error("{command}: {reason}{}", log_tail(log))]
    Command {
        /// The command.
        command: String,
        /// The cause.
        reason: String,
        /// The last lines of its output.
        log: String,
    },
    /// Options do not parse.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A value of an option that the scenario cannot use.
    #[error("{option} {value} cannot be used here: {reason}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The cause, and valid values.
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
    /// The measurement failed, so that its result would be meaningless.
    #[error("the measurement is not valid: {0}")]
    Invalid(String),
    /// An event did not occur in time.
    #[error("{what} did not happen within {seconds} s")]
    Timeout {
        /// The event.
        what: String,
        /// Time waited.
        seconds: f64,
    },
    /// Stopped by a signal.
    #[error(transparent)]
    Interrupted(#[from] Interruption),
}

fn log_tail(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its log:\n{log}") }
}

impl Error {
    pub(crate) fn io(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Io { operation: operation.into(), source: source.into() }
    }
}

//! Errors of the XDP data plane.

use std::io;
use std::path::PathBuf;

use onbeat_frer::wildcard::MAX_IN_KERNEL;

/// The reason why the data plane could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tables of a running node do not grow.
    #[error(
        "the tables were created for max-nodes = {capacity}, not {wanted}; restart the node (onbeat down, onbeat run), \
         or set a smaller max-nodes under [prp] or [wildcard]: that of [wildcard] is for each wildcard"
    )]
    NodesTable {
        /// The requested entries.
        wanted: u32,
        /// The present entries.
        capacity: u32,
    },
    /// More wildcards than the tables have room for.
    #[error(
        "the back end \"xdp\" has at most {MAX_IN_KERNEL} wildcards, not {wanted}; set backend = \"packet\" in [node]"
    )]
    Wildcards {
        /// Their number.
        wanted: usize,
    },
    /// A port of a link redundancy entity or a wildcard has no program.
    #[error(
        "port {port:?} of the PRP node or wildcard is not attached; see the error of the port before"
    )]
    NotAttached {
        /// The port.
        port: String,
    },
    /// A packet socket for supervision frames.
    #[error(
        "cannot open a packet socket for supervision frames: {source}; CAP_NET_RAW is required"
    )]
    Socket {
        /// The cause.
        source: io::Error,
    },
    /// The pin directory is not in a BPF file system.
    #[error(
        "pin directory {path:?}: not in a BPF file system, so state cannot outlive the daemon; set pin \
         under [node] to a directory in one, or mount one: mount -t bpf bpf /sys/fs/bpf"
    )]
    NoBpfFilesystem {
        /// The pin directory.
        path: PathBuf,
    },
    /// A path that is invalid as a pin directory.
    #[error(
        "pin directory {path:?} {reason}; set pin under [node] to a directory of its own in a BPF \
         file system, such as /sys/fs/bpf/onbeat/NAME"
    )]
    PinPath {
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The pin directory contains an entry that no node creates.
    #[error(
        "pin directory {path:?} contains {foreign:?}, which no node created; set pin under [node] to a \
         directory of its own"
    )]
    ForeignPin {
        /// The pin directory.
        path: PathBuf,
        /// The entry.
        foreign: PathBuf,
    },
    /// A process that belongs to no node has locked the pin directory.
    #[error(
        "pin directory {path:?} is locked by another process, and records no node; stop that \
         process (lslocks shows it)"
    )]
    PinLocked {
        /// The pin directory.
        path: PathBuf,
    },
    /// The pin directory belongs to another node.
    #[error(
        "pin directory {path:?} {how} the node with control socket {control:?}; set pin under [node] to \
         another directory, or remove that node first with: onbeat down"
    )]
    PinOwner {
        /// The pin directory.
        path: PathBuf,
        /// Whether that node uses it at present.
        how: &'static str,
        /// The other node's control socket.
        control: PathBuf,
    },
    /// The former version pinned it for an unknown node.
    #[error(
        "pin directory {path:?} was created by the former version, which recorded no node, and it cannot be \
         assigned to this node; set pin under [node] to another directory, or remove it with: rm -r {path:?}"
    )]
    PinUnknown {
        /// The pin directory.
        path: PathBuf,
    },
    /// The kernel refused a program or a table.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// Packets changed a recovery function during all tries of a step.
    #[error(
        "the history of recovery function {slot} is unchanged: packets changed it during all tries; \
         repeat the change"
    )]
    Contended {
        /// Its slot.
        slot: u32,
    },
    /// A thread cannot be started.
    #[error("cannot start the thread that waits for programs: {source}")]
    Thread {
        /// The cause.
        source: io::Error,
    },
    /// A file operation on the pin directory.
    #[error("cannot {what} {path}: {source}", path = .path.display())]
    Pin {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An interface already runs a program of another owner.
    #[error(
        "port {port:?}: interface {interface:?} already runs XDP program {program} (id {id}); \
         detach it, or replace it with --replace"
    )]
    ForeignProgram {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
        /// Name of the program.
        program: String,
        /// Its id.
        id: u32,
    },
    /// The driver does not support XDP in the requested mode.
    #[error(
        "port {port:?}: interface {interface:?} rejects XDP programs in {mode} mode: {source}; \
         {remedy}"
    )]
    Attach {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
        /// The requested mode.
        mode: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// The remedy.
        remedy: &'static str,
    },
    /// A table is full.
    #[error(
        "no room for stream {stream:?}: all {capacity} {what} are in use; raise max-streams under \
         [node] (onbeat down NODE first: tables are created when a node starts)"
    )]
    Full {
        /// The stream.
        stream: String,
        /// The kind of entry.
        what: &'static str,
        /// The number of entries.
        capacity: u32,
    },
    /// A feature of a stream that this data plane does not support.
    #[error("stream {stream:?}: {what}")]
    Unsupported {
        /// The stream.
        stream: String,
        /// The feature, and the remedy.
        what: String,
    },
    /// Two member streams on a port with the same identification.
    #[error(transparent)]
    Conflict(#[from] onbeat_frer::identify::Conflict),
    /// Pinned state with another layout or size.
    #[error(
        "{path}: pinned state of another version or size of this node; remove it with onbeat down \
         (frames pass unprotected until the node runs again)", path = .path.display()
    )]
    Incompatible {
        /// The pin directory.
        path: PathBuf,
    },
    /// More ports than the tables can hold.
    #[error("port {port:?}: too many ports; a node has at most {max}", max = onbeat_frer::spec::MAX_PORTS)]
    TooManyPorts {
        /// The port.
        port: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the failed operation to an error of the kernel.
pub(crate) trait Context<T> {
    /// `what` completes "cannot ...".
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<libbpf_rs::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| onbeat_bpf::Error::kernel(what(), source.into()).into())
    }
}

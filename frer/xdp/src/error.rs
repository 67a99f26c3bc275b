//! What can go wrong between a description of streams and programs that run in the kernel.

use std::io;
use std::path::PathBuf;

/// Why the data plane could not be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pin directory is not in a BPF file system.
    #[error(
        "pin directory {path:?}: no BPF file system there, so state cannot outlive the daemon; set pin \
         under [node] to a directory in one, or mount one: mount -t bpf bpf /sys/fs/bpf"
    )]
    NoBpfFilesystem {
        /// The pin directory.
        path: PathBuf,
    },
    /// A path that cannot be a pin directory.
    #[error(
        "pin directory {path:?} {reason}; set pin under [node] to a directory of its own in a BPF \
         file system, such as /sys/fs/bpf/onbeat/NAME"
    )]
    PinPath {
        /// The path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The pin directory holds what no node puts there.
    #[error(
        "pin directory {path:?} holds {foreign:?}, which is not of a node; set pin under [node] to a \
         directory of its own"
    )]
    ForeignPin {
        /// The pin directory.
        path: PathBuf,
        /// What it holds.
        foreign: PathBuf,
    },
    /// A process that is of no node has locked the pin directory.
    #[error(
        "pin directory {path:?} is locked by another process, and no node is recorded in it; end that \
         process, which lslocks shows"
    )]
    PinLocked {
        /// The pin directory.
        path: PathBuf,
    },
    /// The pin directory is another node's.
    #[error(
        "pin directory {path:?} {how} the node with control socket {control:?}; set pin under [node] to \
         another directory, or remove that node first with: onbeat down"
    )]
    PinOwner {
        /// The pin directory.
        path: PathBuf,
        /// Whether that node uses it now.
        how: &'static str,
        /// The other node's control socket.
        control: PathBuf,
    },
    /// The former version pinned it for a node that is unknown.
    #[error(
        "pin directory {path:?} is of the former version, which recorded no node, and nothing shows that \
         it is this node's; set pin under [node] to another directory, or remove it with: rm -r {path:?}"
    )]
    PinUnknown {
        /// The pin directory.
        path: PathBuf,
    },
    /// The kernel refused a program or a table.
    #[error(transparent)]
    Bpf(#[from] onbeat_bpf::Error),
    /// A thread cannot be had.
    #[error("cannot start the thread that waits for programs: {source}")]
    Thread {
        /// The answer.
        source: io::Error,
    },
    /// A file operation on the pin directory.
    #[error("cannot {what} {path}: {source}", path = .path.display())]
    Pin {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// An interface already runs a program that is not ours.
    #[error(
        "port {port:?}: interface {interface:?} already runs XDP program {program} (id {id}); \
         take it off, or say --replace to replace it"
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
    /// The driver cannot run XDP in the mode asked for.
    #[error(
        "port {port:?}: interface {interface:?} takes no XDP program in {mode} mode: {source}; \
         {remedy}"
    )]
    Attach {
        /// The port.
        port: String,
        /// Its interface.
        interface: String,
        /// The mode that was tried.
        mode: &'static str,
        /// The kernel's answer.
        source: libbpf_rs::Error,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A table is full.
    #[error(
        "no room for stream {stream:?}: all {capacity} {what} are in use; raise max-streams under \
         [node] (onbeat down NODE first: tables are made when a node starts)"
    )]
    Full {
        /// The stream that found no room.
        stream: String,
        /// The kind of entry.
        what: &'static str,
        /// How many there are.
        capacity: u32,
    },
    /// A part of a stream this data plane does not do.
    #[error("stream {stream:?}: {what}")]
    Unsupported {
        /// The stream.
        stream: String,
        /// What, and what to do instead.
        what: String,
    },
    /// Two member streams on a port with the same identification.
    #[error(transparent)]
    Conflict(#[from] onbeat_frer::identify::Conflict),
    /// Pinned state of another layout or size.
    #[error(
        "{path}: pinned state of another version or size of this node; onbeat down removes it \
         (frames pass unprotected until the node runs again)", path = .path.display()
    )]
    Incompatible {
        /// The pin directory.
        path: PathBuf,
    },
    /// More ports than the tables can name.
    #[error("port {port:?}: a node has {max} ports at most", max = onbeat_frer::spec::MAX_PORTS)]
    TooManyPorts {
        /// The port.
        port: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was being done when the kernel refused.
pub(crate) trait Context<T> {
    /// `what` completes "cannot ...".
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<libbpf_rs::Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| onbeat_bpf::Error::kernel(what(), source.into()).into())
    }
}

//! Failures of the program.

use std::io;
use std::path::PathBuf;

use onbeat_host::trust::UntrustedFile;
use onbeat_node::control::ClientError;
use onbeat_report::metrics::MetricsFileError;
use onbeat_rollout::record::RecordError;
use onbeat_rollout::stage::StageRefusal;
use onbeat_rollout::store::StoreError;

/// A failure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A request of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A request that the store has no part in.
    #[error(transparent)]
    Etcd(#[from] onbeat_etcd::Error),
    /// A record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The file of metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsFileError),
    /// The stage of a node.
    #[error(transparent)]
    Stage(#[from] StageRefusal),
    /// A node does not respond.
    #[error(transparent)]
    Node(#[from] ClientError),
    /// A file that another user could have written.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file with another content.
    #[error("{}: {fault}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// The fault and its remedy.
        fault: String,
    },
    /// A key or certificate cannot be made.
    #[error("cannot issue a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A node cannot join.
    #[error("{0}")]
    Join(String),
    /// The credentials of a node are void.
    #[error(
        "the store has no key of node {0:?}: it was revoked, or invited after the snapshot that was restored; invite it again"
    )]
    NotAdmitted(String),
    /// No threads.
    #[error("cannot start a thread: {0}")]
    Runtime(io::Error),
    /// What a plan has in the store is incomplete.
    #[error(
        "plan {generation} in the store has no {what}; it was removed, or is still being written"
    )]
    Incomplete {
        /// The plan.
        generation: u64,
        /// What is missing.
        what: String,
    },
    /// Files and signed hashes of a plan do not fit together.
    #[error(
        "its stage does not have the hash that the controller signed: a file of the plan was removed from the store, or agent \
         and controller have different versions of onbeat-fleet"
    )]
    UnsignedStage,
    /// A text does not have the hash of its signed record.
    #[error(
        "plan {generation}: {what} does not have the hash of its signed record; another program wrote it"
    )]
    Hash {
        /// The plan.
        generation: u64,
        /// The text.
        what: String,
    },
    /// Keys that no fleet writes.
    #[error(
        "the store has more than {most} below {prefix:?}: another program wrote there; remove its keys with etcdctl, and limit \
         the access to the store"
    )]
    ManyKeys {
        /// The prefix.
        prefix: String,
        /// The limit, with its unit.
        most: String,
    },
    /// Nodes have not acknowledged the plan that runs.
    #[error(
        "no roll-out starts: {nodes} refuse the plan that runs, or have no agent that answers; see `onbeat fleet status`"
    )]
    NotReady {
        /// Their names.
        nodes: String,
    },
    /// Another roll-out is under way.
    #[error(
        "a roll-out from plan {} to plan {} is in phase {} (step {}); complete it with `onbeat fleet apply --continue`, or \
         return to the old plan with `onbeat fleet rollback`",
        .0.from, .0.to, .0.phase, .0.step
    )]
    Busy(onbeat_rollout::Current),
    /// The store is older than its nodes.
    #[error(
        "the store was restored from a snapshot, and has step {0}: nodes keep what they run, which may be of a later step; \
         `onbeat fleet apply --continue` takes the step of the nodes"
    )]
    Restored(u64),
    /// Nodes of a restored store have not reported what they run.
    #[error(
        "the store was restored, and these nodes have not reported what they run: {nodes}; start their agents, or restore a \
         snapshot that has the plans of the nodes"
    )]
    UnreportedNodes {
        /// Their names.
        nodes: String,
    },
    /// The operator holds the fleet.
    #[error(
        "the fleet is paused ({0}); end it with `onbeat fleet pause --end`, or go on with `apply --continue`"
    )]
    Paused(String),
    /// The store has no fleet.
    #[error("the store has no fleet; run `onbeat fleet init` again now that etcd runs")]
    NoFleet,
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::File { path, source }
    }
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

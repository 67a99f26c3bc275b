//! The store: the part of etcd's API that the protocol uses, as plain data and a trait.
//!
//! Reads and transactions are linearizable. A watch is a doorbell, and a lease a sign of life: neither decides what a node
//! forwards, so both may be late or lost. Each write must be repeatable, because its outcome can be unknown.

pub mod conformance;
mod memory;

pub use memory::MemoryStore;

/// A revision of the store; each transaction that writes has the next one.
pub type Revision = u64;

/// Number of a lease.
pub type LeaseId = i64;

/// Operations of a transaction at most, as in etcd.
pub const MAX_OPERATIONS: usize = 128;

/// Octets of a request at most, as in etcd.
pub const MAX_REQUEST: usize = 3 << 19;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which the key was created.
    pub create_revision: Revision,
    /// The revision of the last change.
    pub mod_revision: Revision,
    /// The lease with which the key ends; 0: none.
    pub lease: LeaseId,
}

/// A condition of a transaction. A key that does not exist has the revisions 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key was created at this revision; 0: it does not exist.
    CreateRevision(String, Revision),
    /// The key was last changed at this revision.
    ModRevision(String, Revision),
}

/// Keys to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// One key.
    One(String),
    /// All keys with a prefix.
    Prefix(String),
}

impl Keys {
    /// Whether a key is among them.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::One(one) => one == key,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

/// An operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Get(Keys),
    /// Writes a key, with the lease that ends it.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Vec<u8>,
        /// 0: none.
        lease: LeaseId,
    },
    /// Removes keys.
    Delete(Keys),
}

/// Conditions, and operations for either result; all are of one revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// All must hold.
    pub compare: Vec<Condition>,
    /// Operations if they do.
    pub success: Vec<Operation>,
    /// Operations if not.
    pub failure: Vec<Operation>,
}

impl Transaction {
    /// Operations without a condition.
    #[must_use]
    pub fn write(success: Vec<Operation>) -> Self {
        Self { success, ..Self::default() }
    }

    /// A read of several keys at one revision.
    #[must_use]
    pub fn read(keys: impl IntoIterator<Item = Keys>) -> Self {
        let success = keys.into_iter().map(Operation::Get).collect();
        Self { success, ..Self::default() }
    }
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionResult {
    /// The revision of the store.
    pub revision: Revision,
    /// The number of the cluster; another one after a restore from a snapshot.
    pub cluster: u64,
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The keys of each `Get`, in order.
    pub reads: Vec<Vec<KeyValue>>,
}

/// A page of keys, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The revision of the store.
    pub revision: Revision,
    /// The keys.
    pub keys: Vec<KeyValue>,
    /// Whether more keys follow.
    pub has_more: bool,
}

/// A change of a key, as a watch reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The revision.
    pub revision: Revision,
    /// Whether the key exists.
    pub exists: bool,
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Executed or not: the next read shows it.
    #[error(
        "the store did not answer: the request was executed or not; it is repeated after the next read"
    )]
    Unknown,
    /// Not executed: no connection, no leader.
    #[error("the store is not available: {0}; nodes keep what they run")]
    Unavailable(String),
    /// The revision is no longer kept.
    #[error(
        "revision {requested} was compacted, the oldest is {oldest}; read again and watch from there"
    )]
    Compacted {
        /// The requested one.
        requested: Revision,
        /// The oldest that is kept.
        oldest: Revision,
    },
    /// The lease has ended.
    #[error("lease {0} does not exist; grant another")]
    NoLease(LeaseId),
    /// The database is full.
    #[error("the store is full; compact and defragment etcd, or raise its quota")]
    Full,
    /// The user's role does not permit the request.
    #[error(
        "the store denies access to {0:?}: the role of this certificate does not have it, or its node was revoked or invited \
         again"
    )]
    Denied(String),
    /// Keys with more octets than are read at once.
    #[error(
        "keys of the store have more octets than any fleet writes ({0}); another program wrote them"
    )]
    LongResponse(String),
    /// Too many operations or octets.
    #[error(
        "the request has {0}; etcd permits at most {MAX_OPERATIONS} operations of {MAX_REQUEST} octets together"
    )]
    TooLarge(String),
}

/// The requests of the protocol.
pub trait Store {
    /// Executes a transaction.
    ///
    /// # Errors
    /// Those of [`StoreError`]; only after [`StoreError::Unknown`] it may have been executed.
    fn transact(&mut self, transaction: &Transaction) -> Result<TransactionResult, StoreError>;

    /// Reads at most `limit` keys from `from` on, at a revision or, with 0, the present one.
    ///
    /// # Errors
    /// Those of [`StoreError`].
    fn range(
        &mut self,
        keys: &Keys,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Page, StoreError>;

    /// Returns the changes of keys since a revision, inclusive, and the revision to continue from.
    ///
    /// # Errors
    /// Those of [`StoreError`]; after [`StoreError::Compacted`] read, and continue after the revision of the read.
    fn changes(
        &mut self,
        keys: &Keys,
        since: Revision,
    ) -> Result<(Vec<Change>, Revision), StoreError>;

    /// Grants a lease of at least this time, in whole seconds.
    ///
    /// # Errors
    /// Those of [`StoreError`].
    fn grant(&mut self, ttl_s: u32) -> Result<LeaseId, StoreError>;

    /// Prolongs a lease.
    ///
    /// # Errors
    /// Those of [`StoreError`].
    fn keep(&mut self, lease: LeaseId) -> Result<(), StoreError>;

    /// Ends a lease and its keys.
    ///
    /// # Errors
    /// Those of [`StoreError`].
    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError>;
}

//! etcd as the store of roll-outs.

use std::future::Future;
use std::sync::mpsc::Sender;
use std::time::Duration;

use onbeat_etcd::{
    Client, Comparison, Condition as EtcdCondition, Endpoint, Error, EventKind,
    Operation as EtcdOperation, Options, Outcome, Range, Response, Tls,
    Transaction as EtcdTransaction, WatchRequest,
};
use onbeat_rollout::store::{
    Change, Condition, KeyValue, Keys, LeaseId, MAX_OPERATIONS, MAX_REQUEST, Operation, Page,
    Revision, Store, StoreError, Transaction, TransactionResult,
};
use tokio::runtime::Runtime;

use crate::credentials::Credentials;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longer than the 7 s after which etcd ends a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);

/// Pause before a watch is repeated.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// Time within which changes that already happened arrive.
const CHANGES_WAIT: Duration = Duration::from_millis(500);

/// Statuses of gRPC: a key was compacted; no permission; no user; no room.
const OUT_OF_RANGE: u32 = 11;
const PERMISSION_DENIED: u32 = 7;
const UNAUTHENTICATED: u32 = 16;
const RESOURCE_EXHAUSTED: u32 = 8;
const NOT_FOUND: u32 = 5;

/// A client of etcd. Its connection lives on a thread of its own, so that pings are answered between requests.
#[derive(Debug)]
pub(crate) struct EtcdStore {
    runtime: Runtime,
    client: std::sync::Arc<Client>,
}

fn key(key: &str) -> Vec<u8> {
    key.as_bytes().to_vec()
}

fn range(keys: &Keys) -> Range {
    match keys {
        Keys::One(one) => Range::key(key(one)),
        Keys::Prefix(prefix) => Range::prefix(prefix),
    }
}

fn read(found: onbeat_etcd::KeyValue) -> KeyValue {
    KeyValue {
        key: String::from_utf8_lossy(&found.key).into_owned(),
        value: found.value,
        create_revision: found.create_revision as Revision,
        mod_revision: found.mod_revision as Revision,
        lease: found.lease,
    }
}

fn failure(error: &Error, what: &str) -> StoreError {
    match error {
        Error::Refused { code: PERMISSION_DENIED | UNAUTHENTICATED, .. } => {
            StoreError::Denied(what.to_owned())
        }
        Error::Refused { code: RESOURCE_EXHAUSTED, message, .. } if message.contains("space") => {
            StoreError::Full
        }
        // A repetition gets the same.
        Error::LongResponse { .. } => StoreError::LongResponse(error.to_string()),
        _ => match error.outcome() {
            Outcome::Unknown => StoreError::Unknown,
            Outcome::NotExecuted => StoreError::Unavailable(error.to_string()),
        },
    }
}

impl EtcdStore {
    /// A store with these servers, as the user of the credentials.
    pub(crate) fn new(credentials: &Credentials) -> Result<Self, crate::error::Error> {
        Self::of(credentials.endpoints()?, credentials.tls()?)
    }

    fn of(endpoints: Vec<Endpoint>, tls: Option<Tls>) -> Result<Self, crate::error::Error> {
        let client = Client::new(Options {
            endpoints,
            tls,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
        });
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(crate::error::Error::Runtime)?;
        Ok(Self { runtime, client: std::sync::Arc::new(client) })
    }

    /// Runs requests that the protocol does not have: users and roles.
    pub(crate) fn run<'c, F: Future>(&'c self, request: impl FnOnce(&'c Client) -> F) -> F::Output {
        self.runtime.block_on(request(&self.client))
    }

    /// Sends a message for each change of a key, until the receiver is dropped.
    pub(crate) fn ring(&self, watched: &str, bell: Sender<()>) {
        let client = std::sync::Arc::clone(&self.client);
        let request = WatchRequest { keys: Range::key(key(watched)), from_revision: 0 };
        self.runtime.spawn(async move {
            loop {
                // A watch that begins again may have missed a change: the first response rings, too.
                if let Ok(mut watcher) = client.watch(&request).await {
                    while let Ok(Some(response)) = watcher.next().await {
                        if bell.send(()).is_err() {
                            return;
                        }
                        if response.is_canceled {
                            break;
                        }
                    }
                }
                tokio::time::sleep(WATCH_PAUSE).await;
                if bell.send(()).is_err() {
                    return;
                }
            }
        });
    }
}

impl Store for EtcdStore {
    fn transact(&mut self, transaction: &Transaction) -> Result<TransactionResult, StoreError> {
        let operation = |operation: &Operation| match operation {
            Operation::Get(keys) => EtcdOperation::Range(range(keys)),
            Operation::Put { key: put, value, lease } => {
                EtcdOperation::Put { key: key(put), value: value.clone(), lease: *lease }
            }
            Operation::Delete(keys) => EtcdOperation::Delete(range(keys)),
        };
        let compare = |condition: &Condition| {
            let (of, condition) = match condition {
                Condition::CreateRevision(of, revision) => {
                    (of, EtcdCondition::CreateRevision(*revision as i64))
                }
                Condition::ModRevision(of, revision) => {
                    (of, EtcdCondition::ModRevision(*revision as i64))
                }
            };
            Comparison { key: key(of), condition }
        };
        let Transaction { compare: conditions, success, failure: other } = transaction;
        let many = success.len().max(other.len());
        let octets = success.iter().chain(other).map(|operation| match operation {
            Operation::Put { value, .. } => value.len(),
            Operation::Get(_) | Operation::Delete(_) => 0,
        });
        let octets: usize = octets.sum();
        if many > MAX_OPERATIONS || octets > MAX_REQUEST {
            return Err(StoreError::TooLarge(format!("{many} operations of {octets} octets")));
        }
        let sent = EtcdTransaction {
            conditions: conditions.iter().map(compare).collect(),
            then: success.iter().map(operation).collect(),
            otherwise: other.iter().map(operation).collect(),
        };
        let leases = success.iter().chain(other).find_map(|operation| match operation {
            Operation::Put { lease, .. } if *lease != 0 => Some(*lease),
            _ => None,
        });
        let done = self.runtime.block_on(self.client.transact(&sent));
        let done = done.map_err(|error| match (&error, leases) {
            (Error::Refused { code: NOT_FOUND, .. }, Some(lease)) => StoreError::NoLease(lease),
            _ => failure(&error, "the keys of a transaction"),
        })?;
        let reads = done.responses.into_iter().filter_map(|response| match response {
            Response::Range(found) => Some(found.keys.into_iter().map(read).collect()),
            Response::Put | Response::Deleted(_) => None,
        });
        Ok(TransactionResult {
            revision: done.header.revision as Revision,
            cluster: done.header.cluster,
            succeeded: done.has_succeeded,
            reads: reads.collect(),
        })
    }

    fn range(
        &mut self,
        keys: &Keys,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Page, StoreError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let page = Range { limit, revision: revision as i64, ..range(keys).starting_at(key(from)) };
        let found = self.runtime.block_on(self.client.range(&page));
        let found = found.map_err(|error| match error {
            Error::Refused { code: OUT_OF_RANGE, .. } => {
                StoreError::Compacted { requested: revision, oldest: 0 }
            }
            error => failure(&error, from),
        })?;
        // The header has the present revision, also if the keys are of a former one.
        let present = found.header.revision as Revision;
        Ok(Page {
            revision: if revision == 0 { present } else { revision },
            keys: found.keys.into_iter().map(read).collect(),
            has_more: found.has_more,
        })
    }

    fn changes(
        &mut self,
        keys: &Keys,
        since: Revision,
    ) -> Result<(Vec<Change>, Revision), StoreError> {
        let request = WatchRequest { keys: range(keys), from_revision: since as i64 };
        let client = &self.client;
        self.runtime.block_on(async {
            let failed = |error: Error| failure(&error, "a watch");
            let present = client.range(&Range { limit: 1, ..range(keys) }).await.map_err(failed)?;
            let latest = present.header.revision;
            let (mut changes, mut next) = (Vec::new(), since);
            let mut watcher = client.watch(&request).await.map_err(failed)?;
            loop {
                let response = match tokio::time::timeout(CHANGES_WAIT, watcher.next()).await {
                    Ok(response) => response.map_err(failed)?,
                    // Nothing more has happened.
                    Err(_) => return Ok((changes, next.max(latest as Revision + 1))),
                };
                let Some(response) = response else {
                    return Err(StoreError::Unavailable("the watch has ended".into()));
                };
                if response.compact_revision > 0 {
                    let oldest = response.compact_revision as Revision;
                    return Err(StoreError::Compacted { requested: since, oldest });
                }
                changes.extend(response.events.into_iter().map(|event| Change {
                    key: String::from_utf8_lossy(&event.key.key).into_owned(),
                    revision: event.key.mod_revision as Revision,
                    exists: event.kind == EventKind::Put,
                }));
                next = changes.last().map_or(next, |change| change.revision + 1);
            }
        })
    }

    fn grant(&mut self, ttl_s: u32) -> Result<LeaseId, StoreError> {
        let granted = self.runtime.block_on(self.client.grant(ttl_s));
        granted.map(|lease| lease.id).map_err(|error| failure(&error, "a lease"))
    }

    fn keep(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let kept = self.runtime.block_on(self.client.keep_alive(lease));
        match kept.map_err(|error| failure(&error, "a lease"))?.seconds {
            seconds if seconds > 0 => Ok(()),
            _ => Err(StoreError::NoLease(lease)),
        }
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        let revoked = self.runtime.block_on(self.client.revoke(lease));
        revoked.map_err(|error| match error {
            Error::Refused { code: NOT_FOUND, .. } => StoreError::NoLease(lease),
            error => failure(&error, "a lease"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::Child;

    use onbeat_rollout::store::conformance::{self, TestStore};
    use onbeat_testing::TemporaryDirectory;
    use onbeat_testing::etcd::{etcd, require_etcd};

    use super::*;

    struct Etcd(Child);

    impl Drop for Etcd {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl TestStore for EtcdStore {
        fn pass(&mut self, time: Duration) {
            std::thread::sleep(time);
        }

        fn compact(&mut self, revision: Revision) {
            self.run(|client| client.compact(revision as i64)).expect("compaction");
        }
    }

    /// The table that the store in memory passes, too.
    #[test]
    fn etcd_passes_the_table() {
        if !require_etcd() {
            return;
        }
        let directory = TemporaryDirectory::new("fleet-table");
        let [client, peer] = [(); 2].map(|()| {
            let bound = TcpListener::bind("127.0.0.1:0").expect("a port");
            format!("http://{}", bound.local_addr().expect("an address"))
        });
        let members = format!("default={peer}");
        let mut etcd = etcd("default", directory.path(), [&client, &peer], &members);
        let _etcd = Etcd(etcd.spawn().expect("etcd starts"));
        let mut store = EtcdStore::of(vec![client.parse().expect("a URL")], None).expect("threads");
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while store.run(Client::status).is_err() {
            assert!(std::time::Instant::now() < deadline, "etcd starts");
            std::thread::sleep(Duration::from_millis(50));
        }
        conformance::check(&mut store, "test/").unwrap();
    }
}

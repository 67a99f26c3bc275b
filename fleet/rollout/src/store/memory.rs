//! A store in memory, with faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    Change, Condition, KeyValue, Keys, LeaseId, MAX_OPERATIONS, MAX_REQUEST, Operation, Page,
    Revision, Store, StoreError, Transaction, TransactionResult,
};

/// Shortest lease.
const SHORTEST_LEASE_S: u32 = 2;

const NS_PER_S: u64 = 1_000_000_000;

/// A client of a store in memory. Clones are clients of the same store, each with faults of its own.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Tables>>,
    fault: Fault,
}

/// A fault of a client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fault {
    #[default]
    None,
    Partition,
    /// The next write is executed, or not; its outcome is unknown.
    NextWrite {
        executed: bool,
    },
}

#[derive(Debug, Default)]
struct Tables {
    revision: Revision,
    /// Revisions below are not kept.
    compacted: Revision,
    keys: BTreeMap<String, KeyValue>,
    /// All changes that are kept, with the value since.
    history: Vec<(Change, Option<KeyValue>)>,
    leases: BTreeMap<LeaseId, Lease>,
    /// No lease ends before: time passes often, and a fleet has thousands of leases.
    no_end_before_ns: u64,
    next_lease: LeaseId,
    now_ns: u64,
}

#[derive(Debug)]
struct Lease {
    ttl_ns: u64,
    ends_ns: u64,
}

impl MemoryStore {
    /// Interrupts this client, or connects it again.
    pub fn set_partitioned(&mut self, is_partitioned: bool) {
        self.fault = if is_partitioned { Fault::Partition } else { Fault::None };
    }

    /// Whether this client is interrupted.
    #[must_use]
    pub fn is_partitioned(&self) -> bool {
        self.fault == Fault::Partition
    }

    /// Makes the outcome of the next write unknown to the client.
    pub fn lose_next_outcome(&mut self, executed: bool) {
        self.fault = Fault::NextWrite { executed };
    }

    /// Lets time pass; leases end.
    pub fn advance_to(&self, now_ns: u64) {
        let mut tables = self.tables();
        tables.now_ns = tables.now_ns.max(now_ns);
        tables.expire();
    }

    /// A new leader gives each lease its whole time again.
    pub fn elect(&self) {
        let mut tables = self.tables();
        let now_ns = tables.now_ns;
        tables.leases.values_mut().for_each(|lease| lease.ends_ns = now_ns + lease.ttl_ns);
    }

    /// Removes revisions before this one.
    pub fn compact(&self, revision: Revision) {
        let mut tables = self.tables();
        tables.compacted = revision.min(tables.revision);
        let oldest = tables.compacted;
        tables.history.retain(|(change, _)| change.revision >= oldest);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self) -> Result<MutexGuard<'_, Tables>, StoreError> {
        match self.fault {
            Fault::Partition => Err(StoreError::Unavailable("no connection".into())),
            _ => Ok(self.tables()),
        }
    }

    /// Executes a write, and its fault.
    fn write<T>(
        &mut self,
        execute: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let fault = self.fault;
        if let Fault::NextWrite { executed } = fault {
            self.fault = Fault::None;
            if executed {
                execute(&mut self.tables())?;
            }
            return Err(StoreError::Unknown);
        }
        let mut tables = self.connect()?;
        execute(&mut tables)
    }
}

impl Tables {
    fn expire(&mut self) {
        let now_ns = self.now_ns;
        if now_ns < self.no_end_before_ns {
            return;
        }
        let ended: Vec<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, lease)| lease.ends_ns <= now_ns)
            .map(|(id, _)| *id)
            .collect();
        ended.into_iter().for_each(|lease| self.end(lease));
        let ends = self.leases.values().map(|lease| lease.ends_ns);
        self.no_end_before_ns = ends.min().unwrap_or(u64::MAX);
    }

    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let keys: Vec<String> = self
            .keys
            .values()
            .filter(|key| key.lease == lease)
            .map(|key| key.key.clone())
            .collect();
        if !keys.is_empty() {
            self.revision += 1;
            keys.into_iter().for_each(|key| self.delete(&key));
        }
    }

    fn delete(&mut self, key: &str) {
        if self.keys.remove(key).is_some() {
            let change = Change { key: key.into(), revision: self.revision, exists: false };
            self.history.push((change, None));
        }
    }

    fn put(&mut self, key: &str, value: &[u8], lease: LeaseId) {
        let revision = self.revision;
        let create_revision = self.keys.get(key).map_or(revision, |key| key.create_revision);
        let entry = KeyValue {
            key: key.into(),
            value: value.into(),
            create_revision,
            mod_revision: revision,
            lease,
        };
        self.keys.insert(key.into(), entry.clone());
        self.history.push((Change { key: key.into(), revision, exists: true }, Some(entry)));
    }

    fn holds(&self, compare: &Condition) -> bool {
        let key = |key: &String| self.keys.get(key);
        match compare {
            Condition::CreateRevision(name, revision) => {
                key(name).map_or(0, |key| key.create_revision) == *revision
            }
            Condition::ModRevision(name, revision) => {
                key(name).map_or(0, |key| key.mod_revision) == *revision
            }
        }
    }

    fn transact(&mut self, transaction: &Transaction) -> Result<TransactionResult, StoreError> {
        check_size(transaction)?;
        let succeeded = transaction.compare.iter().all(|compare| self.holds(compare));
        let operations = if succeeded { &transaction.success } else { &transaction.failure };
        for operation in operations {
            match operation {
                Operation::Put { lease, .. } if *lease != 0 && !self.leases.contains_key(lease) => {
                    return Err(StoreError::NoLease(*lease));
                }
                _ => {}
            }
        }
        let writes = |operation: &Operation| match operation {
            Operation::Put { .. } => true,
            Operation::Delete(keys) => self.keys.keys().any(|key| keys.contains(key)),
            Operation::Get(_) => false,
        };
        self.revision += u64::from(operations.iter().any(writes));
        let mut reads = Vec::new();
        for operation in operations {
            match operation {
                Operation::Get(keys) => reads.push(self.get(keys).cloned().collect()),
                Operation::Put { key, value, lease } => self.put(key, value, *lease),
                Operation::Delete(keys) => {
                    let gone: Vec<String> = self.get(keys).map(|key| key.key.clone()).collect();
                    gone.iter().for_each(|key| self.delete(key));
                }
            }
        }
        Ok(TransactionResult { revision: self.revision, cluster: 1, succeeded, reads })
    }

    fn get<'t>(&'t self, keys: &'t Keys) -> Box<dyn Iterator<Item = &'t KeyValue> + 't> {
        match keys {
            Keys::One(key) => Box::new(self.keys.get(key).into_iter()),
            Keys::Prefix(prefix) => {
                let from = self.keys.range(prefix.clone()..).map(|(_, key)| key);
                Box::new(from.take_while(|key| key.key.starts_with(prefix.as_str())))
            }
        }
    }

    /// The keys as they were at a revision.
    fn at(&self, revision: Revision) -> Result<BTreeMap<String, KeyValue>, StoreError> {
        if revision < self.compacted {
            return Err(StoreError::Compacted { requested: revision, oldest: self.compacted });
        }
        let mut keys = self.keys.clone();
        // Keys that changed later have the value of their last change until then.
        for (change, _) in self.history.iter().filter(|(change, _)| change.revision > revision) {
            keys.remove(&change.key);
        }
        for (change, value) in self.history.iter().filter(|(change, _)| change.revision <= revision)
        {
            let is_later = self
                .history
                .iter()
                .any(|(later, _)| later.key == change.key && later.revision > revision);
            match value {
                Some(value) if is_later => drop(keys.insert(change.key.clone(), value.clone())),
                None if is_later => drop(keys.remove(&change.key)),
                _ => {}
            }
        }
        Ok(keys)
    }
}

fn check_size(transaction: &Transaction) -> Result<(), StoreError> {
    let Transaction { compare, success, failure } = transaction;
    let operations = compare.len().max(success.len()).max(failure.len());
    if operations > MAX_OPERATIONS {
        return Err(StoreError::TooLarge(format!("{operations} operations")));
    }
    let octets = |operation: &Operation| match operation {
        Operation::Put { key, value, .. } => key.len() + value.len(),
        _ => 0,
    };
    match success.iter().chain(failure).map(octets).sum::<usize>() {
        octets if octets > MAX_REQUEST => Err(StoreError::TooLarge(format!("{octets} octets"))),
        _ => Ok(()),
    }
}

impl Store for MemoryStore {
    fn transact(&mut self, transaction: &Transaction) -> Result<TransactionResult, StoreError> {
        let is_read = |operation: &Operation| matches!(operation, Operation::Get(_));
        if transaction.success.iter().chain(&transaction.failure).all(is_read) {
            return self.connect()?.transact(transaction);
        }
        self.write(|tables| tables.transact(transaction))
    }

    fn range(
        &mut self,
        keys: &Keys,
        from: &str,
        limit: usize,
        revision: Revision,
    ) -> Result<Page, StoreError> {
        let tables = self.connect()?;
        let read = if revision == 0 { tables.revision } else { revision };
        let all = if read == tables.revision { tables.keys.clone() } else { tables.at(read)? };
        let mut found: Vec<KeyValue> = all
            .into_values()
            .filter(|key| keys.contains(&key.key) && key.key.as_str() >= from)
            .take(limit.saturating_add(1))
            .collect();
        let has_more = found.len() > limit;
        found.truncate(limit);
        Ok(Page { revision: read, keys: found, has_more })
    }

    fn changes(
        &mut self,
        keys: &Keys,
        since: Revision,
    ) -> Result<(Vec<Change>, Revision), StoreError> {
        let tables = self.connect()?;
        if since < tables.compacted {
            return Err(StoreError::Compacted { requested: since, oldest: tables.compacted });
        }
        let changes = tables.history.iter().map(|(change, _)| change);
        let found = changes.filter(|change| change.revision >= since && keys.contains(&change.key));
        Ok((found.cloned().collect(), tables.revision + 1))
    }

    fn grant(&mut self, ttl_s: u32) -> Result<LeaseId, StoreError> {
        self.write(|tables| {
            tables.next_lease += 1;
            let ttl_ns = u64::from(ttl_s.max(SHORTEST_LEASE_S)) * NS_PER_S;
            let ends_ns = tables.now_ns + ttl_ns;
            tables.leases.insert(tables.next_lease, Lease { ttl_ns, ends_ns });
            tables.no_end_before_ns = tables.no_end_before_ns.min(ends_ns);
            Ok(tables.next_lease)
        })
    }

    fn keep(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.write(|tables| {
            let now_ns = tables.now_ns;
            let entry = tables.leases.get_mut(&lease).ok_or(StoreError::NoLease(lease))?;
            entry.ends_ns = now_ns + entry.ttl_ns;
            Ok(())
        })
    }

    fn revoke(&mut self, lease: LeaseId) -> Result<(), StoreError> {
        self.write(|tables| match tables.leases.contains_key(&lease) {
            true => {
                tables.end(lease);
                Ok(())
            }
            false => Err(StoreError::NoLease(lease)),
        })
    }
}

//! What each store must do: one table, run by the store in memory and by clients of etcd.

use std::time::Duration;

use super::{
    Condition, Keys, MAX_OPERATIONS, Operation, Revision, Store, StoreError, Transaction,
    TransactionResult,
};

/// A store under test.
pub trait TestStore: Store {
    /// Lets time pass.
    fn pass(&mut self, time: Duration);

    /// Removes revisions before this one.
    fn compact(&mut self, revision: Revision);
}

/// Runs all cases under keys with this prefix, which no other client uses.
///
/// # Errors
/// The case and the difference.
pub fn check(store: &mut impl TestStore, prefix: &str) -> Result<(), String> {
    create_and_compare(store, &format!("{prefix}compare/")).map_err(|e| format!("compare: {e}"))?;
    pages(store, &format!("{prefix}pages/")).map_err(|e| format!("pages: {e}"))?;
    changes(store, &format!("{prefix}changes/")).map_err(|e| format!("changes: {e}"))?;
    leases(store, &format!("{prefix}leases/")).map_err(|e| format!("leases: {e}"))?;
    limits(store, &format!("{prefix}limits/")).map_err(|e| format!("limits: {e}"))
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {found:?} instead of {wanted:?}")),
    }
}

fn failed(error: StoreError) -> String {
    format!("a request failed: {error}")
}

fn put(key: &str, value: &str, lease: i64) -> Operation {
    Operation::Put { key: key.into(), value: value.as_bytes().into(), lease }
}

fn run(
    store: &mut impl Store,
    compare: Vec<Condition>,
    success: Vec<Operation>,
) -> Result<TransactionResult, String> {
    store.transact(&Transaction { compare, success, failure: Vec::new() }).map_err(failed)
}

fn read(store: &mut impl Store, key: &str) -> Result<Option<(String, Revision, Revision)>, String> {
    let get = Transaction::read([Keys::One(key.into())]);
    let result = store.transact(&get).map_err(failed)?;
    let found = result.reads.first().and_then(|keys| keys.first());
    Ok(found.map(|key| {
        let value = String::from_utf8_lossy(&key.value).into_owned();
        (value, key.create_revision, key.mod_revision)
    }))
}

fn create_and_compare(store: &mut impl Store, prefix: &str) -> Result<(), String> {
    let key = format!("{prefix}key");
    let absent = || vec![Condition::CreateRevision(key.clone(), 0)];
    let first = run(store, absent(), vec![put(&key, "a", 0)])?;
    expect("a key is created", first.succeeded, true)?;
    let again = run(store, absent(), vec![put(&key, "b", 0)])?;
    expect("a key is created once", again.succeeded, false)?;
    expect("a refused write has no revision", again.revision, first.revision)?;
    let revision = first.revision;
    let changed =
        run(store, vec![Condition::ModRevision(key.clone(), revision)], vec![put(&key, "c", 0)])?;
    expect("the present revision succeeds", changed.succeeded, true)?;
    let stale =
        run(store, vec![Condition::ModRevision(key.clone(), revision)], vec![put(&key, "d", 0)])?;
    expect("an old revision does not", stale.succeeded, false)?;
    let wanted = Some(("c".into(), revision, changed.revision));
    expect("value and revisions", read(store, &key)?, wanted)?;
    // Two keys in one transaction: one revision, or none.
    let other = format!("{prefix}other");
    let both = run(store, Vec::new(), vec![put(&key, "e", 0), put(&other, "f", 0)])?;
    let found = [read(store, &key)?, read(store, &other)?];
    let revisions = found.map(|found| found.map_or(0, |(_, _, revision)| revision));
    expect("one revision", revisions, [both.revision; 2])?;
    run(store, Vec::new(), vec![Operation::Delete(Keys::Prefix(prefix.into()))])?;
    expect("removed keys", read(store, &key)?, None)?;
    let again = run(store, absent(), vec![put(&key, "g", 0)])?;
    expect("a removed key is created again", again.succeeded, true)?;
    let created = read(store, &key)?.map(|(_, created, _)| created);
    expect("with a new revision", created, Some(again.revision))
}

fn pages(store: &mut impl Store, prefix: &str) -> Result<(), String> {
    let key = |number: usize| format!("{prefix}{number:02}");
    for number in 0..25 {
        run(store, Vec::new(), vec![put(&key(number), "old", 0)])?;
    }
    let keys = Keys::Prefix(prefix.into());
    let (mut found, mut from, mut revision) = (Vec::new(), prefix.to_owned(), 0);
    loop {
        let page = store.range(&keys, &from, 10, revision).map_err(failed)?;
        revision = page.revision;
        found.extend(page.keys.iter().map(|key| (key.key.clone(), key.value.clone())));
        let Some(last) = page.keys.last().filter(|_| page.has_more) else { break };
        from = format!("{}\0", last.key);
        // Pages of one revision do not see this.
        run(store, Vec::new(), vec![put(&key(24), "new", 0), put(&key(25), "new", 0)])?;
    }
    let wanted: Vec<(String, Vec<u8>)> = (0..25).map(|n| (key(n), b"old".to_vec())).collect();
    expect("pages of one revision", found, wanted)
}

fn changes(store: &mut impl TestStore, prefix: &str) -> Result<(), String> {
    let key = format!("{prefix}key");
    let keys = Keys::Prefix(prefix.into());
    let first = run(store, Vec::new(), vec![put(&key, "a", 0)])?.revision;
    let second = run(store, Vec::new(), vec![put(&key, "b", 0)])?.revision;
    let third = run(store, Vec::new(), vec![Operation::Delete(Keys::One(key.clone()))])?.revision;
    let list = |changes: Vec<super::Change>| -> Vec<(Revision, bool)> {
        changes.into_iter().map(|change| (change.revision, change.exists)).collect()
    };
    let (all, next) = store.changes(&keys, first).map_err(failed)?;
    expect("each change once", list(all), vec![(first, true), (second, true), (third, false)])?;
    let (later, _) = store.changes(&keys, second).map_err(failed)?;
    expect("from a revision on", list(later), vec![(second, true), (third, false)])?;
    let (none, _) = store.changes(&keys, next).map_err(failed)?;
    expect("none repeated", list(none), Vec::new())?;
    store.compact(third);
    let compacted = store.changes(&keys, first);
    let is_compacted = matches!(compacted, Err(StoreError::Compacted { .. }));
    expect("a compacted revision is reported", is_compacted, true)?;
    // A removal at the compacted revision itself is reported by the store in memory, and not by etcd.
    let fourth = run(store, Vec::new(), vec![put(&key, "c", 0)])?.revision;
    let (rest, _) = store.changes(&keys, fourth).map_err(failed)?;
    expect("later ones remain", list(rest), vec![(fourth, true)])
}

fn leases(store: &mut impl TestStore, prefix: &str) -> Result<(), String> {
    let (kept, ended, key) = (format!("{prefix}kept"), format!("{prefix}ended"), "lease exists");
    let leases = [store.grant(2).map_err(failed)?, store.grant(2).map_err(failed)?];
    run(store, Vec::new(), vec![put(&kept, "", leases[0]), put(&ended, "", leases[1])])?;
    for _ in 0..6 {
        store.pass(Duration::from_secs(1));
        store.keep(leases[0]).map_err(failed)?;
    }
    expect(key, read(store, &kept)?.is_some(), true)?;
    expect("the key of an ended lease is gone", read(store, &ended)?, None)?;
    let late = store.keep(leases[1]);
    expect("an ended lease is reported", late, Err(StoreError::NoLease(leases[1])))?;
    let put = Transaction { success: vec![put(&ended, "", leases[1])], ..Transaction::default() };
    expect("and takes no key", store.transact(&put), Err(StoreError::NoLease(leases[1])))?;
    store.revoke(leases[0]).map_err(failed)?;
    expect("the key of a revoked lease is gone", read(store, &kept)?, None)
}

fn limits(store: &mut impl Store, prefix: &str) -> Result<(), String> {
    let operations =
        |count| (0..count).map(|n| put(&format!("{prefix}{n:03}"), "", 0)).collect::<Vec<_>>();
    run(store, Vec::new(), operations(MAX_OPERATIONS))?;
    let many = Transaction { success: operations(MAX_OPERATIONS + 1), ..Transaction::default() };
    let is_refused = matches!(store.transact(&many), Err(StoreError::TooLarge(_)));
    expect("more operations are refused", is_refused, true)
}

#[cfg(test)]
mod tests {
    use super::super::MemoryStore;
    use super::*;

    /// Time of the store in memory.
    struct ClockedStore(MemoryStore, u64);

    impl Store for ClockedStore {
        fn transact(&mut self, transaction: &Transaction) -> Result<TransactionResult, StoreError> {
            self.0.transact(transaction)
        }

        fn range(
            &mut self,
            keys: &Keys,
            from: &str,
            limit: usize,
            revision: Revision,
        ) -> Result<super::super::Page, StoreError> {
            self.0.range(keys, from, limit, revision)
        }

        fn changes(
            &mut self,
            keys: &Keys,
            since: Revision,
        ) -> Result<(Vec<super::super::Change>, Revision), StoreError> {
            self.0.changes(keys, since)
        }

        fn grant(&mut self, ttl_s: u32) -> Result<i64, StoreError> {
            self.0.grant(ttl_s)
        }

        fn keep(&mut self, lease: i64) -> Result<(), StoreError> {
            self.0.keep(lease)
        }

        fn revoke(&mut self, lease: i64) -> Result<(), StoreError> {
            self.0.revoke(lease)
        }
    }

    impl TestStore for ClockedStore {
        fn pass(&mut self, time: Duration) {
            self.1 += time.as_nanos() as u64;
            self.0.advance_to(self.1);
        }

        fn compact(&mut self, revision: Revision) {
            self.0.compact(revision);
        }
    }

    #[test]
    fn the_store_in_memory_passes_the_table() {
        check(&mut ClockedStore(MemoryStore::default(), 0), "test/").unwrap();
    }

    #[test]
    fn faults_are_those_of_one_client() {
        let mut store = MemoryStore::default();
        let mut other = store.clone();
        store.lose_next_outcome(true);
        let write = |value: &str| Transaction {
            success: vec![put("key", value, 0)],
            ..Transaction::default()
        };
        assert_eq!(store.transact(&write("a")), Err(StoreError::Unknown));
        assert_eq!(read(&mut store, "key").unwrap().unwrap().0, "a");
        store.lose_next_outcome(false);
        assert_eq!(store.transact(&write("b")), Err(StoreError::Unknown));
        assert_eq!(read(&mut other, "key").unwrap().unwrap().0, "a");
        store.set_partitioned(true);
        assert!(matches!(store.transact(&write("c")), Err(StoreError::Unavailable(_))));
        other.transact(&write("d")).unwrap();
        // A new leader gives a lease its whole time again.
        let lease = other.grant(10).unwrap();
        other.advance_to(9_000_000_000);
        other.elect();
        other.advance_to(18_000_000_000);
        other.keep(lease).unwrap();
    }
}

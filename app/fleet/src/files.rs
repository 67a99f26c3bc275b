//! Plans in the store: their files, deflated and in parts, with signed hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use onbeat_plan::manifest::Manifest as PlanManifest;
use onbeat_report::format::count;
use onbeat_rollout::change::{PlanFiles, PreparedChange};
use onbeat_rollout::key::{self, PART_OCTETS};
use onbeat_rollout::record::{
    Batch, Change, FileHash, LONGEST_FILE, Manifest, NodeChange, NodeFileEntry, Record,
    RecordError, Signer, Verifier, open, seal,
};
use onbeat_rollout::store::{
    Condition, KeyValue, Keys, MAX_OPERATIONS, Operation, Store, Transaction,
};
use onbeat_rollout::{Current, Generation};

use crate::agent::unix_time;
use crate::error::{Error, Result};

/// Longest manifest of `onbeat plan`.
const LONGEST_PLAN: u64 = 1 << 30;

/// Keys of a page: with values of the longest length that etcd takes they fit into a response.
const PAGE: usize = 32;

/// Octets that are read of keys with one prefix.
const MOST_OCTETS: usize = 256 << 20;

/// Parts of the deflated manifest of `onbeat plan`.
const MOST_PLAN_PARTS: usize = 128;

/// Parts of keys after a prefix that are no numbers of plans: records beside them.
const MOST_PARTS: usize = 1000;

/// Numbers of plans after a prefix: a roll-out can have a batch for each stream.
const MOST_PLANS: usize = 100_000;

/// Nodes whose files are read in one request: two keys each.
const NODES_AT_ONCE: usize = PAGE / 2;

/// The prefix of the manifest that `onbeat plan` wrote, in parts.
fn plan_parts(generation: Generation) -> String {
    format!("plan/{generation}/plan/")
}

fn deflate(text: &str) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

/// Inflates at most `most` octets: a short text can be made that inflates to any length.
fn inflate(octets: &[u8], most: u64) -> Option<String> {
    let mut text = Vec::new();
    DeflateDecoder::new(octets).take(most + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > most { None } else { String::from_utf8(text).ok() }
}

/// Reads all keys with a prefix, of one revision: at most this number. Who can write to the store can write any keys.
pub(crate) fn read_all(store: &mut impl Store, prefix: &str, most: usize) -> Result<Vec<KeyValue>> {
    let keys = Keys::Prefix(prefix.to_owned());
    let (mut all, mut from, mut revision) = (Vec::new(), String::new(), 0);
    let mut octets = 0;
    let many = |most| Error::ManyKeys { prefix: prefix.to_owned(), most };
    loop {
        let page = store.range(&keys, &from, PAGE, revision)?;
        revision = page.revision;
        octets += page.keys.iter().map(|found| found.key.len() + found.value.len()).sum::<usize>();
        all.extend(page.keys);
        if all.len() > most {
            return Err(many(count(most as u64, "key")));
        }
        if octets > MOST_OCTETS {
            return Err(many(format!("{} MiB", MOST_OCTETS >> 20)));
        }
        match all.last().filter(|_| page.has_more) {
            Some(last) => from = format!("{}\0", last.key),
            None => return Ok(all),
        }
    }
}

/// Numbers of plans that are the next part of keys with a prefix: 7 of `plan/7/manifest`. One request each, whatever else
/// is below.
pub(crate) fn generations(store: &mut impl Store, prefix: &str) -> Result<BTreeSet<Generation>> {
    let keys = Keys::Prefix(prefix.to_owned());
    let (mut found, mut from) = (BTreeSet::new(), String::new());
    let mut others = 0;
    while others < MOST_PARTS && found.len() < MOST_PLANS {
        let page = store.range(&keys, &from, 1, 0)?;
        let Some(first) = page.keys.first() else { return Ok(found) };
        let rest = first.key.strip_prefix(prefix).unwrap_or_default();
        let part = rest.split('/').next().unwrap_or_default();
        // A number has one form: 007 is none.
        match part.parse::<Generation>().ok().filter(|number| number.to_string() == part) {
            Some(number) => _ = found.insert(number),
            None => others += 1,
        }
        // The octet after the slash: what is below this part has been seen.
        from = match rest.len() == part.len() {
            true => format!("{prefix}{part}\0"),
            false => format!("{prefix}{part}0"),
        };
    }
    let most = match others {
        MOST_PARTS => count(MOST_PARTS as u64, "other part"),
        _ => count(MOST_PLANS as u64, "plan"),
    };
    Err(Error::ManyKeys { prefix: prefix.into(), most })
}

/// Reads one key.
pub(crate) fn read_one(store: &mut impl Store, key: &str) -> Result<Option<KeyValue>> {
    let read = store.transact(&Transaction::read([Keys::One(key.to_owned())]))?;
    Ok(read.reads.into_iter().flatten().next())
}

fn put(key: String, value: Vec<u8>) -> Operation {
    Operation::Put { key, value, lease: 0 }
}

/// Writes a key; returns whether it did not exist.
fn create(store: &mut impl Store, key: String, value: Vec<u8>) -> Result<bool> {
    let compare = vec![Condition::CreateRevision(key.clone(), 0)];
    let created = Transaction { compare, success: vec![put(key, value)], ..Transaction::default() };
    Ok(store.transact(&created)?.succeeded)
}

/// Writes keys, as many at once as a request can have: a plant has thousands.
struct BatchedWrites<'s, S> {
    store: &'s mut S,
    operations: Vec<Operation>,
    octets: usize,
}

impl<'s, S: Store> BatchedWrites<'s, S> {
    fn new(store: &'s mut S) -> Self {
        Self { store, operations: Vec::new(), octets: 0 }
    }

    fn add(&mut self, key: String, value: Vec<u8>) -> Result<()> {
        let is_full =
            self.operations.len() == MAX_OPERATIONS || self.octets + value.len() > PART_OCTETS;
        if is_full {
            self.flush()?;
        }
        self.octets += value.len();
        self.operations.push(put(key, value));
        Ok(())
    }

    /// Writes what was added before: a key that completes it follows.
    fn flush(&mut self) -> Result<()> {
        self.octets = 0;
        let success = std::mem::take(&mut self.operations);
        if !success.is_empty() {
            self.store.transact(&Transaction::write(success))?;
        }
        Ok(())
    }

    /// Adds a text in parts; returns their number.
    fn add_parts(&mut self, text: &str, key: impl Fn(usize) -> String) -> Result<u32> {
        let octets = deflate(text);
        let parts = octets.chunks(PART_OCTETS);
        let count = parts.len() as u32;
        for (number, part) in parts.enumerate() {
            self.add(key(number), part.to_owned())?;
        }
        Ok(count)
    }
}

/// Writes a plan under the next free number from `first` on. The manifest is last: with it the plan is complete.
pub(crate) fn upload(
    store: &mut impl Store,
    signer: &impl Signer,
    first: Generation,
    plan_text: &str,
    files: &BTreeMap<String, String>,
    mut progress: impl FnMut(usize),
) -> Result<Generation> {
    let mut generation = first;
    // Reserves the number, so that two controllers do not write one plan.
    while !create(store, format!("plan/{generation}/reserved"), Vec::new())? {
        generation += 1;
    }
    let mut writes = BatchedWrites::new(store);
    for (number, (node, text)) in files.iter().enumerate() {
        let parts = writes.add_parts(text, |part| key::part(generation, node, part))?;
        let entry = NodeFileEntry {
            generation,
            node: node.clone(),
            sha256: FileHash::of(text),
            octets: text.len() as u64,
            parts,
        };
        writes.add(key::node(generation, node), seal(&entry, signer))?;
        progress(number + 1);
    }
    writes.add_parts(plan_text, |part| format!("{}{part:06}", plan_parts(generation)))?;
    writes.flush()?;
    let nodes = files.iter().map(|(node, text)| (node.clone(), FileHash::of(text))).collect();
    let stored_s = unix_time();
    let manifest = Manifest { generation, nodes, plan: FileHash::of(plan_text), stored_s };
    writes.add(key::manifest(generation), seal(&manifest, signer))?;
    writes.flush()?;
    Ok(generation)
}

/// Plans that are kept beside the one that runs.
const FORMER_PLANS: usize = 10;

/// Removes the batches on the way to a plan that rests, and the oldest of the other plans.
pub(crate) fn remove_former(
    store: &mut impl Store,
    verifier: &impl Verifier,
    present: Generation,
    batches: &[Generation],
) -> Result<()> {
    let read = store.transact(&Transaction::read([Keys::One(key::CURRENT.to_owned())]))?;
    let Some(found) = read.reads.into_iter().flatten().next() else { return Ok(()) };
    let current: Current = open(key::CURRENT, &found.value, verifier)?;
    // Another controller has begun a roll-out, perhaps to one of them.
    if (current.from, current.to) != (present, present) {
        return Ok(());
    }
    let known = generations(store, "plan/")?;
    // A rollback returns to those.
    let mut before = generations(store, &format!("plan/{present}/from/"))?;
    before.retain(|plan| !batches.contains(plan));
    let is_former =
        |plan: &&Generation| **plan != present && !batches.contains(plan) && !before.contains(plan);
    let old = known.iter().rev().filter(is_former).skip(FORMER_PLANS);
    for plan in old.chain(batches) {
        let removed = Transaction {
            compare: vec![Condition::ModRevision(key::CURRENT.into(), found.mod_revision)],
            success: vec![Operation::Delete(Keys::Prefix(format!("plan/{plan}/")))],
            ..Transaction::default()
        };
        store.transact(&removed)?;
    }
    Ok(())
}

/// Writes what a plan is a batch of.
pub(crate) fn upload_batch(
    store: &mut impl Store,
    signer: &impl Signer,
    batch: &Batch,
) -> Result<()> {
    let written = vec![put(key::batch(batch.generation), seal(batch, signer))];
    store.transact(&Transaction::write(written))?;
    Ok(())
}

/// What a plan is a batch of, if it is one.
pub(crate) fn batch(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<Option<Batch>> {
    let key = key::batch(generation);
    let Some(found) = read_one(store, &key)? else { return Ok(None) };
    Ok(Some(open(&key, &found.value, verifier)?))
}

/// As [`batch`]; a record that the fleet did not sign is none.
pub(crate) fn valid_batch(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<Option<Batch>> {
    let key = key::batch(generation);
    let found = read_one(store, &key)?;
    Ok(found.and_then(|found| open(&key, &found.value, verifier).ok()))
}

/// The batches between two plans, also those of an interrupted command.
pub(crate) fn batches(
    store: &mut impl Store,
    verifier: &impl Verifier,
    (first, plan): (Generation, FileHash),
) -> Result<Vec<Generation>> {
    let mut found = Vec::new();
    for generation in generations(store, "plan/")? {
        let batch = valid_batch(store, verifier, generation)?;
        if batch.is_some_and(|batch| (batch.first, batch.plan) == (first, plan)) {
            found.push(generation);
        }
    }
    Ok(found)
}

/// Writes a change: its nodes first.
pub(crate) fn upload_change(
    store: &mut impl Store,
    signer: &impl Signer,
    prepared: &PreparedChange,
) -> Result<()> {
    let (from, to) = (prepared.change.from, prepared.change.to);
    let invalid = |fault| RecordError::Invalid { key: key::change(from, to), fault };
    prepared.change.check().map_err(invalid)?;
    let mut writes = BatchedWrites::new(store);
    for node in &prepared.nodes {
        writes.add(key::node_change(from, to, &node.node), seal(node, signer))?;
    }
    writes.flush()?;
    writes.add(key::change(from, to), seal(&prepared.change, signer))?;
    writes.flush()
}

/// Returns the signed manifest of a plan.
pub(crate) fn manifest(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<Manifest> {
    let key = key::manifest(generation);
    let found = read_one(store, &key)?;
    let found = found.ok_or(Error::Incomplete { generation, what: "manifest".into() })?;
    Ok(open(&key, &found.value, verifier)?)
}

/// Returns the nodes of a plan, with the hashes of their files.
pub(crate) fn nodes(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<BTreeMap<String, FileHash>> {
    match generation {
        0 => Ok(BTreeMap::new()),
        _ => Ok(manifest(store, verifier, generation)?.nodes),
    }
}

/// Returns the file of a node in a plan, from keys of the store and the signed entry among them. `None`: the plan has none for
/// it. Plan 0 has none at all.
fn node_file(
    verifier: &impl Verifier,
    (generation, node): (Generation, &str),
    mut value: impl FnMut(String) -> Result<Option<Vec<u8>>>,
) -> Result<Option<(FileHash, String)>> {
    let key = key::node(generation, node);
    let Some(entry) = value(key.clone())? else { return Ok(None) };
    let entry: NodeFileEntry = open(&key, &entry, verifier)?;
    let mut octets = Vec::new();
    for part in 0..entry.parts as usize {
        let found = value(key::part(generation, node, part))?;
        let missing = || Error::Incomplete { generation, what: format!("part {part} of {node}") };
        octets.extend(found.ok_or_else(missing)?);
    }
    let text = inflate(&octets, LONGEST_FILE).filter(|text| FileHash::of(text) == entry.sha256);
    let differs = || Error::Hash { generation, what: format!("the file of {node}") };
    Ok(Some((entry.sha256, text.ok_or_else(differs)?)))
}

/// What two plans have for a node.
#[derive(Debug)]
pub(crate) struct NodeRecords {
    /// The change from one to the other, if it affects the node.
    pub(crate) change: Option<NodeChange>,
    /// The files in both, with the hashes of their entries.
    pub(crate) files: [Option<(FileHash, String)>; 2],
}

/// Reads what two plans have for a node: in one request, unless a file has several parts.
pub(crate) fn node_records(
    store: &mut impl Store,
    verifier: &impl Verifier,
    (from, to): (Generation, Generation),
    node: &str,
) -> Result<NodeRecords> {
    let (of_all, of_node) = (key::change(from, to), key::node_change(from, to, node));
    let mut keys = Vec::new();
    if from != to {
        keys.extend([of_all.clone(), of_node.clone()]);
    }
    let plans: BTreeSet<Generation> = [from, to].into_iter().filter(|plan| *plan != 0).collect();
    for plan in plans {
        keys.extend([key::node(plan, node), key::part(plan, node, 0)]);
    }
    let read = store.transact(&Transaction::read(keys.iter().cloned().map(Keys::One)))?;
    let found = read.reads.into_iter().flatten().map(|found| (found.key, found.value));
    let found: BTreeMap<String, Vec<u8>> = found.collect();
    let mut change = None;
    if from != to {
        let incomplete = |what| Error::Incomplete { generation: to, what };
        let value = found.get(&of_all);
        let value = value.ok_or_else(|| incomplete(format!("change from plan {from}")))?;
        if open::<Change>(&of_all, value, verifier)?.affected.iter().any(|of| of == node) {
            let value = found.get(&of_node);
            let what = || incomplete(format!("change of {node} from plan {from}"));
            change = Some(open(&of_node, value.ok_or_else(what)?, verifier)?);
        }
    }
    let mut file = |plan| {
        node_file(verifier, (plan, node), |key| match found.get(&key) {
            Some(value) => Ok(Some(value.clone())),
            None if keys.contains(&key) || plan == 0 => Ok(None),
            None => Ok(read_one(store, &key)?.map(|found| found.value)),
        })
    };
    Ok(NodeRecords { change, files: [file(from)?, file(to)?] })
}

/// Returns the signed change from one plan to another.
pub(crate) fn change(
    store: &mut impl Store,
    verifier: &impl Verifier,
    (from, to): (Generation, Generation),
) -> Result<Change> {
    let key = key::change(from, to);
    let what = format!("change from plan {from}");
    let found = read_one(store, &key)?.ok_or(Error::Incomplete { generation: to, what })?;
    Ok(open(&key, &found.value, verifier)?)
}

/// Returns the signed changes of nodes, by node.
pub(crate) fn node_changes(
    store: &mut impl Store,
    verifier: &impl Verifier,
    (from, to): (Generation, Generation),
    nodes: &[String],
) -> Result<BTreeMap<String, NodeChange>> {
    let mut changes = BTreeMap::new();
    for some in nodes.chunks(MAX_OPERATIONS) {
        let keys: Vec<String> = some.iter().map(|node| key::node_change(from, to, node)).collect();
        let read = store.transact(&Transaction::read(keys.iter().cloned().map(Keys::One)))?;
        for ((node, key), found) in some.iter().zip(&keys).zip(read.reads) {
            let what = || format!("change of {node} from plan {from}");
            let found = found.into_iter().next();
            let found = found.ok_or_else(|| Error::Incomplete { generation: to, what: what() })?;
            changes.insert(node.clone(), open(key, &found.value, verifier)?);
        }
    }
    Ok(changes)
}

/// Returns the manifest that `onbeat plan` wrote.
pub(crate) fn plan_manifest(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<PlanManifest> {
    let signed = manifest(store, verifier, generation)?;
    read_plan_manifest(store, &signed)
}

fn read_plan_manifest(store: &mut impl Store, signed: &Manifest) -> Result<PlanManifest> {
    let generation = signed.generation;
    let parts = read_all(store, &plan_parts(generation), MOST_PLAN_PARTS)?;
    let octets: Vec<u8> = parts.into_iter().flat_map(|part| part.value).collect();
    let differs = || Error::Hash { generation, what: "the manifest of onbeat plan".into() };
    let text = inflate(&octets, LONGEST_PLAN).filter(|text| FileHash::of(text) == signed.plan);
    let read = PlanManifest::parse(&text.ok_or_else(differs)?, "manifest.json");
    read.map_err(|_| differs())
}

/// Returns a plan with all files.
pub(crate) fn plan(
    store: &mut impl Store,
    verifier: &impl Verifier,
    generation: Generation,
) -> Result<PlanFiles> {
    if generation == 0 {
        return Ok(PlanFiles::default());
    }
    let signed = manifest(store, verifier, generation)?;
    let read = read_plan_manifest(store, &signed)?;
    let mut files = BTreeMap::new();
    // Only keys of nodes that the signed manifest has: others below the prefix are none of a fleet.
    let nodes: Vec<(&String, &FileHash)> = signed.nodes.iter().collect();
    for some in nodes.chunks(NODES_AT_ONCE) {
        let of_node =
            |node: &&String| [key::node(generation, node), key::part(generation, node, 0)];
        let keys = some.iter().flat_map(|(node, _)| of_node(node)).map(Keys::One);
        let read = store.transact(&Transaction::read(keys))?;
        let found = read.reads.into_iter().flatten().map(|found| (found.key, found.value));
        let mut found: BTreeMap<String, Vec<u8>> = found.collect();
        for (node, hash) in some {
            let file = node_file(verifier, (generation, node), |key| match found.remove(&key) {
                Some(value) => Ok(Some(value)),
                // A further part, or none.
                None => Ok(read_one(store, &key)?.map(|found| found.value)),
            })?;
            let file = file.filter(|(sha256, _)| sha256 == *hash);
            let differs = || Error::Hash { generation, what: format!("the file of {node}") };
            files.insert((*node).clone(), file.ok_or_else(differs)?.1);
        }
    }
    Ok(PlanFiles::new(generation, read, files))
}

#[cfg(test)]
mod tests {
    use onbeat_rollout::store::{
        Change as StoreChange, MAX_REQUEST, MemoryStore, Page, StoreError, TransactionResult,
    };

    use super::*;

    struct Key;

    impl Signer for Key {
        fn sign(&self, message: &[u8]) -> Vec<u8> {
            FileHash::of(&String::from_utf8_lossy(message)).0.to_vec()
        }
    }

    impl Verifier for Key {
        fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
            Key.sign(message) == signature
        }
    }

    fn write(store: &mut MemoryStore, key: String, value: Vec<u8>) -> Result<()> {
        let mut writes = BatchedWrites::new(store);
        writes.add(key, value)?;
        writes.flush()
    }

    #[test]
    fn a_text_that_inflates_to_more_is_refused() {
        let text = "x".repeat(1000);
        assert_eq!(inflate(&deflate(&text), 1000).as_deref(), Some(text.as_str()));
        assert_eq!(inflate(&deflate(&text), 999), None);
        assert_eq!(inflate(b"\xff\xff\xff", 999), None);
    }

    #[test]
    fn a_plan_of_a_thousand_nodes_takes_few_requests() {
        let mut store = MemoryStore::default();
        let files = (0..1000).map(|node| (format!("n{node}"), "x".into())).collect();
        upload(&mut store, &Key, 1, "{}", &files, |_| {}).unwrap();
        let all = read_all(&mut store, "plan/1/", 3000).unwrap();
        assert_eq!(all.len(), 2003);
        let last = all.iter().map(|key| key.mod_revision).max().unwrap();
        assert!(last < 25, "{last} requests");
        let of = |name: &str| all.iter().find(|key| key.key == name).unwrap().mod_revision;
        assert_eq!(of("plan/1/manifest"), last, "with it the plan is complete");
    }

    /// A client that refuses responses as the one of etcd does, and counts the requests.
    struct LimitedStore {
        store: MemoryStore,
        requests: usize,
    }

    /// The longest response is this one.
    const LONGEST_RESPONSE: usize = 64 << 20;

    impl LimitedStore {
        fn check<'k>(&mut self, keys: impl Iterator<Item = &'k KeyValue>) -> StoreResult<()> {
            self.requests += 1;
            match keys.map(|found| found.key.len() + found.value.len()).sum::<usize>() {
                octets if octets > LONGEST_RESPONSE => {
                    Err(StoreError::LongResponse(octets.to_string()))
                }
                _ => Ok(()),
            }
        }
    }

    type StoreResult<T> = std::result::Result<T, StoreError>;

    impl Store for LimitedStore {
        fn transact(&mut self, transaction: &Transaction) -> StoreResult<TransactionResult> {
            let done = self.store.transact(transaction)?;
            self.check(done.reads.iter().flatten())?;
            Ok(done)
        }

        fn range(&mut self, k: &Keys, from: &str, limit: usize, at: u64) -> StoreResult<Page> {
            let page = self.store.range(k, from, limit, at)?;
            self.check(page.keys.iter())?;
            Ok(page)
        }

        fn changes(&mut self, keys: &Keys, since: u64) -> StoreResult<(Vec<StoreChange>, u64)> {
            self.store.changes(keys, since)
        }

        fn grant(&mut self, ttl_s: u32) -> StoreResult<i64> {
            self.store.grant(ttl_s)
        }

        fn keep(&mut self, lease: i64) -> StoreResult<()> {
            self.store.keep(lease)
        }

        fn revoke(&mut self, lease: i64) -> StoreResult<()> {
            self.store.revoke(lease)
        }
    }

    /// Plan 1 of 70 nodes.
    fn stored() -> (MemoryStore, BTreeMap<String, String>) {
        let mut store = MemoryStore::default();
        let files: BTreeMap<String, String> =
            (0..70).map(|node| (format!("n{node}"), format!("# {node}\n"))).collect();
        let plan = PlanFiles { generation: 1, files: files.clone(), ..PlanFiles::default() };
        let text = serde_json::to_string(&plan.manifest()).unwrap();
        upload(&mut store, &Key, 1, &text, &files, |_| {}).unwrap();
        (store, files)
    }

    #[test]
    fn a_plan_is_read_whatever_else_another_program_wrote_beside_it() {
        let (mut store, files) = stored();
        // More than a response can have, between the keys of nodes and behind them.
        let junk = vec![0; PART_OCTETS];
        for number in 0..80 {
            write(&mut store, format!("plan/1/node/n{}/junk{number}", number % 3), junk.clone())
                .unwrap();
            write(&mut store, format!("plan/1/node/zzz{number}"), junk.clone()).unwrap();
        }
        let mut limited = LimitedStore { store, requests: 0 };
        assert_eq!(plan(&mut limited, &Key, 1).unwrap().files, files);
        assert!(limited.requests < 10, "{} requests", limited.requests);
        // What was exchanged is refused, and read once.
        write(&mut limited.store, key::node(1, "n7"), junk).unwrap();
        assert!(matches!(plan(&mut limited, &Key, 1), Err(Error::Record(_))));
        let longest = vec![0; MAX_REQUEST - 100];
        for node in files.keys() {
            write(&mut limited.store, key::part(1, node, 0), longest.clone()).unwrap();
            write(&mut limited.store, key::node(1, node), longest.clone()).unwrap();
        }
        // The longest values of as many nodes as are read at once fit into a response.
        let refused = plan(&mut limited, &Key, 1).unwrap_err();
        assert!(matches!(refused, Error::Record(_)), "{refused}");
    }

    #[test]
    fn keys_that_no_fleet_writes_end_in_an_error() {
        let (mut store, _) = stored();
        for number in 0..=MOST_PLAN_PARTS {
            write(&mut store, format!("plan/1/plan/{number:06}x"), Vec::new()).unwrap();
        }
        let refused = plan(&mut store, &Key, 1).unwrap_err().to_string();
        assert!(refused.contains("more than 128 keys below \"plan/1/plan/\""), "{refused}");
        let long = vec![0; 1 << 20];
        for number in 0..257 {
            write(&mut store, format!("junk/{number}"), long.clone()).unwrap();
        }
        let refused = read_all(&mut store, "junk/", 10_000).unwrap_err().to_string();
        assert!(refused.contains("more than 256 MiB"), "{refused}");
    }

    #[test]
    fn numbers_of_plans_are_found_whatever_is_below_them() {
        let (mut store, _) = stored();
        let names = [
            "plan/10/manifest",
            "plan/2/from/1/a",
            "plan/current",
            "plan/x/y",
            "plan/3",
            "plan/+7/a",
            "plan/007",
        ];
        for name in names {
            write(&mut store, name.into(), Vec::new()).unwrap();
        }
        let mut limited = LimitedStore { store, requests: 0 };
        assert_eq!(generations(&mut limited, "plan/").unwrap(), [1, 2, 3, 10].into());
        assert_eq!(limited.requests, 9, "one for each part, and one that finds no other");
        assert_eq!(generations(&mut limited, "plan/2/from/").unwrap(), [1].into());
        // A roll-out of many small batches.
        for number in 0..2 * MOST_PARTS {
            write(&mut limited.store, format!("batches/{number}/batch"), Vec::new()).unwrap();
        }
        assert_eq!(generations(&mut limited, "batches/").unwrap().len(), 2 * MOST_PARTS);
        for number in 0..MOST_PARTS {
            write(&mut limited.store, format!("plan/junk{number}"), Vec::new()).unwrap();
        }
        let refused = generations(&mut limited, "plan/").unwrap_err();
        assert!(matches!(refused, Error::ManyKeys { .. }), "{refused}");
    }

    #[test]
    fn a_file_of_several_parts_is_read_and_one_that_was_exchanged_refused() {
        let mut store = MemoryStore::default();
        // Digits that hardly deflate.
        let mut number = 1_u64;
        let text: String = (0..200_000)
            .map(|_| {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{number:016x}")
            })
            .collect();
        let files = BTreeMap::from([("a".to_owned(), text.clone()), ("b".to_owned(), "x".into())]);
        let plan = "{}";
        let first = upload(&mut store, &Key, 1, plan, &files, |_| {}).unwrap();
        let second = upload(&mut store, &Key, 1, plan, &files, |_| {}).unwrap();
        assert_eq!((first, second), (1, 2), "a number is used once");
        let mut file = |node: &str| node_records(&mut store, &Key, (1, 1), node);
        let [read, same] = file("a").unwrap().files;
        assert!(read == same && read == Some((FileHash::of(&text), text)));
        assert_eq!(file("c").unwrap().files, [None, None]);
        write(&mut store, key::part(1, "b", 0), deflate("y")).unwrap();
        let refused = node_records(&mut store, &Key, (1, 1), "b").unwrap_err();
        assert!(matches!(refused, Error::Hash { .. }), "{refused}");
        // The signed record of another plan does not stand for this one.
        let other = read_one(&mut store, &key::node(2, "b")).unwrap().unwrap().value;
        write(&mut store, key::node(1, "b"), other).unwrap();
        assert!(matches!(node_records(&mut store, &Key, (1, 1), "b"), Err(Error::Record(_))));
    }
}

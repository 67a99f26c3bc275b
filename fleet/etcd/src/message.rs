//! Requests and responses of etcd.

use std::fmt;

use crate::wire::{self, EncodingError, Reader, Writer};

type Read<T> = Result<T, EncodingError>;

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// Its value; none in the event of its removal.
    pub value: Vec<u8>,
    /// Revision of the store in which the key was created.
    pub create_revision: i64,
    /// Revision in which it was last changed.
    pub mod_revision: i64,
    /// Number of changes since it was created, which is the first one.
    pub version: i64,
    /// Its lease, 0 for none.
    pub lease: i64,
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, octets) = (String::from_utf8_lossy(&self.key), self.value.len());
        write!(f, "{key:?} ({octets} octets, revision {})", self.mod_revision)
    }
}

impl KeyValue {
    fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| {
            Ok(match field {
                1 => value.to_octets(&mut read.key),
                2 => value.to_signed(&mut read.create_revision),
                3 => value.to_signed(&mut read.mod_revision),
                4 => value.to_signed(&mut read.version),
                5 => value.to_octets(&mut read.value),
                6 => value.to_signed(&mut read.lease),
                _ => true,
            })
        })?;
        Ok(read)
    }
}

/// The state of the store at a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Number of the cluster; another one after a restore from a snapshot.
    pub cluster: u64,
    /// Number of the member that answered.
    pub member: u64,
    /// Revision of the store.
    pub revision: i64,
}

impl Header {
    fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| {
            Ok(match field {
                1 => value.to_number(&mut read.cluster),
                2 => value.to_number(&mut read.member),
                3 => value.to_signed(&mut read.revision),
                _ => true,
            })
        })?;
        Ok(read)
    }
}

/// Keys to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first one.
    pub key: Vec<u8>,
    /// The one after the last; none: only the first one.
    pub end: Vec<u8>,
    /// Most keys, 0 for all: a response of all may exceed the limit of a message.
    pub limit: u32,
    /// The state at this revision, 0 for the latest one.
    pub revision: i64,
    /// Keys without values.
    pub keys_only: bool,
}

impl Range {
    /// One key.
    #[must_use]
    pub fn key(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), end: Vec::new(), limit: 0, revision: 0, keys_only: false }
    }

    /// All keys with a prefix, in their order.
    #[must_use]
    pub fn prefix(prefix: impl AsRef<[u8]>) -> Self {
        let keys = wire::prefix(prefix.as_ref());
        Self { end: keys.end, ..Self::key(keys.start) }
    }

    /// The part from a key on, if it is not before the first one.
    #[must_use]
    pub fn starting_at(self, key: Vec<u8>) -> Self {
        Self { key: self.key.clone().max(key), ..self }
    }

    /// The part after a key that was read.
    #[must_use]
    pub fn after(&self, key: &[u8]) -> Self {
        Self { key: [key, &[0]].concat(), ..self.clone() }
    }

    pub(crate) fn write(&self) -> Writer {
        Writer::default()
            .octets(1, &self.key)
            .octets(2, &self.end)
            .number(3, self.limit.into())
            .number(4, self.revision as u64)
            .number(8, self.keys_only.into())
    }
}

/// Keys that were read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeResponse {
    /// The store.
    pub header: Header,
    /// In order of keys.
    pub keys: Vec<KeyValue>,
    /// Whether there are more than the limit.
    pub has_more: bool,
}

impl RangeResponse {
    pub(crate) fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| match field {
            1 => value.message(Header::read, |header| read.header = header),
            2 => value.message(KeyValue::read, |key| read.keys.push(key)),
            3 => Ok(value.to_bool(&mut read.has_more)),
            _ => Ok(true),
        })?;
        Ok(read)
    }
}

/// What a condition compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The revision in which the key was created; 0: it does not exist.
    CreateRevision(i64),
    /// The revision in which it was last changed; 0: it does not exist.
    ModRevision(i64),
    /// Its value.
    Value(Vec<u8>),
}

/// A condition of a transaction: the key is equal to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The key.
    pub key: Vec<u8>,
    /// What it must be equal to.
    pub condition: Condition,
}

impl Comparison {
    /// A key that does not exist.
    #[must_use]
    pub fn absent(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into(), condition: Condition::CreateRevision(0) }
    }

    /// A key as it was read, by its revision of the last change.
    #[must_use]
    pub fn unchanged(key: impl Into<Vec<u8>>, revision: i64) -> Self {
        Self { key: key.into(), condition: Condition::ModRevision(revision) }
    }

    fn write(&self) -> Writer {
        // Result 0: equal.
        let writer = |target| Writer::default().number(2, target).octets(3, &self.key);
        match &self.condition {
            Condition::CreateRevision(revision) => writer(1).chosen_number(5, *revision as u64),
            Condition::ModRevision(revision) => writer(2).chosen_number(6, *revision as u64),
            Condition::Value(value) => writer(3).chosen_octets(7, value),
        }
    }
}

/// A part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Read keys.
    Range(Range),
    /// Write a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Its lease, 0 for none.
        lease: i64,
    },
    /// Remove keys.
    Delete(Range),
    /// A transaction within: versions before 3.4.42, 3.5.28 and 3.6.9 execute it without a check of the role
    /// (CVE-2026-33343), so tests send it. Its result is not read.
    Nested(Transaction),
}

impl Operation {
    fn write(&self) -> Writer {
        let (field, message) = match self {
            Self::Range(range) => (1, range.write()),
            Self::Put { key, value, lease } => {
                let put = Writer::default().octets(1, key).octets(2, value);
                (2, put.number(3, *lease as u64))
            }
            Self::Delete(range) => {
                (3, Writer::default().octets(1, &range.key).octets(2, &range.end))
            }
            Self::Nested(transaction) => (4, transaction.write()),
        };
        Writer::default().message(field, message)
    }
}

/// Operations that are executed together: the first ones if all conditions hold, else the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// The conditions.
    pub conditions: Vec<Comparison>,
    /// At most 128.
    pub then: Vec<Operation>,
    /// At most 128.
    pub otherwise: Vec<Operation>,
}

impl Transaction {
    pub(crate) fn write(&self) -> Writer {
        let writer = Writer::default();
        let writer = self.conditions.iter().fold(writer, |w, part| w.message(1, part.write()));
        let writer = self.then.iter().fold(writer, |w, part| w.message(2, part.write()));
        self.otherwise.iter().fold(writer, |w, part| w.message(3, part.write()))
    }
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Of [`Operation::Range`].
    Range(RangeResponse),
    /// Of [`Operation::Put`].
    Put,
    /// Of [`Operation::Delete`]: number of keys.
    Deleted(i64),
}

impl Response {
    fn read(octets: &[u8]) -> Read<Option<Self>> {
        let mut read = None;
        Reader::new(octets).each(|field, value| match field {
            1 => value.message(RangeResponse::read, |range| read = Some(Self::Range(range))),
            2 => value.message(|_| Ok(()), |()| read = Some(Self::Put)),
            3 => value.message(Self::read_deleted, |count| read = Some(Self::Deleted(count))),
            _ => Ok(true),
        })?;
        Ok(read)
    }

    fn read_deleted(octets: &[u8]) -> Read<i64> {
        let mut count = 0;
        let read = Reader::new(octets);
        read.each(|field, value| Ok(field != 2 || value.to_signed(&mut count)))?;
        Ok(count)
    }
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionResponse {
    /// The store.
    pub header: Header,
    /// Whether all conditions held.
    pub has_succeeded: bool,
    /// The results of the operations that were executed.
    pub responses: Vec<Response>,
}

impl TransactionResponse {
    pub(crate) fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| match field {
            1 => value.message(Header::read, |header| read.header = header),
            2 => Ok(value.to_bool(&mut read.has_succeeded)),
            3 => value.message(Response::read, |response| read.responses.extend(response)),
            _ => Ok(true),
        })?;
        Ok(read)
    }
}

/// A request to be informed of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchRequest {
    /// The keys.
    pub keys: Range,
    /// The first revision, 0 for the next one.
    pub from_revision: i64,
}

impl WatchRequest {
    pub(crate) fn write(&self) -> Writer {
        let create = Writer::default()
            .octets(1, &self.keys.key)
            .octets(2, &self.keys.end)
            .number(3, self.from_revision as u64);
        Writer::default().message(1, create)
    }
}

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The key was written.
    Put,
    /// It was removed, or its lease ended.
    Deleted,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What was done.
    pub kind: EventKind,
    /// The key, with its new value.
    pub key: KeyValue,
}

impl Event {
    fn read(octets: &[u8]) -> Read<Self> {
        let (mut kind, mut key) = (0, KeyValue::default());
        Reader::new(octets).each(|field, value| match field {
            1 => Ok(value.to_number(&mut kind)),
            2 => value.message(KeyValue::read, |read| key = read),
            _ => Ok(true),
        })?;
        Ok(Self { kind: if kind == 1 { EventKind::Deleted } else { EventKind::Put }, key })
    }
}

/// Changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchResponse {
    /// The store.
    pub header: Header,
    /// The first response: the watch has begun.
    pub is_created: bool,
    /// The server has ended the watch.
    pub is_canceled: bool,
    /// Revisions before this one were removed, and the watch requested one; 0 otherwise.
    pub compact_revision: i64,
    /// Why it was ended.
    pub why: String,
    /// The changes, in their order.
    pub events: Vec<Event>,
}

impl WatchResponse {
    pub(crate) fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| match field {
            1 => value.message(Header::read, |header| read.header = header),
            3 => Ok(value.to_bool(&mut read.is_created)),
            4 => Ok(value.to_bool(&mut read.is_canceled)),
            5 => Ok(value.to_signed(&mut read.compact_revision)),
            6 => Ok(value.to_text(&mut read.why)),
            11 => value.message(Event::read, |event| read.events.push(event)),
            _ => Ok(true),
        })?;
        Ok(read)
    }
}

/// A lease: its keys are removed when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lease {
    /// Its number.
    pub id: i64,
    /// Seconds until it ends unless it is kept; 0 or less: it has ended.
    pub seconds: i64,
}

impl Lease {
    pub(crate) fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| {
            Ok(match field {
                2 => value.to_signed(&mut read.id),
                3 => value.to_signed(&mut read.seconds),
                _ => true,
            })
        })?;
        Ok(read)
    }
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The store.
    pub header: Header,
    /// Version of etcd.
    pub version: String,
    /// Octets of its database.
    pub database_octets: i64,
    /// Number of the member that leads; 0: none.
    pub leader: u64,
    /// What is wrong with it: no leader, no space.
    pub errors: Vec<String>,
}

impl Status {
    pub(crate) fn read(octets: &[u8]) -> Read<Self> {
        let mut read = Self::default();
        Reader::new(octets).each(|field, value| match field {
            1 => value.message(Header::read, |header| read.header = header),
            2 => Ok(value.to_text(&mut read.version)),
            3 => Ok(value.to_signed(&mut read.database_octets)),
            4 => Ok(value.to_number(&mut read.leader)),
            8 => {
                let mut error = String::new();
                let is_text = value.to_text(&mut error);
                read.errors.push(error);
                Ok(is_text)
            }
            _ => Ok(true),
        })?;
        Ok(read)
    }
}

/// The names of a list of users.
pub(crate) fn read_users(octets: &[u8]) -> Read<Vec<String>> {
    let mut names = Vec::new();
    Reader::new(octets).each(|field, value| match field {
        2 => {
            let mut name = String::new();
            let is_text = value.to_text(&mut name);
            names.push(name);
            Ok(is_text)
        }
        _ => Ok(true),
    })?;
    Ok(names)
}

/// What a role permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading and watching.
    Read,
    /// Both, and writing.
    ReadWrite,
}

/// A permission of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    /// What it permits.
    pub kind: Access,
    /// For these keys.
    pub keys: Range,
}

impl Permission {
    pub(crate) fn write(&self) -> Writer {
        let kind = match self.kind {
            Access::Read => 0,
            Access::ReadWrite => 2,
        };
        let Range { key, end, .. } = &self.keys;
        Writer::default().number(1, kind).octets(2, key).octets(3, end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `protoc --encode` of etcd's definitions writes them.
    #[test]
    fn requests_have_the_octets_of_the_definition() {
        let range = Range { limit: 2, ..Range::prefix("a/") };
        assert_eq!(range.write().0, b"\x0a\x02a/\x12\x02a0\x18\x02");
        let then = vec![Operation::Put { key: b"k".into(), value: b"v".into(), lease: 5 }];
        let put =
            Transaction { conditions: vec![Comparison::absent("k")], then, ..Default::default() };
        assert_eq!(
            put.write().0,
            b"\x0a\x07\x10\x01\x1a\x01k\x28\x00\x12\x0a\x12\x08\x0a\x01k\x12\x01v\x18\x05"
        );
        let watch = WatchRequest { keys: Range::key("k"), from_revision: 7 };
        assert_eq!(watch.write().0, b"\x0a\x05\x0a\x01k\x18\x07");
    }

    #[test]
    fn the_part_after_a_key_excludes_it() {
        let all = Range::prefix("a/");
        assert_eq!(all.after(b"a/b").key, b"a/b\0");
        assert_eq!(all.after(b"a/b").end, all.end);
    }

    proptest! {
        /// No octets of a server end the program.
        #[test]
        fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..96)) {
            let _ = RangeResponse::read(&octets);
            let _ = TransactionResponse::read(&octets);
            let _ = WatchResponse::read(&octets);
            let _ = Lease::read(&octets);
            let _ = Status::read(&octets);
        }
    }
}

//! Records of the store as JSON, and their signatures.
//!
//! Everything is signed: what configures a node by the key of the fleet, the state of a node by its own. A signature covers
//! the kind of the record, so that no record can stand for one of another kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::controller::ExpectedState;
use crate::key::{self, PART_OCTETS};
use crate::phase::{Current, Generation, Phase};

/// Longest record: a request of etcd has at most 1.5 MiB.
pub const LONGEST_RECORD: usize = 1 << 20;

/// Longest text of a refusal.
pub const LONGEST_REASON: usize = 1024;

/// Most nodes of a fleet.
pub const MAX_NODES: usize = 10_000;

/// Longest file of a node, as in base/config.
pub const LONGEST_FILE: u64 = 32 << 20;

/// SHA-256 of a node file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileHash(pub [u8; 32]);

impl FileHash {
    /// The hash of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl fmt::Display for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for FileHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl From<FileHash> for String {
    fn from(hash: FileHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for FileHash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let octets = from_hex(&text).and_then(|octets| octets.try_into().ok());
        octets.map(Self).ok_or_else(|| format!("{text:?} is not a SHA-256 of 64 digits"))
    }
}

/// Octets as hexadecimal digits.
#[must_use]
pub fn to_hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Octets of hexadecimal digits.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let octet = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(*pair.get(1)?)?).ok();
    text.as_bytes().chunks(2).map(octet).collect()
}

/// What a node runs: the record `state/NODE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    /// The record that it acknowledges or refuses, by its step.
    pub current: Current,
    /// Hash of the file that the node runs, as the node reported it.
    pub hash: FileHash,
    /// Whether the node runs the stage of `current`, and proved its paths in the phase prove.
    pub ok: bool,
    /// Why not, or which stream lost frames; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Number of the agent, drawn once for each installation: two nodes of one name differ.
    pub instance: u64,
    /// Number of new members that counted their probes.
    #[serde(default)]
    pub proved: u32,
    /// Frames that streams with new paths lost since the node entered the phase send.
    #[serde(default)]
    pub lost: u64,
    /// The signature of `current`, with which a restored store knows that the fleet wrote it: see [`is_of_fleet`].
    #[serde(default)]
    pub proof: String,
}

impl NodeState {
    /// Whether the node runs the stage of this record. In a store that was restored another record can have its step.
    #[must_use]
    pub fn acknowledges(&self, current: &Current) -> bool {
        self.current == *current && self.ok
    }

    /// Whether the node refuses the stage of this record.
    #[must_use]
    pub fn refuses(&self, current: &Current) -> bool {
        self.current == *current && !self.ok
    }
}

/// A member that no longer gets frames.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilentMember {
    /// The stream of the node's file.
    pub stream: String,
    /// The port.
    pub port: String,
}

/// What a node reports beside its state: the record `inventory/NODE`. It has no lease, and decides nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeReport {
    /// Version of its agent.
    pub version: String,
    /// When, by its own clock, in seconds since 1970.
    pub seen_s: u64,
    /// Streams that it has.
    pub streams: u64,
    /// Members of recovery that get no frames, while others of the stream do.
    pub silent: u64,
    /// Members that get no frames since the report before, of relays included: the first ones.
    pub members: Vec<SilentMember>,
    /// Ports without a link.
    pub ports_down: Vec<String>,
}

impl NodeReport {
    /// Members and ports that a report names.
    pub const NAMED: usize = 200;
}

/// The file of a node in a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFileEntry {
    /// The plan.
    pub generation: Generation,
    /// The node.
    pub node: String,
    /// Hash of the text.
    pub sha256: FileHash,
    /// Octets of the text.
    pub octets: u64,
    /// Number of parts of the deflated text.
    pub parts: u32,
}

/// A plan: its nodes and the labels of its streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The plan.
    pub generation: Generation,
    /// Hash of each node's file.
    pub nodes: BTreeMap<String, FileHash>,
    /// Hash of the manifest.json that `onbeat plan` wrote: paths, labels and delays of the streams.
    pub plan: FileHash,
    /// When it was stored, by the clock of the controller, in seconds since 1970: for people. 0: unknown.
    #[serde(default)]
    pub stored_s: u64,
}

/// The change from one plan to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The old plan.
    pub from: Generation,
    /// The new plan.
    pub to: Generation,
    /// The nodes whose file changes in any phase.
    pub affected: Vec<String>,
    /// The longest delay of frames, before old paths are removed, in milliseconds.
    pub drain_ms: u64,
    /// Time without a loss in the phase send, in milliseconds.
    pub soak_ms: u64,
    /// Time within which a phase must be acknowledged, in seconds.
    pub deadline_s: u32,
}

/// The change of a node: the hash of its file in each phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeChange {
    /// The old plan.
    pub from: Generation,
    /// The new plan.
    pub to: Generation,
    /// The node.
    pub node: String,
    /// By the number of the phase.
    pub hashes: [FileHash; 5],
    /// Members that count probes in the phase prove; 0 in records of versions that did not compare them.
    #[serde(default)]
    pub new_members: u32,
    /// Streams of its talkers without recovery: their listeners would pass probes on to hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproved: Vec<String>,
}

impl NodeChange {
    /// The hash of the file in a phase.
    #[must_use]
    pub fn hash(&self, phase: Phase) -> FileHash {
        self.hashes[phase as usize]
    }

    /// What the node must report in a phase.
    #[must_use]
    pub fn expected(&self, phase: Phase) -> ExpectedState {
        ExpectedState { hash: self.hash(phase), new_members: self.new_members }
    }
}

/// The key with which a node signs its states: the record `plan/key/NODE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeKey {
    /// The node.
    pub node: String,
    /// Its public key, hexadecimal.
    pub public: String,
}

/// The cluster of etcd that holds the fleet: the record `plan/cluster`. One that was restored from a snapshot has another
/// number, and states of the time of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterNumber {
    /// The number, as responses have it.
    pub number: u64,
}

/// A plan on the way to another one, of which it has some streams: the record `plan/GEN/batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// This plan.
    pub generation: Generation,
    /// The plan before the first batch, to which a rollback returns.
    pub first: Generation,
    /// Hash of the manifest.json of the plan to reach.
    pub plan: FileHash,
}

/// No step is written while it exists: the record `plan/pause`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Why, for people.
    pub why: String,
}

/// Signs records.
pub trait Signer {
    /// Returns the signature of a message.
    fn sign(&self, message: &[u8]) -> Vec<u8>;
}

/// Verifies signatures.
pub trait Verifier {
    /// Whether a signature of the message is valid.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// A record that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Longer than any.
    #[error(
        "{key}: {octets} octets, more than the {LONGEST_RECORD} of a record; another program wrote it"
    )]
    TooLong {
        /// Its key.
        key: String,
        /// Its length.
        octets: usize,
    },
    /// Not JSON of this form.
    #[error(
        "{key}: not a record of this version: {source}; use one version of onbeat-fleet in the fleet"
    )]
    Json {
        /// Its key.
        key: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// The signature is not by the expected key.
    #[error("{key}: the signature does not match the expected key; the record is ignored")]
    Signature {
        /// Its key.
        key: String,
    },
    /// A value outside its bounds, or a record for another key.
    #[error("{key}: {fault}; another program wrote it, or it was copied from another key")]
    Invalid {
        /// Its key.
        key: String,
        /// The value and its bounds.
        fault: String,
    },
}

/// A kind of record.
pub trait Record: Serialize + DeserializeOwned {
    /// Its kind, part of signed messages.
    const KIND: &'static str;

    /// The key at which it is valid; `None`: the caller knows.
    fn key(&self) -> Option<String>;

    /// A value outside its bounds.
    ///
    /// # Errors
    /// There is one.
    fn check(&self) -> Result<(), String>;
}

impl Record for Current {
    const KIND: &'static str = "current";

    fn key(&self) -> Option<String> {
        Some(key::CURRENT.into())
    }

    fn check(&self) -> Result<(), String> {
        Current::check(*self).map_err(|error| error.to_string())
    }
}

impl Record for NodeState {
    const KIND: &'static str = "state";

    fn key(&self) -> Option<String> {
        None
    }

    fn check(&self) -> Result<(), String> {
        Current::check(self.current).map_err(|error| error.to_string())?;
        bound("length of why", self.why.len(), LONGEST_REASON)?;
        bound("length of proof", self.proof.len(), 256)?;
        plain("why", &self.why)
    }
}

impl Record for NodeReport {
    const KIND: &'static str = "report";

    fn key(&self) -> Option<String> {
        None
    }

    fn check(&self) -> Result<(), String> {
        bound("number of members", self.members.len(), Self::NAMED)?;
        bound("number of ports_down", self.ports_down.len(), Self::NAMED)?;
        plain("version", &self.version)?;
        let names = self.members.iter().flat_map(|member| [&member.stream, &member.port]);
        names.chain(&self.ports_down).try_for_each(|name| plain("a name", name))
    }
}

impl Record for NodeFileEntry {
    const KIND: &'static str = "file";

    fn key(&self) -> Option<String> {
        Some(key::node(self.generation, &self.node))
    }

    fn check(&self) -> Result<(), String> {
        node_name(&self.node)?;
        bound("octets", self.octets, LONGEST_FILE)?;
        // Deflated text is hardly longer than the text.
        bound("parts", u64::from(self.parts), LONGEST_FILE / PART_OCTETS as u64 + 1)
    }
}

impl Record for Manifest {
    const KIND: &'static str = "manifest";

    fn key(&self) -> Option<String> {
        Some(key::manifest(self.generation))
    }

    fn check(&self) -> Result<(), String> {
        bound("number of nodes", self.nodes.len(), MAX_NODES)?;
        self.nodes.keys().try_for_each(|name| node_name(name))
    }
}

impl Record for Change {
    const KIND: &'static str = "change";

    fn key(&self) -> Option<String> {
        Some(key::change(self.from, self.to))
    }

    fn check(&self) -> Result<(), String> {
        bound("number of affected nodes", self.affected.len(), MAX_NODES)?;
        self.affected.iter().try_for_each(|name| node_name(name))?;
        bound("drain_ms", self.drain_ms, 3_600_000)?;
        bound("soak_ms", self.soak_ms, 86_400_000)?;
        if self.drain_ms < 1000 {
            return Err(format!("drain_ms is {}, less than 1000", self.drain_ms));
        }
        // etcd grants at least 2 s; below 5 s each election is a missed deadline.
        if !(5..=86_400).contains(&self.deadline_s) {
            return Err(format!("deadline_s is {}, not 5 to 86400", self.deadline_s));
        }
        Ok(())
    }
}

impl Record for NodeChange {
    const KIND: &'static str = "node-change";

    fn key(&self) -> Option<String> {
        Some(key::node_change(self.from, self.to, &self.node))
    }

    fn check(&self) -> Result<(), String> {
        node_name(&self.node)
    }
}

impl Record for NodeKey {
    const KIND: &'static str = "key";

    fn key(&self) -> Option<String> {
        Some(key::node_key(&self.node))
    }

    fn check(&self) -> Result<(), String> {
        node_name(&self.node)?;
        bound("length of public", self.public.len(), 128)
    }
}

impl Record for ClusterNumber {
    const KIND: &'static str = "cluster";

    fn key(&self) -> Option<String> {
        Some(key::CLUSTER.into())
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Record for Batch {
    const KIND: &'static str = "batch";

    fn key(&self) -> Option<String> {
        Some(key::batch(self.generation))
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Record for Pause {
    const KIND: &'static str = "pause";

    fn key(&self) -> Option<String> {
        Some(key::PAUSE.into())
    }

    fn check(&self) -> Result<(), String> {
        bound("length of why", self.why.len(), LONGEST_REASON)?;
        plain("why", &self.why)
    }
}

fn bound<T: PartialOrd + fmt::Display>(what: &str, value: T, most: T) -> Result<(), String> {
    match value > most {
        true => Err(format!("{what} is {value}, more than {most}")),
        false => Ok(()),
    }
}

/// Terminals obey control characters.
fn plain(what: &str, text: &str) -> Result<(), String> {
    // Of some the effect is the order in which others are shown.
    let is_obeyed =
        |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match text.chars().any(is_obeyed) {
        true => Err(format!("{what} has control characters")),
        false => Ok(()),
    }
}

fn node_name(name: &str) -> Result<(), String> {
    match key::is_node_name(name) {
        true => Ok(()),
        false => Err(format!("{name:?} is not the name of a node")),
    }
}

/// A signed record as stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedRecord {
    /// JSON of the record, as signed.
    record: String,
    /// Hexadecimal.
    signature: String,
}

fn message(kind: &str, record: &str) -> Vec<u8> {
    format!("onbeat-fleet {kind}\n{record}").into_bytes()
}

/// Encodes a record without a signature.
#[must_use]
pub fn encode<R: Record>(record: &R) -> Vec<u8> {
    serde_json::to_vec(record).expect("records have text keys")
}

/// Encodes and signs a record.
#[must_use]
pub fn seal<R: Record>(record: &R, signer: &impl Signer) -> Vec<u8> {
    let record = serde_json::to_string(record).expect("records have text keys");
    let signature = to_hex(&signer.sign(&message(R::KIND, &record)));
    serde_json::to_vec(&SealedRecord { record, signature }).expect("text")
}

/// The signature of a sealed record, hexadecimal.
#[must_use]
pub fn signature(octets: &[u8]) -> Option<String> {
    parse::<SealedRecord>("", octets).ok().map(|sealed| sealed.signature)
}

/// Whether the fleet signed the record that a state acknowledges. A node signs its state itself, and could invent one.
#[must_use]
pub fn is_of_fleet(state: &NodeState, verifier: &impl Verifier) -> bool {
    let record = serde_json::to_string(&state.current).expect("records have text keys");
    let signature = from_hex(&state.proof).unwrap_or_default();
    verifier.verify(&message(Current::KIND, &record), &signature)
}

/// Decodes a record without a signature, from its key.
///
/// # Errors
/// It is not a valid record of this kind.
pub fn decode<R: Record>(key: &str, octets: &[u8]) -> Result<R, RecordError> {
    let record: R = parse(key, octets)?;
    let named = record.key();
    let misplaced = || format!("the record is one of {}", named.as_deref().unwrap_or_default());
    let fault = match named.as_deref().is_some_and(|named| named != key) {
        true => Some(misplaced()),
        false => record.check().err(),
    };
    match fault {
        Some(fault) => Err(RecordError::Invalid { key: key.into(), fault }),
        None => Ok(record),
    }
}

/// Verifies and decodes a record from its key.
///
/// # Errors
/// It is not a valid record of this kind by the fleet's key.
pub fn open<R: Record>(
    key: &str,
    octets: &[u8],
    verifier: &impl Verifier,
) -> Result<R, RecordError> {
    let signed: SealedRecord = parse(key, octets)?;
    let signature = from_hex(&signed.signature).unwrap_or_default();
    if !verifier.verify(&message(R::KIND, &signed.record), &signature) {
        return Err(RecordError::Signature { key: key.into() });
    }
    decode(key, signed.record.as_bytes())
}

fn parse<T: DeserializeOwned>(key: &str, octets: &[u8]) -> Result<T, RecordError> {
    if octets.len() > LONGEST_RECORD {
        return Err(RecordError::TooLong { key: key.into(), octets: octets.len() });
    }
    serde_json::from_slice(octets).map_err(|source| RecordError::Json { key: key.into(), source })
}

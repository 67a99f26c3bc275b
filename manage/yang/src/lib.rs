//! Configuration and state of a node as JSON of IEEE YANG modules (RFC 7951), and back.
//!
//! The modules are ieee802-dot1cb-stream-identification 2021-12-08, ieee802-dot1cb-mask-and-match 2021-12-09,
//! ieee802-dot1cb-frer 2025-11-12 (Cor 1) and ietf-interfaces 2018-02-20. Their names are compiled in; the modules
//! are not read.
//!
//! [`configuration`] and [`state`] write the data of a node, [`streams`] reads a document. The node's file has names
//! of streams, YANG has handles: each member has a handle, and each egress entry that edits frames
//! ([`StreamHandles`]).
#![forbid(unsafe_code)]

// Random streams of the tests are those of other crates' tests, too.
#[cfg(test)]
extern crate self as onbeat_yang;

mod comparison;
mod document;
mod handles;
mod model;
mod read;
pub mod schema;
mod state;
#[cfg(test)]
mod tests;
mod write;

pub use comparison::check_kept;
pub use document::{Fault, Faults};
pub use handles::{KeptHandles, MAX_HANDLE, StreamHandles, handles, identity_path};
pub use model::{Interface, InterfaceState, LinkState, MemberState, NodeState, StreamState};
pub use read::{Document, streams};
pub use state::state;
pub use write::configuration;

/// Module of stream identification.
const STREAM_IDENTIFICATION: &str = "ieee802-dot1cb-stream-identification";

/// Module of Mask-and-match Stream identification.
const MASK_AND_MATCH: &str = "ieee802-dot1cb-mask-and-match";

/// Module of sequence functions.
const FRER: &str = "ieee802-dot1cb-frer";

/// Module of interfaces.
const INTERFACES: &str = "ietf-interfaces";

/// Type of each interface.
const ETHERNET: &str = "iana-if-type:ethernetCsmacd";

/// Timeout of a recovery function without `reset-timeout`, which has no default in YANG.
const DEFAULT_RESET_TIMEOUT_MS: u32 = 2000;

//! Ethernet POWERLINK (EPSG DS 301): frames with EtherType 0x88AB.
//!
//! [`Message::parse`] reads all messages, [`Message::emit`] writes them; each type of message has a separate
//! file. Numbers are little-endian. A message is parsed as a whole, so there is no view between octets and
//! fields; long fields and fields of variable length are borrowed. Reserved bits are ignored and written as
//! 0. Messages are followed by padding, up to Ethernet's minimum length or to the payload limit of a poll:
//! `parse` ignores it, the caller of `emit` adds it.

mod abort;
mod ident;
mod message;
mod multiple;
mod nmt;
mod node;
mod octets;
mod poll;
mod publish;
mod sdo;
mod signal;
mod soa;
mod soc;
mod status;

pub use abort::Abort;
pub use ident::{HostName, IdentResponse};
pub use message::{Body, Message, MessageError, MessageType, Service};
pub use multiple::{ObjectEntries, ObjectEntry};
pub use nmt::{NmtCommand, NmtCommandId, NmtRequest, NmtState};
pub use node::{NodeId, NodeSet, multicast};
pub use poll::{MAX_PAYLOAD, PdoVersion, Preq, Pres};
pub use publish::{NodeStates, TimeOfDay};
pub use sdo::{
    Command, CommandId, Connection, MAX_SEQUENCE, Sdo, Segmentation, Sequence, SequenceCount,
};
pub use signal::{Links, Priority, SendRequest};
pub use soa::{EplVersion, RequestedService, Soa};
pub use soc::{NetTime, Soc};
pub use status::{ErrorEntries, ErrorEntry, StatusResponse};

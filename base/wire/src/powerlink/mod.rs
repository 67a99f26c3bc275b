//! Ethernet POWERLINK (EPSG DS 301): what stands behind EtherType 0x88AB.
//!
//! [`Message::parse`] reads all of it, [`Message::emit`] writes it; each kind of message has a file
//! of its own. Numbers are little-endian. A message is read in whole, so there is no view between
//! octets and fields; what is long or of any length stays borrowed. Reserved bits are not looked at
//! and are written as 0. Messages are followed by padding, up to Ethernet's least length or to the
//! payload limit of a poll: `parse` leaves it, the caller of `emit` adds it.

mod ident;
mod message;
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

pub use ident::{HostName, IdentResponse};
pub use message::{Body, Message, MessageError, MessageType, Service};
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

//! A NETCONF 1.1 session (RFC 6241) over octets (RFC 6242), as a state machine: octets come in and go out, and a
//! [`Node`] has the data.
//!
//! Limits: messages of 1 MiB, 32 levels, no document type, no entities.
#![forbid(unsafe_code)]

mod edit;
mod error;
mod filter;
mod framing;
mod library;
mod session;
#[cfg(test)]
mod tests;
mod xml;

pub use error::{ErrorTag, RpcError, of_faults};
pub use framing::{Decoder, FramingError, LONGEST, encode};
pub use session::{Datastore, LockError, Node, Session};
pub use xml::{Document, XmlError, to_xml};

/// Namespace of NETCONF's messages and operations.
pub const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";

/// Namespace of `get-schema` (RFC 6022).
pub const MONITORING: &str = "urn:ietf:params:xml:ns:yang:ietf-netconf-monitoring";

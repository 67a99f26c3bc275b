//! SDO: a peer's access to objects (EPSG DS 301, 6.3.2). The sequence layer transfers commands in order over a
//! lossy medium, the command layer reads and writes.

mod client;
mod pdu;
mod sequence;
mod server;

pub use client::{Client, CompletedRequest, Request};
pub use pdu::{MAX_SEGMENT, MAX_TRANSFER, OutgoingFrame, Pdu};
pub use sequence::Endpoint;
pub use server::{Objects, Server, WriteOutcome};

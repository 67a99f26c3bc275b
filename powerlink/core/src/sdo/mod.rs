//! SDO: a peer's access to objects (EPSG DS 301, 6.3.2). The sequence layer transfers commands in order over a
//! lossy medium, the command layer reads and writes.

mod assembly;
mod client;
mod multiple;
mod sequence;
mod server;
mod transfer;

pub use assembly::MAX_TRANSFER;
pub use client::{Client, CompletedRequest, Request};
pub use server::{Objects, Server, WriteOutcome};
pub use transfer::{MAX_SEGMENT, OutgoingFrame, Pdu};

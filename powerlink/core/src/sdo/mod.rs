//! SDO: a peer's access to objects (EPSG DS 301, 6.3.2). The sequence layer brings commands in
//! order over frames that may be lost, the command layer reads and writes.

mod client;
mod pdu;
mod sequence;
mod server;

pub use client::{Client, Done, Request};
pub use pdu::{MAX_SEGMENT, MAX_TRANSFER, Outgoing, Pdu};
pub use sequence::Endpoint;
pub use server::{Objects, Server, Written};

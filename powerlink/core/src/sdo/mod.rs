//! SDO: a peer's access to objects (EPSG DS 301, 6.3.2). The sequence layer transfers commands in order over a
//! lossy medium, the command layer reads and writes.

mod assembly;
mod client;
mod datagram;
mod multiple;
mod sequence;
mod server;
mod transfer;

pub use assembly::MAX_TRANSFER;
pub use client::{Client, CompletedRequest, Request};
pub(crate) use datagram::DatagramServer;
pub use datagram::{UDP_PORT, datagram, parse_datagram};
pub use server::{Objects, ServedPeer, Server, WriteOutcome};
pub use transfer::{MAX_SEGMENT, OutgoingFrame, Pdu};

use crate::od::{Dictionary, profile};

/// The timeout of the connections of a node with these objects (0x1300), in nanoseconds.
pub(crate) fn timeout_ns(od: &Dictionary) -> u64 {
    od.number(profile::SDO_TIMEOUT_MS) * 1_000_000
}

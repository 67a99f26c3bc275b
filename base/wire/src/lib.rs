//! Codecs for the frames that onbeat reads and writes.
//!
//! Every protocol file has the same order: field offsets, a view borrowed from octets (created only by
//! `new_checked`), an owned representation with `parse`, `emit` and `buffer_len`, `Display`, tests. A view is
//! read without checks: no accessor fails or panics, for any octets.
//!
//! [`Frame`] parses all headers that identification requires, [`edit()`] edits a frame for transmission.
//! Frames have no FCS: the port removes and adds it.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod arp;
mod bytes;
pub mod checksum;
pub mod edit;
mod error;
pub mod ethernet;
mod ethertype;
pub mod frame;
pub mod hsr;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
mod mac;
pub mod ports;
pub mod powerlink;
pub mod prp;
pub mod ptp;
pub mod random;
pub mod rtag;
pub mod stamp;
pub mod udp;
pub mod vlan;

pub use edit::{Edit, edit};
pub use error::{EmitError, TagError, TruncationError};
pub use ethertype::EtherType;
pub use frame::{Frame, SequenceTag};
pub use ip::{Ip, Protocol};
pub use mac::{MacAddress, ParseMacAddressError};
pub use ports::Ports;
pub use vlan::VlanTag;

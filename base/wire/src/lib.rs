//! Codecs for the frames onbeat reads and writes.
//!
//! Every protocol file has one order: where the fields are, a view borrowed from octets
//! (`new_checked` is the only way to get one), an owned representation with `parse`, `emit` and
//! `buffer_len`, `Display`, tests. A view that exists may be read without a check: no accessor
//! fails or panics, whatever the octets.
//!
//! [`Frame`] is the walk over all headers that identification needs, [`edit()`] the way a frame is
//! changed on its way out. Frames have no FCS: the port takes it off and puts it on.
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
pub mod random;
pub mod rtag;
pub mod stamp;
pub mod udp;
pub mod vlan;

pub use edit::{Edit, edit};
pub use error::{EmitError, TagError, Truncated};
pub use ethertype::EtherType;
pub use frame::{Frame, SequenceTag};
pub use ip::{Ip, Protocol};
pub use mac::{MacAddress, ParseMacAddressError};
pub use ports::Ports;
pub use vlan::VlanTag;

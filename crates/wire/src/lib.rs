//! Codecs for the frames onbeat reads and writes.
#![no_std]
#![forbid(unsafe_code)]

/// A 48-bit MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddress(pub [u8; 6]);

//! What a packet port is opened with.

use std::ops::RangeInclusive;

use onbeat_wire::EtherType;

use crate::{Clock, Error, Result};

/// EtherTypes that a port receives at most, when it names any.
const MAX_ETHER_TYPES: usize = 64;

/// How a [`super::PacketPort`] is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketOptions {
    /// What to receive; empty: every EtherType.
    pub ether_types: Vec<EtherType>,
    /// Transmit slots.
    pub slots: usize,
    /// Automatic responses.
    pub responses: usize,
    /// Places in the receive ring, each for a frame of the interface's MTU.
    pub receive_buffers: usize,
    /// [`Clock::Monotonic`] or [`Clock::Tai`].
    pub clock: Clock,
    /// [`crate::Port::wait`] does not sleep but looks at the ring and the clock again and again,
    /// without a system call while nothing is awaited but frames. Takes a whole core.
    pub spin: bool,
    /// Ask the kernel to confirm what was sent. Confirmations want to be taken: while there are
    /// some, [`crate::Port::wait`] returns at once. That a launch or a response could not be sent
    /// is told in any case.
    pub confirm: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self {
            ether_types: Vec::new(),
            slots: 64,
            responses: 64,
            receive_buffers: 256,
            clock: Clock::Monotonic,
            spin: false,
            confirm: true,
        }
    }
}

impl PacketOptions {
    pub(super) fn check(&self) -> Result<()> {
        let in_range = |what, value, range: RangeInclusive<usize>, allowed| {
            let found = Error::Option { what, value, allowed };
            if range.contains(&value) { Ok(()) } else { Err(found) }
        };
        let types = self.ether_types.len();
        in_range("the number of EtherTypes", types, 0..=MAX_ETHER_TYPES, "at most 64")?;
        in_range("slots", self.slots, 1..=65_536, "from 1 to 65536")?;
        in_range("responses", self.responses, 0..=65_536, "at most 65536")?;
        let buffers = self.receive_buffers;
        in_range("receive buffers", buffers, 2..=65_536, "from 2 to 65536")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_named() {
        assert!(PacketOptions::default().check().is_ok());
        let without_slots = PacketOptions { slots: 0, ..PacketOptions::default() };
        assert_eq!(
            without_slots.check().unwrap_err().to_string(),
            "slots is 0; it must be from 1 to 65536"
        );
        let ether_types = vec![EtherType::ARP; 65];
        let too_many = PacketOptions { ether_types, ..PacketOptions::default() };
        assert!(too_many.check().is_err());
    }
}

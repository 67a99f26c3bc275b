//! The result of processing a frame: the copies to send.

use onbeat_wire::edit::EditedHeaders;
use onbeat_wire::prp::Tail;

use crate::spec::PortId;

/// The result of processing a frame.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The frame is not for the entity, but for the network stack of its interface.
    Pass,
    /// The frame is discarded, or has been processed.
    Discard,
    /// Copies are sent.
    Send(Copies<'a>),
}

/// A copy of a frame to send: octets of the received frame, and octets before or after them.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// The sending port.
    pub port: PortId,
    /// The octets of the received frame that are sent as they are.
    pub octets: &'a [u8],
    /// The other octets.
    pub(super) added: AddedOctets,
}

/// Octets that a copy has in addition to those of the received frame.
#[derive(Debug, Clone, Copy)]
pub(super) enum AddedOctets {
    /// The frame ends without a trailer.
    Nothing,
    /// Padding and trailer of PRP, after them.
    Tail(Tail),
    /// Addresses, VLAN tags and, towards the paths, an R-TAG: before them.
    Headers(EditedHeaders),
}

impl Copy<'_> {
    /// Returns the octets before those of the received frame.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        if let AddedOctets::Headers(headers) = &self.added { headers } else { &[] }
    }

    /// Returns the octets after those of the received frame.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        if let AddedOctets::Tail(tail) = &self.added { tail.as_slice() } else { &[] }
    }

    /// Returns the frame in two parts.
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 2] {
        match &self.added {
            AddedOctets::Headers(headers) => [headers, self.octets],
            AddedOctets::Nothing | AddedOctets::Tail(_) => [self.octets, self.tail()],
        }
    }
}

/// The copies of a frame, at most two.
#[derive(Debug, Clone)]
pub struct Copies<'a> {
    pub(super) copies: [Option<Copy<'a>>; 2],
}

impl<'a> Iterator for Copies<'a> {
    type Item = Copy<'a>;

    fn next(&mut self) -> Option<Copy<'a>> {
        let [first, second] = &mut self.copies;
        first.take().or_else(|| second.take())
    }
}

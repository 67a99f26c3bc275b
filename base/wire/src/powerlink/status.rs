//! StatusResponse: a node's errors (EPSG DS 301, 7.3.3.3 and 6.5).

use core::fmt;

use super::octets::{array, bit, bits, put, u16_at, u32_at, u64_at};
use super::{Links, NetTime, NmtState, SendRequest};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const FLAGS: usize = 4;
    pub(super) const SIGNAL: usize = 5;
    pub(super) const STATE: usize = 6;
    pub(super) const STATIC_ERRORS: usize = 10;
    pub(super) const ENTRIES: usize = 18;

    /// In an entry.
    pub(super) mod entry {
        pub(in super::super) const KIND: usize = 0;
        pub(in super::super) const CODE: usize = 2;
        pub(in super::super) const SECONDS: usize = 4;
        pub(in super::super) const NANOSECONDS: usize = 8;
        pub(in super::super) const ADDITIONAL: usize = 12;
        pub(in super::super) const END: usize = 20;
    }
}

/// Octets before the entries.
pub(super) const HEADER_LEN: usize = field::ENTRIES;

const WHAT: &str = "POWERLINK StatusResponse";

/// An entry of the error history, or of the current errors (0x1003).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ErrorEntry {
    /// Bit 15: an entry of the status, otherwise of the history; bit 14: also added to the emergency queue;
    /// bits 13 and 12: 0 end of the list, 1 an error occurred, 2 it was cleared, 3 an event occurred; other
    /// bits: the origin of the code.
    pub kind: u16,
    /// The error.
    pub code: u16,
    /// Time of the event.
    pub time: NetTime,
    /// Additional information.
    pub additional: u64,
}

impl ErrorEntry {
    /// Octets of an entry.
    pub const LEN: usize = field::entry::END;

    /// The end of a list.
    pub const END: ErrorEntry = ErrorEntry {
        kind: 0,
        code: 0,
        time: NetTime { seconds: 0, nanoseconds: 0 },
        additional: 0,
    };

    /// Returns whether the entry ends a list.
    pub const fn is_end(&self) -> bool {
        self.kind >> 12 & 3 == 0
    }

    fn parse(octets: &[u8; Self::LEN]) -> Self {
        ErrorEntry {
            kind: u16_at(octets, field::entry::KIND),
            code: u16_at(octets, field::entry::CODE),
            time: NetTime {
                seconds: u32_at(octets, field::entry::SECONDS),
                nanoseconds: u32_at(octets, field::entry::NANOSECONDS),
            },
            additional: u64_at(octets, field::entry::ADDITIONAL),
        }
    }

    /// Converts to the wire format.
    pub fn to_octets(&self) -> [u8; Self::LEN] {
        let mut octets = [0; Self::LEN];
        put(&mut octets, field::entry::KIND, self.kind.to_le_bytes());
        put(&mut octets, field::entry::CODE, self.code.to_le_bytes());
        put(&mut octets, field::entry::SECONDS, self.time.seconds.to_le_bytes());
        put(&mut octets, field::entry::NANOSECONDS, self.time.nanoseconds.to_le_bytes());
        put(&mut octets, field::entry::ADDITIONAL, self.additional.to_le_bytes());
        octets
    }
}

/// Consecutive entries in the wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorEntries<'a> {
    octets: &'a [u8],
}

impl<'a> ErrorEntries<'a> {
    /// Wraps the entries in `octets`; octets after the last complete one are padding.
    pub fn new(octets: &'a [u8]) -> Self {
        let whole = octets.len() - octets.len() % ErrorEntry::LEN;
        ErrorEntries { octets: octets.get(..whole).unwrap_or_default() }
    }

    /// Returns the entries before the one that ends the list.
    pub fn iter(&self) -> impl Iterator<Item = ErrorEntry> + use<'a> {
        self.all().take_while(|entry| !entry.is_end())
    }

    /// Returns all entries.
    pub fn all(&self) -> impl Iterator<Item = ErrorEntry> + use<'a> {
        let entries = self.octets.chunks_exact(ErrorEntry::LEN);
        entries.filter_map(|entry| entry.first_chunk()).map(ErrorEntry::parse)
    }
}

/// A node's errors: its response to a StatusRequest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatusResponse<'a> {
    /// EN: toggles with every new entry.
    pub exception_new: bool,
    /// EC: error signaling restarts, as requested by ER.
    pub exception_clear: bool,
    /// Status of the node's links.
    pub links: Links,
    /// Frames that the node requests to send.
    pub request: SendRequest,
    /// State of the node.
    pub state: NmtState,
    /// Static errors: the error register (0x1001), a reserved octet, then device-specific ones.
    pub static_errors: [u8; 8],
    /// Entries of events and errors.
    pub entries: ErrorEntries<'a>,
}

impl<'a> StatusResponse<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (message, rest) = split::<HEADER_LEN>(WHAT, octets)?;
        Ok(StatusResponse {
            exception_new: bit(message[field::FLAGS], 4),
            exception_clear: bit(message[field::FLAGS], 3),
            links: Links::from_octet(message[field::SIGNAL]),
            request: SendRequest::from_octet(message[field::SIGNAL]),
            state: NmtState(message[field::STATE]),
            static_errors: array(message, field::STATIC_ERRORS),
            entries: ErrorEntries::new(rest),
        })
    }

    /// Returns the octets of the message.
    pub(super) fn buffer_len(&self) -> usize {
        HEADER_LEN + self.entries.octets.len()
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let signal = self.links.octet() | self.request.octet()?;
        let (needed, len) = (self.buffer_len(), buffer.len());
        buffer
            .get_mut(field::ENTRIES..needed)
            .ok_or(EmitError::NoRoom { what: WHAT, needed, len })?
            .copy_from_slice(self.entries.octets);
        let message = room::<HEADER_LEN>(WHAT, buffer)?;
        message[4..].fill(0);
        message[field::FLAGS] = bits([(4, self.exception_new), (3, self.exception_clear)]);
        message[field::SIGNAL] = signal;
        message[field::STATE] = self.state.0;
        put(message, field::STATIC_ERRORS, self.static_errors);
        Ok(())
    }
}

impl fmt::Display for StatusResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.entries.iter().count();
        let noun = if errors == 1 { "entry" } else { "entries" };
        write!(f, "StatusResponse {} {} {errors} {noun}", self.state, self.request)?;
        f.write_str(if self.exception_new { " EN" } else { "" })?;
        f.write_str(if self.exception_clear { " EC" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn entries_end_with_the_first_that_is_empty() {
        let entry = ErrorEntry {
            kind: 0x9002,
            code: 0x8165,
            time: NetTime { seconds: 1, nanoseconds: 2 },
            additional: 3,
        };
        let octets = [entry.to_octets(), ErrorEntry::END.to_octets(), entry.to_octets()].concat();
        let entries = ErrorEntries::new(&octets);
        assert_eq!(entries.iter().collect::<Vec<_>>(), [entry]);
        assert_eq!(entries.all().count(), 3);
        let cut = ErrorEntries::new(&octets[..59]);
        assert_eq!(cut.all().count(), 2);
        assert_eq!(ErrorEntries::new(&[]).iter().count(), 0);
    }
}

//! PReq and PRes: poll requests and responses, which carry PDOs (EPSG DS 301, 4.6.1.1.3 and 4).

use core::fmt;

use super::octets::{bit, bits, put, u16_at};
use super::{Links, NmtState, SendRequest};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    /// Of a PRes; reserved in a PReq.
    pub(super) const STATE: usize = 3;
    pub(super) const FLAGS: usize = 4;
    pub(super) const SIGNAL: usize = 5;
    pub(super) const PDO_VERSION: usize = 6;
    pub(super) const SIZE: usize = 8;
    pub(super) const PAYLOAD: usize = 10;
}

/// Octets before the payload.
pub(super) const HEADER_LEN: usize = field::PAYLOAD;
/// Maximum number of payload octets.
pub const MAX_PAYLOAD: usize = 1490;

const PREQ: &str = "POWERLINK PReq";
const PRES: &str = "POWERLINK PRes";
const PAYLOAD: &str = "POWERLINK PDO payload";

/// Version of a PDO mapping (0x14xx/2, 0x18xx/2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PdoVersion(pub u8);

impl PdoVersion {
    /// Returns the main version: only an equal one is compatible.
    pub const fn main(self) -> u8 {
        self.0 >> 4
    }

    /// Returns the sub version: a higher one only adds data at the end.
    pub const fn sub(self) -> u8 {
        self.0 & 0xf
    }
}

impl fmt::Display for PdoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.main(), self.sub())
    }
}

/// A poll of a controlled node by the managing node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Preq<'a> {
    /// MS: this is a multiplexed slot.
    pub multiplexed_slot: bool,
    /// EA: the node's EN as last received by the managing node.
    pub exception_acknowledge: bool,
    /// RD: the payload is valid.
    pub ready: bool,
    /// Status of the managing node's links.
    pub links: Links,
    /// Version of the mapping.
    pub pdo_version: PdoVersion,
    /// The PDO, without padding to the payload limit.
    pub payload: &'a [u8],
}

impl<'a> Preq<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, payload) = parts(PREQ, octets)?;
        Ok(Preq {
            multiplexed_slot: bit(header[field::FLAGS], 5),
            exception_acknowledge: bit(header[field::FLAGS], 2),
            ready: bit(header[field::FLAGS], 0),
            links: Links::from_octet(header[field::SIGNAL]),
            pdo_version: PdoVersion(header[field::PDO_VERSION]),
            payload,
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let header = emit_parts(PREQ, buffer, self.pdo_version, self.payload)?;
        header[field::STATE] = 0;
        header[field::FLAGS] =
            bits([(5, self.multiplexed_slot), (2, self.exception_acknowledge), (0, self.ready)]);
        header[field::SIGNAL] = self.links.octet();
        Ok(())
    }
}

impl fmt::Display for Preq<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PReq {} octets v{}", self.payload.len(), self.pdo_version)?;
        f.write_str(if self.ready { " RD" } else { "" })?;
        f.write_str(if self.multiplexed_slot { " MS" } else { "" })?;
        f.write_str(if self.exception_acknowledge { " EA" } else { "" })
    }
}

/// A node's response to its poll, received by all nodes. The managing node sends one as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pres<'a> {
    /// State of the node.
    pub state: NmtState,
    /// MS: this is a multiplexed slot.
    pub multiplexed_slot: bool,
    /// EN: toggles with every new entry of the status response.
    pub exception_new: bool,
    /// RD: the payload is valid.
    pub ready: bool,
    /// Status of the node's links.
    pub links: Links,
    /// Frames that the node requests to send in the asynchronous phase.
    pub request: SendRequest,
    /// Version of the mapping.
    pub pdo_version: PdoVersion,
    /// The PDO, without padding to the payload limit.
    pub payload: &'a [u8],
}

impl<'a> Pres<'a> {
    pub(super) fn parse(octets: &'a [u8]) -> Result<Self, TruncationError> {
        let (header, payload) = parts(PRES, octets)?;
        Ok(Pres {
            state: NmtState(header[field::STATE]),
            multiplexed_slot: bit(header[field::FLAGS], 5),
            exception_new: bit(header[field::FLAGS], 4),
            ready: bit(header[field::FLAGS], 0),
            links: Links::from_octet(header[field::SIGNAL]),
            request: SendRequest::from_octet(header[field::SIGNAL]),
            pdo_version: PdoVersion(header[field::PDO_VERSION]),
            payload,
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let signal = self.links.octet() | self.request.octet()?;
        let header = emit_parts(PRES, buffer, self.pdo_version, self.payload)?;
        header[field::STATE] = self.state.0;
        header[field::FLAGS] =
            bits([(5, self.multiplexed_slot), (4, self.exception_new), (0, self.ready)]);
        header[field::SIGNAL] = signal;
        Ok(())
    }
}

impl fmt::Display for Pres<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pres { state, request, pdo_version, payload, .. } = self;
        write!(f, "PRes {state} {request} {} octets v{pdo_version}", payload.len())?;
        f.write_str(if self.ready { " RD" } else { "" })?;
        f.write_str(if self.multiplexed_slot { " MS" } else { "" })?;
        f.write_str(if self.exception_new { " EN" } else { "" })
    }
}

/// Returns header and payload, limited to the size in the header.
fn parts<'a>(
    what: &'static str,
    octets: &'a [u8],
) -> Result<(&'a [u8; HEADER_LEN], &'a [u8]), TruncationError> {
    let (header, rest) = split::<HEADER_LEN>(what, octets)?;
    let needed = usize::from(u16_at(header, field::SIZE));
    let payload =
        rest.get(..needed).ok_or(TruncationError { what: PAYLOAD, needed, len: rest.len() })?;
    Ok((header, payload))
}

/// Writes the common part of PReq and PRes; returns the header.
fn emit_parts<'b>(
    what: &'static str,
    buffer: &'b mut [u8],
    version: PdoVersion,
    payload: &[u8],
) -> Result<&'b mut [u8; HEADER_LEN], EmitError> {
    EmitError::check("size of a POWERLINK PDO", payload.len(), MAX_PAYLOAD)?;
    let (needed, len) = (HEADER_LEN + payload.len(), buffer.len());
    buffer
        .get_mut(field::PAYLOAD..needed)
        .ok_or(EmitError::NoRoom { what, needed, len })?
        .copy_from_slice(payload);
    let header = room::<HEADER_LEN>(what, buffer)?;
    header[field::PDO_VERSION] = version.0;
    header[7] = 0;
    put(header, field::SIZE, (payload.len() as u16).to_le_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = PdoVersion(0x21);
        assert_eq!((version.main(), version.sub()), (2, 1));
        assert_eq!(std::format!("{version}"), "2.1");
    }

    #[test]
    fn a_payload_is_never_longer_than_the_frame_or_the_profile() {
        let mut octets = [0; HEADER_LEN + 2];
        for (size, there) in [(0, true), (2, true), (3, false), (u16::MAX, false)] {
            put(&mut octets, field::SIZE, size.to_le_bytes());
            assert_eq!(Preq::parse(&octets).is_ok(), there, "{size}");
            assert_eq!(Pres::parse(&octets).is_ok(), there, "{size}");
        }
        put(&mut octets, field::SIZE, [1, 0]);
        let preq = Preq::parse(&octets).unwrap();
        let long = Preq { payload: &[0; MAX_PAYLOAD + 1], ..preq };
        assert!(matches!(long.emit(&mut [0; 2000]), Err(EmitError::OutOfRange { .. })));
        assert!(matches!(preq.emit(&mut [0; 10]), Err(EmitError::NoRoom { .. })));
    }
}

//! The supervision frame of PRP and HSR (IEC 62439-3, version 1): a node announces itself and, as a RedBox,
//! the nodes behind it.
//!
//! ```text
//! path (4 bits), version (12 bits) | sequence number | node TLV | [RedBox TLV] | end TLV | zero padding
//! ```
//!
//! A TLV is type, length and value. Source of fields and types: Linux, net/hsr; they are compared with
//! tshark. The text of the standard was not available: docs/reference/clauses.md.

use core::fmt;

use crate::bytes::{Writer, split};
use crate::{EmitError, MacAddress, TruncationError};

mod field {
    use core::ops::Range;

    pub(super) const PATH_AND_VERSION: Range<usize> = 0..2;
    pub(super) const SEQUENCE: Range<usize> = 2..4;
}

mod tlv {
    /// Ends the TLVs; its length is 0.
    pub(super) const END: u8 = 0;
    /// A node that discards duplicates (PRP).
    pub(super) const DUPLICATE_DISCARD: u8 = 20;
    /// A node that accepts duplicates (PRP).
    pub(super) const DUPLICATE_ACCEPT: u8 = 21;
    /// Announcement of version 0 (HSR).
    pub(super) const ANNOUNCEMENT: u8 = 22;
    /// A node in an HSR ring.
    pub(super) const HSR: u8 = 23;
    /// The RedBox that sends for the node.
    pub(super) const REDBOX: u8 = 30;
    /// A node behind a RedBox, of version 0.
    pub(super) const VDAN: u8 = 31;
    /// Octets of an address.
    pub(super) const MAC_LEN: usize = 6;
    /// Octets of two addresses, of version 0.
    pub(super) const TWO_MACS_LEN: usize = 12;
    /// Octets of type and length.
    pub(super) const HEADER_LEN: usize = 2;

    /// Returns the length of a type; `None`: any.
    pub(super) const fn len(tlv_type: u8) -> Option<u8> {
        match tlv_type {
            END => Some(0),
            DUPLICATE_DISCARD | DUPLICATE_ACCEPT | HSR | REDBOX => Some(MAC_LEN as u8),
            _ => None,
        }
    }
}

/// Octets before the first TLV.
pub const HEADER_LEN: usize = field::SEQUENCE.end;
/// Maximum number of octets that [`Repr::emit`] writes, without padding.
pub const MAX_LEN: usize = HEADER_LEN + 2 * (tlv::HEADER_LEN + tlv::MAC_LEN) + tlv::HEADER_LEN;
/// The version of IEC 62439-3:2012 and later editions.
pub const VERSION: u16 = 1;
/// Maximum version.
pub const MAX_VERSION: u16 = 0x0fff;
/// Maximum path.
pub const MAX_PATH: u8 = 0x0f;
/// Default destination of supervision frames. The last octet is configurable.
pub const DESTINATION: MacAddress = MacAddress([0x01, 0x15, 0x4e, 0x00, 0x01, 0x00]);

const WHAT: &str = "supervision frame";
const WHAT_TLV: &str = "supervision TLV";
const ALL_BUT_LAST: MacAddress = MacAddress([0xff, 0xff, 0xff, 0xff, 0xff, 0]);

/// Returns whether `mac` is a destination of supervision frames, with any last octet.
pub const fn is_destination(mac: MacAddress) -> bool {
    mac.masked(ALL_BUT_LAST).as_u64() == DESTINATION.as_u64()
}

/// The mode of the announced node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// PRP, duplicate discard: type 20.
    DuplicateDiscard,
    /// PRP, duplicate accept: type 21.
    DuplicateAccept,
    /// HSR: type 23.
    Hsr,
}

impl NodeKind {
    /// Returns the type of the node TLV.
    pub const fn tlv_type(self) -> u8 {
        match self {
            NodeKind::DuplicateDiscard => tlv::DUPLICATE_DISCARD,
            NodeKind::DuplicateAccept => tlv::DUPLICATE_ACCEPT,
            NodeKind::Hsr => tlv::HSR,
        }
    }

    const fn of_tlv_type(tlv_type: u8) -> Option<Self> {
        match tlv_type {
            tlv::DUPLICATE_DISCARD => Some(NodeKind::DuplicateDiscard),
            tlv::DUPLICATE_ACCEPT => Some(NodeKind::DuplicateAccept),
            tlv::HSR => Some(NodeKind::Hsr),
            _ => None,
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeKind::DuplicateDiscard => "duplicate discard",
            NodeKind::DuplicateAccept => "duplicate accept",
            NodeKind::Hsr => "hsr",
        })
    }
}

/// The reason why octets are not a supervision frame of version 1 or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupervisionError {
    /// The frame ends within its header, within a TLV or before the end TLV.
    Truncated(TruncationError),
    /// Version 0, which has other fields.
    Version(u16),
    /// A type that only version 0 has: 22 or 31.
    ObsoleteType(u8),
    /// A TLV has another length than its type. Length 12, two addresses, is that of version 0.
    Length {
        /// The type.
        tlv_type: u8,
        /// The length, in octets.
        len: u8,
    },
    /// A second TLV of a node or RedBox.
    Repeated(u8),
    /// The TLVs end without that of a node.
    NoNode,
}

impl SupervisionError {
    /// Returns whether the sender has another version: a receiver counts the frame as such, and learns nothing
    /// from it.
    pub const fn is_other_version(&self) -> bool {
        match self {
            SupervisionError::Version(_) | SupervisionError::ObsoleteType(_) => true,
            SupervisionError::Length { tlv_type, len } => {
                *len as usize == tlv::TWO_MACS_LEN && NodeKind::of_tlv_type(*tlv_type).is_some()
            }
            SupervisionError::Truncated(_)
            | SupervisionError::Repeated(_)
            | SupervisionError::NoNode => false,
        }
    }
}

impl From<TruncationError> for SupervisionError {
    fn from(error: TruncationError) -> Self {
        SupervisionError::Truncated(error)
    }
}

impl fmt::Display for SupervisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = if self.is_other_version() { "other version: " } else { "" };
        match self {
            SupervisionError::Truncated(error) => error.fmt(f),
            SupervisionError::Version(version) => {
                write!(f, "supervision frame of another version: {version}, not {VERSION}")
            }
            SupervisionError::ObsoleteType(tlv_type) => {
                write!(f, "supervision frame of another version: TLV type {tlv_type} is obsolete")
            }
            SupervisionError::Length { tlv_type, len } => {
                let expected = tlv::len(*tlv_type).unwrap_or_default();
                write!(f, "{other}{WHAT_TLV} of type {tlv_type} has length {len}, not {expected}")
            }
            SupervisionError::Repeated(tlv_type) => {
                write!(f, "second {WHAT_TLV} of a node or RedBox: type {tlv_type}")
            }
            SupervisionError::NoNode => {
                f.write_str("supervision frame without a node: no TLV of type 20, 21 or 23")
            }
        }
    }
}

impl core::error::Error for SupervisionError {}

/// A supervision frame that has a node and an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View<'a> {
    header: &'a [u8; HEADER_LEN],
    kind: NodeKind,
    node: &'a [u8; tlv::MAC_LEN],
    redbox: Option<&'a [u8; tlv::MAC_LEN]>,
}

impl<'a> View<'a> {
    /// Reads the octets after EtherType 0x88FB, which may have padding and a trailer.
    ///
    /// A version greater than 1 is read like version 1. TLVs of unknown types are skipped.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, SupervisionError> {
        let (header, mut rest) = split::<HEADER_LEN>(WHAT, octets)?;
        let version = version(header);
        if version < VERSION {
            return Err(SupervisionError::Version(version));
        }
        let (mut node, mut redbox) = (None, None);
        loop {
            let (&[tlv_type, len], behind) = split::<{ tlv::HEADER_LEN }>(WHAT_TLV, rest)?;
            if matches!(tlv_type, tlv::ANNOUNCEMENT | tlv::VDAN) {
                return Err(SupervisionError::ObsoleteType(tlv_type));
            }
            if tlv::len(tlv_type).is_some_and(|expected| expected != len) {
                return Err(SupervisionError::Length { tlv_type, len });
            }
            if tlv_type == tlv::END {
                break;
            }
            let (value, behind) = behind.split_at_checked(len.into()).ok_or(TruncationError {
                what: WHAT_TLV,
                needed: tlv::HEADER_LEN + usize::from(len),
                len: rest.len(),
            })?;
            let repeated = match (NodeKind::of_tlv_type(tlv_type), value.first_chunk()) {
                (Some(kind), Some(mac)) => node.replace((kind, mac)).is_some(),
                (None, Some(mac)) if tlv_type == tlv::REDBOX => redbox.replace(mac).is_some(),
                _ => false,
            };
            if repeated {
                return Err(SupervisionError::Repeated(tlv_type));
            }
            rest = behind;
        }
        let (kind, node) = node.ok_or(SupervisionError::NoNode)?;
        Ok(View { header, kind, node, redbox })
    }

    /// Returns the path, `0..=15`: 0 in version 1.
    pub fn path(&self) -> u8 {
        self.header[field::PATH_AND_VERSION.start] >> 4
    }

    /// Returns the version, `1..=4095`.
    pub fn version(&self) -> u16 {
        version(self.header)
    }

    /// Returns the sequence number of supervision frames, which is not that of the trailer.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Returns the mode of the node.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Returns the address of the node: a node with two ports, or one behind a RedBox.
    pub fn node(&self) -> MacAddress {
        MacAddress(*self.node)
    }

    /// Returns the address of the RedBox that sent the frame; `None`: the node itself sent it.
    pub fn redbox(&self) -> Option<MacAddress> {
        self.redbox.copied().map(MacAddress)
    }
}

fn version(header: &[u8; HEADER_LEN]) -> u16 {
    u16::from_be_bytes([header[0], header[1]]) & MAX_VERSION
}

/// A supervision frame, without padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The path, `0..=15`: 0 in version 1.
    pub path: u8,
    /// The version, `1..=4095`; [`VERSION`] to send.
    pub version: u16,
    /// The sequence number of supervision frames.
    pub sequence: u16,
    /// The mode of the node.
    pub kind: NodeKind,
    /// The address of the node.
    pub node: MacAddress,
    /// The address of the RedBox that sends the frame.
    pub redbox: Option<MacAddress>,
}

impl Repr {
    /// Returns the fields of a frame. TLVs of unknown types are lost.
    pub fn parse(frame: &View<'_>) -> Self {
        Repr {
            path: frame.path(),
            version: frame.version(),
            sequence: frame.sequence(),
            kind: frame.kind(),
            node: frame.node(),
            redbox: frame.redbox(),
        }
    }

    /// Returns the number of octets that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        match self.redbox {
            Some(_) => MAX_LEN,
            None => MAX_LEN - tlv::HEADER_LEN - tlv::MAC_LEN,
        }
    }

    /// Writes the octets after EtherType 0x88FB to the start of `buffer`; returns their number. The caller
    /// pads the frame with zeros.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        EmitError::check("supervision path", self.path.into(), MAX_PATH.into())?;
        EmitError::check("supervision version", self.version.into(), MAX_VERSION.into())?;
        if buffer.len() < self.buffer_len() {
            let (needed, len) = (self.buffer_len(), buffer.len());
            return Err(EmitError::NoRoom { what: WHAT, needed, len });
        }
        let path_and_version = u16::from(self.path) << 12 | self.version;
        let mut writer = Writer::new(buffer);
        writer.put(WHAT, &path_and_version.to_be_bytes())?;
        writer.put(WHAT, &self.sequence.to_be_bytes())?;
        let redbox = self.redbox.map(|mac| (tlv::REDBOX, mac));
        for (tlv_type, mac) in
            [Some((self.kind.tlv_type(), self.node)), redbox].into_iter().flatten()
        {
            writer.put(WHAT, &[tlv_type, tlv::MAC_LEN as u8])?;
            writer.put(WHAT, &mac.0)?;
        }
        writer.put(WHAT, &[tlv::END, 0])?;
        Ok(writer.len())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "supervision {} version {}", self.sequence, self.version)?;
        write!(f, " {} {}", self.node, self.kind)?;
        match self.redbox {
            Some(redbox) => write!(f, " redbox {redbox}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    const NODE: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const REDBOX: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const OCTETS: [u8; MAX_LEN] =
        [0x00, 0x01, 0x12, 0x34, 20, 6, 2, 0, 0, 0, 0, 1, 30, 6, 2, 0, 0, 0, 0, 9, 0, 0];
    const REPR: Repr = Repr {
        path: 0,
        version: VERSION,
        sequence: 0x1234,
        kind: NodeKind::DuplicateDiscard,
        node: MacAddress(NODE),
        redbox: Some(MacAddress(REDBOX)),
    };

    fn parse(octets: &[u8]) -> Result<Repr, SupervisionError> {
        View::new_checked(octets).map(|view| Repr::parse(&view))
    }

    /// Returns a frame of version 1 with these TLVs.
    fn frame(tlvs: &[&[u8]]) -> Vec<u8> {
        [&[0, 1, 0x12, 0x34], &tlvs.concat()[..]].concat()
    }

    fn tlv(tlv_type: u8, mac: [u8; 6]) -> Vec<u8> {
        [&[tlv_type, 6][..], &mac].concat()
    }

    #[test]
    fn parses() {
        assert_eq!(parse(&OCTETS), Ok(REPR));
        assert_eq!(
            parse(&[&OCTETS[..], &[0; 24], &[0, 9, 0xa0, 52, 0x88, 0xfb]].concat()),
            Ok(REPR)
        );
        for kind in [NodeKind::DuplicateDiscard, NodeKind::DuplicateAccept, NodeKind::Hsr] {
            let octets = frame(&[&tlv(kind.tlv_type(), NODE), &[0, 0]]);
            assert_eq!(parse(&octets), Ok(Repr { kind, redbox: None, ..REPR }));
        }
    }

    #[test]
    fn emits() {
        let mut buffer = [0xa5; MAX_LEN + 1];
        assert_eq!(REPR.emit(&mut buffer), Ok(REPR.buffer_len()));
        assert_eq!(buffer[..MAX_LEN], OCTETS);
        assert_eq!(buffer[MAX_LEN], 0xa5);
        let node = Repr { redbox: None, ..REPR };
        buffer.fill(0xa5);
        assert_eq!(node.emit(&mut buffer), Ok(node.buffer_len()));
        assert_eq!(buffer[..14], frame(&[&tlv(20, NODE), &[0, 0]]));
        assert_eq!(buffer[14..], [0xa5; 9]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut buffer = [0xa5; MAX_LEN];
        assert!(Repr { path: 16, ..REPR }.emit(&mut buffer).is_err());
        assert!(Repr { version: 4096, ..REPR }.emit(&mut buffer).is_err());
        assert!(REPR.emit(&mut buffer[..MAX_LEN - 1]).is_err());
        assert_eq!(buffer, [0xa5; MAX_LEN]);
    }

    #[test]
    fn every_truncation_is_refused() {
        for len in 0..OCTETS.len() {
            match parse(&OCTETS[..len]) {
                Err(SupervisionError::Truncated(error)) => {
                    assert!(error.len < error.needed && error.len <= len, "{len}: {error}");
                }
                other => panic!("{len}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_end_is_two_zeros() {
        let node = tlv(20, NODE);
        assert!(matches!(parse(&frame(&[&node])), Err(SupervisionError::Truncated(_))));
        assert_eq!(
            parse(&frame(&[&node, &[0, 1, 0]])),
            Err(SupervisionError::Length { tlv_type: 0, len: 1 })
        );
        // Type 1 of length 0 is unknown: the end follows.
        assert!(parse(&frame(&[&node, &[1, 0], &[0, 0]])).is_ok());
        assert!(matches!(parse(&frame(&[&node, &[1, 0]])), Err(SupervisionError::Truncated(_))));
    }

    #[test]
    fn unknown_tlvs_are_skipped() {
        let unknown: [&[u8]; 3] =
            [&[99, 0], &[99, 3, 20, 6, 2], &[29, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]];
        let (node, redbox) = (tlv(20, NODE), tlv(30, REDBOX));
        for skipped in unknown {
            for tlvs in [
                [skipped, &node, &redbox, &[0, 0]],
                [&node, skipped, &redbox, &[0, 0]],
                [&node, &redbox, skipped, &[0, 0]],
            ] {
                assert_eq!(parse(&frame(&tlvs)), Ok(REPR));
            }
        }
        // Its length reaches to the end of the frame, and past it.
        let octets = frame(&[&node, &[99, 2, 0, 0]]);
        assert!(matches!(parse(&octets), Err(SupervisionError::Truncated(e)) if e.len == 0));
        let octets = frame(&[&node, &[99, 3, 0, 0]]);
        assert!(matches!(parse(&octets), Err(SupervisionError::Truncated(e)) if e.len == 4));
    }

    #[test]
    fn other_versions() {
        let mut octets = OCTETS;
        octets[1] = 0;
        let error = parse(&octets).unwrap_err();
        assert!(error.is_other_version());
        assert_eq!(error.to_string(), "supervision frame of another version: 0, not 1");
        octets[..2].copy_from_slice(&[0xf0, 0x02]);
        assert_eq!(parse(&octets), Ok(Repr { path: 15, version: 2, ..REPR }));
        for tlv_type in [22, 31] {
            let error = parse(&frame(&[&tlv(tlv_type, NODE), &[0, 0]])).unwrap_err();
            assert_eq!(error, SupervisionError::ObsoleteType(tlv_type));
            assert!(error.is_other_version());
        }
        let error = parse(&frame(&[&[20, 12], &NODE, &NODE, &[0, 0]])).unwrap_err();
        assert!(error.is_other_version());
        assert_eq!(
            error.to_string(),
            "other version: supervision TLV of type 20 has length 12, not 6"
        );
    }

    #[test]
    fn a_frame_announces_one_node() {
        let (node, redbox) = (tlv(23, NODE), tlv(30, REDBOX));
        assert_eq!(parse(&frame(&[&redbox, &[0, 0]])), Err(SupervisionError::NoNode));
        assert_eq!(
            parse(&frame(&[&node, &tlv(20, REDBOX), &[0, 0]])),
            Err(SupervisionError::Repeated(20))
        );
        assert_eq!(
            parse(&frame(&[&node, &redbox, &redbox, &[0, 0]])),
            Err(SupervisionError::Repeated(30))
        );
        let error = parse(&frame(&[&node, &[30, 7], &REDBOX, &[0, 0, 0]])).unwrap_err();
        assert!(!error.is_other_version());
        assert_eq!(error, SupervisionError::Length { tlv_type: 30, len: 7 });
    }

    #[test]
    fn destinations() {
        assert!(is_destination(DESTINATION));
        assert!(is_destination(MacAddress([0x01, 0x15, 0x4e, 0x00, 0x01, 0xff])));
        assert!(!is_destination(MacAddress([0x01, 0x15, 0x4e, 0x00, 0x02, 0x00])));
        assert!(!is_destination(MacAddress([0x00, 0x15, 0x4e, 0x00, 0x01, 0x00])));
    }

    #[test]
    fn shows() {
        assert_eq!(
            REPR.to_string(),
            "supervision 4660 version 1 02:00:00:00:00:01 duplicate discard redbox 02:00:00:00:00:09"
        );
    }
}

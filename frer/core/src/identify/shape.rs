//! Shapes of identifications, the keys that each shape extracts from a frame, and references to members.

use core::cmp::Reverse;
use core::fmt;
use core::net::IpAddr;
use core::num::NonZero;

use onbeat_wire::MacAddress;

use super::Fields;
use crate::spec::{IpMatch, TagMatch, VlanMatch};

/// A member stream by its position in the configuration; ordered as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberRef {
    /// Index of the stream.
    pub stream: usize,
    /// Index among the members of the stream.
    pub member: usize,
}

/// A member reference in half the octets: a node has fewer than 2^32 - 1 of either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackedMember {
    /// Index + 1, so that `None` needs no octets.
    stream: NonZero<u32>,
    member: u32,
}

impl From<MemberRef> for PackedMember {
    fn from(at: MemberRef) -> Self {
        let stream = NonZero::<u32>::MIN.saturating_add(at.stream as u32);
        Self { stream, member: at.member as u32 }
    }
}

impl From<PackedMember> for MemberRef {
    fn from(packed: PackedMember) -> Self {
        Self { stream: packed.stream.get() as usize - 1, member: packed.member as usize }
    }
}

/// The fields that members of one kind read, and their keys.
pub(super) trait Shape: Copy + Ord {
    /// The values that the members are indexed by.
    type Key: Copy + Eq + Ord + core::hash::Hash + fmt::Debug;

    /// Returns the key of a frame whose address is `mac`; `None` if it lacks a required field.
    fn key(self, mac: MacAddress, fields: &Fields<'_>) -> Option<Self::Key>;

    /// Returns the key of frames without a VLAN if these match too.
    fn untagged(self, key: Self::Key) -> Option<Self::Key>;
}

/// The VLAN requirement of a kind, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VlanShape {
    TaggedVid,
    TaggedAny,
    Priority,
    AllVid,
    AllAny,
}

/// An address and a VLAN id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Layer2Key(u64);

impl Layer2Key {
    fn new(mac: MacAddress, vid: u16) -> Self {
        let [a, b, c, d, e, f] = mac.0;
        Self(u64::from_be_bytes([0, 0, a, b, c, d, e, f]) << 16 | u64::from(vid))
    }

    fn without_vid(self) -> Self {
        Self(self.0 & !0xffff)
    }
}

impl VlanShape {
    pub(super) fn of(vlan: VlanMatch) -> Self {
        match (vlan.tagged, vlan.vlan) {
            (TagMatch::Tagged, 0) => Self::TaggedAny,
            (TagMatch::Tagged, _) => Self::TaggedVid,
            (TagMatch::Priority, _) => Self::Priority,
            (TagMatch::All, 0) => Self::AllAny,
            (TagMatch::All, _) => Self::AllVid,
        }
    }

    pub(super) fn key_of(mac: MacAddress, vlan: VlanMatch) -> Layer2Key {
        let vid = if vlan.tagged == TagMatch::Priority { 0 } else { vlan.vlan };
        Layer2Key::new(mac, vid)
    }

    fn vid(self, vid: Option<u16>) -> Option<u16> {
        match self {
            Self::TaggedVid => vid,
            Self::TaggedAny => vid.and(Some(0)),
            Self::Priority => vid.is_none().then_some(0),
            Self::AllVid => Some(vid.unwrap_or(0)),
            Self::AllAny => Some(0),
        }
    }
}

impl Shape for VlanShape {
    type Key = Layer2Key;

    fn key(self, mac: MacAddress, fields: &Fields<'_>) -> Option<Layer2Key> {
        Some(Layer2Key::new(mac, self.vid(fields.vid())?))
    }

    fn untagged(self, key: Layer2Key) -> Option<Layer2Key> {
        (self == Self::AllVid).then(|| key.without_vid())
    }
}

/// The fields that a kind of IP identification reads; ordered by precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IpShape {
    vlan: VlanShape,
    /// Number of fields: more have precedence.
    given: Reverse<u8>,
    source: Reverse<bool>,
    dscp: Reverse<bool>,
    protocol: Reverse<bool>,
    source_port: Reverse<bool>,
    destination_port: Reverse<bool>,
}

/// The values of those fields; `None` for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct IpKey {
    layer2: Layer2Key,
    destination: IpAddr,
    source: Option<IpAddr>,
    dscp: Option<u8>,
    protocol: Option<u8>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

impl IpShape {
    pub(super) fn of(ip: &IpMatch) -> Self {
        let (protocol, source_port, destination_port) = ip.next_protocol.parts();
        let looked_at = [
            ip.ip_source.is_some(),
            ip.dscp.is_some(),
            protocol.is_some(),
            source_port.is_some(),
            destination_port.is_some(),
        ];
        let [source, dscp, protocol, source_port, destination_port] = looked_at.map(Reverse);
        Self {
            vlan: VlanShape::of(ip.vlan),
            given: Reverse(looked_at.into_iter().map(u8::from).sum()),
            source,
            dscp,
            protocol,
            source_port,
            destination_port,
        }
    }

    pub(super) fn key_of(ip: &IpMatch) -> IpKey {
        let (protocol, source_port, destination_port) = ip.next_protocol.parts();
        IpKey {
            layer2: VlanShape::key_of(ip.destination, ip.vlan),
            destination: ip.ip_destination,
            source: ip.ip_source,
            dscp: ip.dscp,
            protocol,
            source_port,
            destination_port,
        }
    }
}

impl Shape for IpShape {
    type Key = IpKey;

    fn key(self, mac: MacAddress, fields: &Fields<'_>) -> Option<IpKey> {
        let ip = fields.ip?;
        let (source_port, destination_port) = ip.ports.unzip();
        Some(IpKey {
            layer2: self.vlan.key(mac, fields)?,
            destination: ip.destination,
            source: self.source.0.then_some(ip.source),
            dscp: self.dscp.0.then_some(ip.dscp),
            protocol: self.protocol.0.then_some(ip.protocol),
            source_port: if self.source_port.0 { Some(source_port?) } else { None },
            destination_port: if self.destination_port.0 { Some(destination_port?) } else { None },
        })
    }

    fn untagged(self, key: IpKey) -> Option<IpKey> {
        Some(IpKey { layer2: self.vlan.untagged(key.layer2)?, ..key })
    }
}

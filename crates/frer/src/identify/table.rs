//! All identifications of a port in one look-up.
//!
//! Members that look at the same fields form a group with one ordered map from the values of
//! those fields to the member, so that a look-up costs one map access per *kind* of
//! identification in use, however many streams there are. Mask-and-match members are compared
//! one by one.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::net::IpAddr;

use onbeat_wire::MacAddress;

use super::Fields;
use crate::spec::{Identification, IpMatch, MaskAndMatch, PortId, Stream, Tagged, VlanMatch};

/// A member stream by its place in the configuration; orders as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberRef {
    /// Index of the stream.
    pub stream: usize,
    /// Index among its members.
    pub member: usize,
}

/// Two members on one port that take the same frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The port.
    pub port: PortId,
    /// Name of the stream that comes first in the configuration.
    pub first: String,
    /// Name of the other one; the same where one stream has two equal members.
    pub second: String,
}

impl Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "streams {:?} and {:?}: members on port {} with the same identification; a frame is \
             of one stream, so change one of them or remove it",
            self.first, self.second, self.port.0
        )
    }
}

/// The identification functions of one port.
///
/// A frame that several members match is given to the first by this order:
///
/// 1. IP (type 4), Mask-and-match (5), Active destination and Null (3, 1), Source MAC (2);
/// 2. tagged with a VLAN id, tagged with any, priority, all with a VLAN id, all;
///    for Mask-and-match: more bits in the masks;
/// 3. for IP: more of source address, DSCP, protocol and the two ports given;
/// 4. order of configuration: for Mask-and-match that of the members; otherwise that in which
///    *kinds* of identification, the sets of fields looked at, are first used by any member of the
///    node, on whichever port.
///
/// Kinds and not members, so that a look-up may stop at the first kind that has the frame: every
/// data plane looks one kind up after the other.
#[derive(Debug, Clone)]
pub struct Table {
    ip: Vec<Group>,
    /// With the number of bits in the masks, most bits first.
    masks: Vec<(u32, MaskAndMatch, MemberRef)>,
    destination: Vec<Group>,
    source: Vec<Group>,
}

impl Table {
    /// The table of `port`.
    ///
    /// # Errors
    /// Two members that take the same frames.
    pub fn new(streams: &[Stream], port: PortId) -> Result<Self, Conflict> {
        let mut table =
            Self { ip: Vec::new(), masks: Vec::new(), destination: Vec::new(), source: Vec::new() };
        for (index, stream) in streams.iter().enumerate() {
            for (member, parameters) in stream.members.iter().enumerate() {
                if parameters.port != port {
                    // Its kind takes its place in the order.
                    let _ = table.group(&parameters.identification);
                    continue;
                }
                let at = MemberRef { stream: index, member };
                table.insert(&parameters.identification, at).map_err(|earlier| Conflict {
                    port,
                    first: streams[earlier.stream].name.clone(),
                    second: stream.name.clone(),
                })?;
            }
        }
        for groups in [&mut table.ip, &mut table.destination, &mut table.source] {
            groups.retain(|group| !group.members.is_empty());
            groups.sort_by_key(|group| group.shape.rank());
        }
        table.masks.sort_by_key(|(bits, _, _)| core::cmp::Reverse(*bits));
        Ok(table)
    }

    /// The member that takes a frame with these fields.
    pub fn lookup(&self, fields: &Fields<'_>) -> Option<MemberRef> {
        first_of(&self.ip, fields)
            .or_else(|| {
                let (_, _, at) = self.masks.iter().find(|(_, mask, _)| mask.matches(fields))?;
                Some(*at)
            })
            .or_else(|| first_of(&self.destination, fields))
            .or_else(|| first_of(&self.source, fields))
    }

    /// Fails with the member that has the same identification.
    fn insert(&mut self, identification: &Identification, at: MemberRef) -> Result<(), MemberRef> {
        if let Identification::MaskAndMatch(mask) = identification {
            return self.insert_mask(mask, at);
        }
        self.group(identification).map_or(Ok(()), |(group, key)| group.insert(key, at))
    }

    /// The group of members that look at the same fields, and the values of those; Mask-and-match
    /// has none.
    fn group(&mut self, identification: &Identification) -> Option<(&mut Group, Key)> {
        let (groups, address, mac, vlan, ip) = match identification {
            Identification::Ip(ip) => {
                (&mut self.ip, Address::Destination, ip.destination, ip.vlan, Some(IpKey::of(ip)))
            }
            Identification::Null { destination, vlan }
            | Identification::ActiveDestination { destination, vlan, .. } => {
                (&mut self.destination, Address::Destination, *destination, *vlan, None)
            }
            Identification::SourceMacVlan { source, vlan } => {
                (&mut self.source, Address::Source, *source, *vlan, None)
            }
            Identification::MaskAndMatch(_) => return None,
        };
        let shape = Shape { address, vlan: VlanShape::of(vlan), ip: ip.as_ref().map(IpShape::of) };
        let position = groups.iter().position(|group| group.shape == shape).unwrap_or_else(|| {
            groups.push(Group { shape, members: BTreeMap::new() });
            groups.len() - 1
        });
        Some((&mut groups[position], Key { mac, vid: vlan.vlan, ip }))
    }

    fn insert_mask(&mut self, mask: &MaskAndMatch, at: MemberRef) -> Result<(), MemberRef> {
        if let Some((_, _, earlier)) = self.masks.iter().find(|(_, other, _)| other == mask) {
            return Err(*earlier);
        }
        let octets =
            mask.destination_mask.0.iter().chain(&mask.source_mask.0).chain(&mask.msdu_mask);
        let bits = octets.map(|octet| octet.count_ones()).sum();
        self.masks.push((bits, mask.clone(), at));
        Ok(())
    }
}

fn first_of(groups: &[Group], fields: &Fields<'_>) -> Option<MemberRef> {
    groups.iter().find_map(|group| group.lookup(fields))
}

/// Members that look at the same fields.
#[derive(Debug, Clone)]
struct Group {
    shape: Shape,
    members: BTreeMap<Key, MemberRef>,
}

impl Group {
    fn insert(&mut self, key: Key, at: MemberRef) -> Result<(), MemberRef> {
        if let Some(earlier) = self.members.get(&key) {
            return Err(*earlier);
        }
        if self.shape.vlan == VlanShape::AllVid {
            // Frames without a VLAN match whatever VLAN id is asked for: first come, first served.
            self.members.entry(Key { vid: 0, ..key }).or_insert(at);
        }
        self.members.insert(key, at);
        Ok(())
    }

    fn lookup(&self, fields: &Fields<'_>) -> Option<MemberRef> {
        self.members.get(&self.shape.key(fields)?).copied()
    }
}

/// The values that a group is searched by; what its shape does not look at is 0 or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    mac: MacAddress,
    vid: u16,
    ip: Option<IpKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct IpKey {
    destination: IpAddr,
    source: Option<IpAddr>,
    dscp: Option<u8>,
    protocol: Option<u8>,
    source_port: Option<u16>,
    destination_port: Option<u16>,
}

impl IpKey {
    fn of(ip: &IpMatch) -> Self {
        let (protocol, source_port, destination_port) = ip.next_protocol.parts();
        Self {
            destination: ip.ip_destination,
            source: ip.ip_source,
            dscp: ip.dscp,
            protocol,
            source_port,
            destination_port,
        }
    }
}

/// Which fields a group looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    address: Address,
    vlan: VlanShape,
    ip: Option<IpShape>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    Destination,
    Source,
}

/// In the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VlanShape {
    TaggedVid,
    TaggedAny,
    Priority,
    AllVid,
    AllAny,
}

/// Which of the fields of [`IpKey`] are looked at, in that order; the first always is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct IpShape {
    source: bool,
    dscp: bool,
    protocol: bool,
    source_port: bool,
    destination_port: bool,
}

impl Shape {
    /// Lower goes first.
    fn rank(&self) -> (VlanShape, usize) {
        (self.vlan, self.ip.map_or(0, |ip| ip.wildcards()))
    }

    /// Where a frame would be found; `None` when it lacks a field that is looked at.
    fn key(&self, fields: &Fields<'_>) -> Option<Key> {
        let mac = match self.address {
            Address::Destination => fields.destination,
            Address::Source => fields.source,
        };
        let ip = match self.ip {
            Some(shape) => Some(shape.key(fields)?),
            None => None,
        };
        Some(Key { mac, vid: self.vlan.key(fields.vid())?, ip })
    }
}

impl VlanShape {
    fn of(vlan: VlanMatch) -> Self {
        match (vlan.tagged, vlan.vlan) {
            (Tagged::Tagged, 0) => Self::TaggedAny,
            (Tagged::Tagged, _) => Self::TaggedVid,
            (Tagged::Priority, _) => Self::Priority,
            (Tagged::All, 0) => Self::AllAny,
            (Tagged::All, _) => Self::AllVid,
        }
    }

    fn key(self, vid: Option<u16>) -> Option<u16> {
        match self {
            Self::TaggedVid => vid,
            Self::TaggedAny => vid.and(Some(0)),
            Self::Priority => vid.is_none().then_some(0),
            Self::AllVid => Some(vid.unwrap_or(0)),
            Self::AllAny => Some(0),
        }
    }
}

impl IpShape {
    fn of(key: &IpKey) -> Self {
        Self {
            source: key.source.is_some(),
            dscp: key.dscp.is_some(),
            protocol: key.protocol.is_some(),
            source_port: key.source_port.is_some(),
            destination_port: key.destination_port.is_some(),
        }
    }

    fn wildcards(self) -> usize {
        [self.source, self.dscp, self.protocol, self.source_port, self.destination_port]
            .into_iter()
            .filter(|looked_at| !looked_at)
            .count()
    }

    fn key(self, fields: &Fields<'_>) -> Option<IpKey> {
        let ip = fields.ip?;
        let (source_port, destination_port) = ip.ports.unzip();
        Some(IpKey {
            destination: ip.destination,
            source: self.source.then_some(ip.source),
            dscp: self.dscp.then_some(ip.dscp),
            protocol: self.protocol.then_some(ip.protocol),
            source_port: if self.source_port { Some(source_port?) } else { None },
            destination_port: if self.destination_port { Some(destination_port?) } else { None },
        })
    }
}

//! All identifications of a port in one lookup.
//!
//! Members that read the same fields form a group with one hash map from the values of these fields to the
//! member. A lookup therefore costs one map access per *kind* of identification in use, independent of the
//! number of streams.

use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use onbeat_wire::{Frame, MacAddress};

use super::Fields;
use super::group::Group;
use super::masks::MaskGroup;
use super::shape::{IpShape, MemberRef, Shape, VlanShape};
use crate::spec::{Identification, LookupKey, PortId, Stream};

/// Two members on one port that match the same frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The port.
    pub port: PortId,
    /// Name of the stream that is first in the configuration.
    pub first: String,
    /// Name of the other stream; the same if one stream has two equal members.
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
/// If a frame matches several members, this order decides:
///
/// 1. IP (type 4), Mask-and-match (5), Active destination and Null (3, 1), Source MAC (2);
/// 2. tagged with a VLAN id, tagged with any, priority, all with a VLAN id, all;
///    for Mask-and-match: more bits in the masks;
/// 3. for IP: more of source address, DSCP, protocol and the two ports given;
/// 4. for equal ones: for IP, the one that gives the first of source address, DSCP, protocol, source port,
///    destination port that the other does not; for Mask-and-match, the greater masks, those over destination,
///    source and MSDU read as one number; of members with "all" and different VLAN ids, which all take frames
///    without one, the lowest VLAN id.
///
/// The order of configuration does not matter: members may be added and removed one by one, and a frame
/// matches the same member as if all had been added at once.
#[derive(Debug, Clone, Default)]
pub struct Table {
    ip: Vec<Group<IpShape>>,
    masks: Vec<MaskGroup>,
    destination: Vec<Group<VlanShape>>,
    source: Vec<Group<VlanShape>>,
}

impl Table {
    /// Creates the table of `port`.
    ///
    /// # Errors
    /// Two members match the same frames.
    pub fn new(streams: &[Stream], port: PortId) -> Result<Self, Conflict> {
        let mut table = Self::default();
        for (index, stream) in streams.iter().enumerate() {
            for (member, parameters) in stream.members.iter().enumerate() {
                if parameters.port != port {
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
        Ok(table)
    }

    /// Assigns the frames that `identification` matches to `at`.
    ///
    /// # Errors
    /// The member that has the same identification; nothing has changed.
    pub fn insert(
        &mut self,
        identification: &Identification,
        at: MemberRef,
    ) -> Result<(), MemberRef> {
        match identification.key() {
            LookupKey::Ip(ip) => {
                group(&mut self.ip, IpShape::of(ip)).insert(IpShape::key_of(ip), ip.vlan.vlan, at)
            }
            LookupKey::Mask(mask) => {
                let place = self.masks.binary_search_by(|group| group.order(mask));
                let place = place.unwrap_or_else(|place| {
                    self.masks.insert(place, MaskGroup::new(mask));
                    place
                });
                self.masks[place].insert(mask, at)
            }
            LookupKey::Destination { address, vlan } => {
                let group = group(&mut self.destination, VlanShape::of(vlan));
                group.insert(VlanShape::key_of(address, vlan), vlan.vlan, at)
            }
            LookupKey::Source { address, vlan } => {
                let group = group(&mut self.source, VlanShape::of(vlan));
                group.insert(VlanShape::key_of(address, vlan), vlan.vlan, at)
            }
        }
    }

    /// Removes the member with this `identification` and returns it.
    pub fn remove(&mut self, identification: &Identification) -> Option<MemberRef> {
        match identification.key() {
            LookupKey::Ip(ip) => {
                let shape = IpShape::of(ip);
                remove(&mut self.ip, shape, |group| group.remove(IpShape::key_of(ip), ip.vlan.vlan))
            }
            LookupKey::Mask(mask) => {
                let place = self.masks.binary_search_by(|group| group.order(mask)).ok()?;
                let member = self.masks[place].remove(mask);
                if self.masks[place].is_empty() {
                    self.masks.remove(place);
                }
                member
            }
            LookupKey::Destination { address, vlan } => {
                remove(&mut self.destination, VlanShape::of(vlan), |group| {
                    group.remove(VlanShape::key_of(address, vlan), vlan.vlan)
                })
            }
            LookupKey::Source { address, vlan } => {
                remove(&mut self.source, VlanShape::of(vlan), |group| {
                    group.remove(VlanShape::key_of(address, vlan), vlan.vlan)
                })
            }
        }
    }

    /// Returns the member that matches a frame with these fields.
    pub fn lookup(&self, fields: &Fields<'_>) -> Option<MemberRef> {
        first_of(&self.ip, fields.destination, fields)
            .or_else(|| self.masks.iter().find_map(|group| group.lookup(fields)))
            .or_else(|| first_of(&self.destination, fields.destination, fields))
            .or_else(|| first_of(&self.source, fields.source, fields))
    }

    /// Reads the fields of a frame that members of the table need: IP headers only if a member reads them.
    pub fn fields<'a>(&self, frame: &Frame<'a>) -> Fields<'a> {
        if self.ip.is_empty() { Fields::without_ip(frame) } else { Fields::from(frame) }
    }

    /// Prefetches the entries that [`Table::lookup`] will read if there are few kinds of identification.
    pub fn prefetch(&self, fields: &Fields<'_>) {
        self.ip.iter().for_each(|group| group.prefetch(fields.destination, fields));
        self.destination.iter().for_each(|group| group.prefetch(fields.destination, fields));
        self.source.iter().for_each(|group| group.prefetch(fields.source, fields));
    }
}

impl LookupKey<'_> {
    /// Returns whether a frame has these fields and values.
    pub(super) fn matches(&self, fields: &Fields<'_>) -> bool {
        match self {
            Self::Destination { address, vlan } => {
                *address == fields.destination && vlan.matches(fields.vid())
            }
            Self::Source { address, vlan } => {
                *address == fields.source && vlan.matches(fields.vid())
            }
            Self::Ip(ip) => ip.matches(fields),
            Self::Mask(mask) => mask.matches(fields),
        }
    }
}

/// Returns the group of a shape; inserts it in its position in the order.
fn group<S: Shape>(groups: &mut Vec<Group<S>>, shape: S) -> &mut Group<S> {
    let place = groups.binary_search_by_key(&shape, Group::shape).unwrap_or_else(|place| {
        groups.insert(place, Group::new(shape));
        place
    });
    &mut groups[place]
}

fn remove<S: Shape>(
    groups: &mut Vec<Group<S>>,
    shape: S,
    from: impl FnOnce(&mut Group<S>) -> Option<MemberRef>,
) -> Option<MemberRef> {
    let place = groups.binary_search_by_key(&shape, Group::shape).ok()?;
    let member = from(&mut groups[place]);
    // An unused kind costs no lookup.
    if groups[place].is_empty() {
        groups.remove(place);
    }
    member
}

fn first_of<S: Shape>(
    groups: &[Group<S>],
    mac: MacAddress,
    fields: &Fields<'_>,
) -> Option<MemberRef> {
    groups.iter().find_map(|group| group.lookup(mac, fields))
}

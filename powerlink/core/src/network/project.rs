//! A managing node configured by another tool: a concise DCF of the objects of the managing node (CDC), in which
//! 0x1F22 has that of each controlled node.
//!
//! Process data are objects of DS 302-4: each range of indices has one type, and its objects in order are the
//! process image of that type.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::NodeId;

use super::build::{count_entries, managing_identity};
use crate::mn::{self, ManagingNode, MappingError};
use crate::od::profile::{self, assignment, startup};
use crate::od::{Abort, Access, AddError, DataType, Dictionary, Object, ObjectId, PdoMapping, id};
use crate::pdo::MappingEntry;

/// Elements of an array of DS 302-4.
const ELEMENTS: usize = 254;
/// First index of values that the managing node sends.
const SENT: u16 = 0xa000;
/// First index of values that the managing node receives, and the one after the last.
const RECEIVED: u16 = 0xa480;
const END: u16 = 0xa900;
/// Indices of a range of one type.
const RANGE: u16 = 0x40;

/// The types of process data in DS 302-4, one for each range of 64 indices from A000 (sent) and A480 (received) on.
pub const PROCESS_TYPES: [DataType; 18] = {
    use DataType::{Boolean, Integer, Real, Unsigned};
    [
        Integer(1),
        Unsigned(1),
        Boolean,
        Integer(2),
        Unsigned(2),
        Integer(3),
        Unsigned(3),
        Integer(4),
        Unsigned(4),
        Real(4),
        Integer(5),
        Unsigned(5),
        Integer(6),
        Unsigned(6),
        Integer(7),
        Unsigned(7),
        Integer(8),
        Unsigned(8),
    ]
};

/// The reason why a project cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectError {
    /// The octets end within the count or within this entry, counted from 1, which starts at this octet.
    Truncated(u32, usize),
    /// This number of octets follow the last entry.
    Trailing(usize),
    /// An entry, counted from 1, has a value that its object refuses.
    Value(u32, ObjectId, Abort),
    /// The configuration of a node (0x1F22) is invalid.
    Node(NodeId, Box<ProjectError>),
    /// No controlled node is assigned (0x1F81).
    NoNodes,
    /// A mapped object conflicts with another one.
    Mapped(AddError),
    /// A mapping cannot be used.
    Mapping(MappingError),
}

impl fmt::Display for ProjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProjectError::Truncated(entry, at) => {
                write!(f, "truncated in entry {entry}, which starts at octet {at}")
            }
            ProjectError::Trailing(octets) => write!(f, "{octets} octets after the last entry"),
            ProjectError::Value(entry, object, abort) => {
                write!(f, "entry {entry}: value of object {object} is invalid: {abort}")
            }
            ProjectError::Node(node, error) => write!(f, "configuration of node {node}: {error}"),
            ProjectError::NoNodes => f.write_str("no controlled node is assigned (1F81)"),
            ProjectError::Mapped(error) => write!(f, "process data: {error}"),
            ProjectError::Mapping(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ProjectError {}

/// A value of the process image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessValue {
    /// The node that sends or receives it.
    pub node: NodeId,
    /// Its object in the managing node.
    pub object: ObjectId,
    /// Its type.
    pub data_type: DataType,
    /// The managing node sends it; otherwise it receives it.
    pub is_sent: bool,
    /// Its first bit in the process image of its direction, if DS 302-4 defines it.
    pub bit: Option<u32>,
}

/// A project of another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    objects: Dictionary,
    /// Values of process data, by mapping.
    pub values: Vec<ProcessValue>,
    /// Objects that a managing node of this crate does not have, or that peers only read: their values are ignored.
    pub ignored: BTreeSet<ObjectId>,
}

impl Project {
    /// Reads a concise DCF.
    ///
    /// # Errors
    /// It is not one, the value of an object is invalid, no node is assigned, or a mapping cannot be used.
    pub fn read(octets: &[u8]) -> Result<Self, ProjectError> {
        let entries = entries(octets)?;
        let identity = managing_identity();
        let od = profile::managing_node(&identity, 10_000, &[]);
        let mut od = od.map_err(ProjectError::Mapped)?;
        add_channels(&mut od, &entries).map_err(ProjectError::Mapped)?;
        let mut missing = Vec::new();
        for (number, (object, value)) in (1..).zip(&entries) {
            if object.index == profile::CONCISE_DCF {
                let nested = self::entries(value);
                nested.map_err(|error| ProjectError::Node(NodeId(object.sub), error.into()))?;
            }
            match od.write(*object, value) {
                Ok(()) => {}
                Err(Abort::NO_OBJECT | Abort::NO_SUB_INDEX | Abort::READ_ONLY) => {
                    missing.push((number, *object, *value));
                }
                Err(abort) => return Err(ProjectError::Value(number, *object, abort)),
            }
        }
        let values = add_values(&mut od)?;
        count_entries(&mut od).map_err(ProjectError::Mapped)?;
        let mut ignored = BTreeSet::new();
        for (number, object, value) in missing {
            // Initial values of process data.
            match od.write(object, value) {
                Ok(()) => {}
                Err(Abort::NO_OBJECT | Abort::NO_SUB_INDEX | Abort::READ_ONLY) => {
                    ignored.insert(object);
                }
                Err(abort) => return Err(ProjectError::Value(number, object, abort)),
            }
        }
        let project = Project { objects: od, values, ignored };
        if project.nodes().next().is_none() {
            return Err(ProjectError::NoNodes);
        }
        project.managing(MacAddress::default()).map_err(ProjectError::Mapping)?;
        Ok(project)
    }

    /// The assigned controlled nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        const VALID: u32 = assignment::EXISTS | assignment::IS_CONTROLLED | assignment::VALID;
        let assigned = |node: &NodeId| {
            let assigned = self.objects.number(id(profile::NODE_ASSIGNMENT, node.0)) as u32;
            node.is_controlled() && assigned & VALID == VALID
        };
        (1..=u8::MAX).map(NodeId).filter(assigned)
    }

    /// The objects of the managing node.
    pub fn objects(&self) -> &Dictionary {
        &self.objects
    }

    /// Whether the network has redundant managing nodes (0x1F80, bit 14), which this crate does not support.
    pub fn is_redundant(&self) -> bool {
        self.objects.number(profile::STARTUP) as u32 & startup::REDUNDANCY != 0
    }

    /// Builds the managing node; `mac` is its source address.
    ///
    /// # Errors
    /// A mapping cannot be used.
    pub fn managing(&self, mac: MacAddress) -> Result<ManagingNode, MappingError> {
        ManagingNode::new(mn::Config { mac, objects: self.objects.clone() })
    }
}

/// The entries of a concise DCF, which are all of its octets.
fn entries(octets: &[u8]) -> Result<Vec<(ObjectId, &[u8])>, ProjectError> {
    let truncated = |entry, rest: &[u8]| ProjectError::Truncated(entry, octets.len() - rest.len());
    let (count, mut rest) = octets.split_first_chunk().ok_or_else(|| truncated(0, octets))?;
    // The count may be any number: no memory is reserved for it.
    let mut entries = Vec::new();
    for entry in 1..=u32::from_le_bytes(*count) {
        let (found, behind) = mn::split_dcf_entry(rest).ok_or_else(|| truncated(entry, rest))?;
        entries.push(found);
        rest = behind;
    }
    if rest.is_empty() { Ok(entries) } else { Err(ProjectError::Trailing(rest.len())) }
}

/// Adds the PDOs that a project configures.
fn add_channels(od: &mut Dictionary, entries: &[(ObjectId, &[u8])]) -> Result<(), AddError> {
    for (parameters, mapping) in
        [(profile::RPDO, profile::RPDO_MAPPING), (profile::TPDO, profile::TPDO_MAPPING)]
    {
        let configured = entries.iter().map(|(object, _)| object.index);
        let channels = configured.filter_map(|index| match index & 0xff00 {
            page if page == parameters || page == mapping => Some(index & 0xff),
            _ => None,
        });
        for channel in 0..channels.max().map_or(0, |last| last + 1) {
            profile::add_pdo(od, parameters + channel, mapping + channel)?;
        }
    }
    Ok(())
}

/// Adds the mapped objects; returns them in the order of their mappings.
fn add_values(od: &mut Dictionary) -> Result<Vec<ProcessValue>, ProjectError> {
    let mut values = Vec::new();
    for (parameters, mapping, mappable) in [
        (profile::RPDO, profile::RPDO_MAPPING, PdoMapping::Receive),
        (profile::TPDO, profile::TPDO_MAPPING, PdoMapping::Transmit),
    ] {
        for channel in 0..=0xff {
            let node = NodeId(od.number(id(parameters + channel, 1)) as u8);
            for sub in 1..=od.number(id(mapping + channel, 0)) as u8 {
                let entry = MappingEntry::from_number(od.number(id(mapping + channel, sub)));
                let object = entry.object;
                let (data_type, bit) = process_type(entry);
                if object.index < 0x2000 || od.object(object).is_ok() {
                    // An object of communication, or one that is mapped twice.
                    continue;
                }
                let default = alloc::vec![0; data_type.fixed_len().unwrap_or_default()];
                let described = Object::new(data_type, Access::ReadWrite, default);
                od.add(object, described.mapped(mappable)).map_err(ProjectError::Mapped)?;
                let is_sent = mappable == PdoMapping::Transmit;
                values.push(ProcessValue { node, object, data_type, is_sent, bit });
            }
        }
    }
    Ok(values)
}

/// The type of a mapped object, and its first bit in the process image. Beyond DS 302-4 its length is its type.
fn process_type(entry: MappingEntry) -> (DataType, Option<u32>) {
    let ObjectId { index, sub } = entry.object;
    let start = match index {
        SENT..RECEIVED => Some(SENT),
        RECEIVED..END => Some(RECEIVED),
        _ => None,
    };
    let range = start.map(|start| index - start);
    let data_type = range.and_then(|range| PROCESS_TYPES.get(usize::from(range / RANGE)).copied());
    match (data_type, range) {
        (Some(data_type), Some(range)) if sub != 0 => {
            let place = usize::from(range % RANGE) * ELEMENTS + usize::from(sub) - 1;
            let bits = u32::from(data_type.bits().unwrap_or_default());
            (data_type, Some(place as u32 * bits))
        }
        _ => match entry.len {
            1 => (DataType::Boolean, None),
            len => (DataType::Unsigned((len / 8).clamp(1, 8) as u8), None),
        },
    }
}

#[cfg(test)]
mod tests;

//! Stream identification functions (clause 6, managed by 9.1): all definitions that depend on the type.

mod error;
mod parameters;

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

use onbeat_wire::MacAddress;

pub use self::error::IdentificationError;
pub use self::parameters::{IpMatch, MaskAndMatch, NextProtocol, TagMatch, VlanMatch};
use super::rewrite::Rewrite;

/// A stream identification function with its parameters (clause 6, managed by 9.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identification {
    /// Type 1, Null Stream identification (6.4).
    Null {
        /// Destination address to match.
        destination: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Type 2, Source MAC and VLAN Stream identification (6.5).
    SourceMacVlan {
        /// Source address to match.
        source: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Type 3, Active Destination MAC and VLAN Stream identification (6.6), at the input: matches the form of
    /// the lower layer (`down`) and offers `up` to the node.
    ActiveDestination {
        /// Destination address on the wire.
        destination: MacAddress,
        /// VLAN on the wire.
        vlan: VlanMatch,
        /// The edits of the frame at the input.
        up: Rewrite,
    },
    /// Type 4, IP Stream identification (6.7).
    Ip(IpMatch),
    /// Type 5, Mask-and-match Stream identification (6.8, 802.1CBdb).
    MaskAndMatch(MaskAndMatch),
}

/// Type of an identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentificationKind {
    /// Null Stream identification.
    Null,
    /// Source MAC and VLAN Stream identification.
    Source,
    /// Active Destination MAC and VLAN Stream identification.
    Active,
    /// IP Stream identification.
    Ip,
    /// Mask-and-match Stream identification.
    Mask,
}

impl IdentificationKind {
    /// All types.
    pub const ALL: [Self; 5] = [Self::Null, Self::Source, Self::Active, Self::Ip, Self::Mask];

    /// Returns `type` as in configuration files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Source => "source",
            Self::Active => "active",
            Self::Ip => "ip",
            Self::Mask => "mask",
        }
    }
}

/// Fields of a frame, with their values, that a data plane looks up.
#[derive(Debug, Clone, Copy)]
pub enum LookupKey<'a> {
    /// Destination address and VLAN.
    Destination {
        /// Destination address to match.
        address: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Source address and VLAN.
    Source {
        /// Source address to match.
        address: MacAddress,
        /// VLAN to match.
        vlan: VlanMatch,
    },
    /// Fields of IP, with destination address and VLAN.
    Ip(&'a IpMatch),
    /// Masked octets.
    Mask(&'a MaskAndMatch),
}

/// Parameters that distinguish streams of the same type; `None`: the type does not have it, or any value
/// matches.
#[derive(Debug, Default)]
pub struct Parameters<'a> {
    /// Destination address.
    pub destination: Option<&'a mut MacAddress>,
    /// Source address.
    pub source: Option<&'a mut MacAddress>,
    /// VLAN id.
    pub vlan: Option<&'a mut u16>,
    /// IP destination address.
    pub ip_destination: Option<&'a mut IpAddr>,
    /// IP source address.
    pub ip_source: Option<&'a mut IpAddr>,
    /// Source port.
    pub source_port: Option<&'a mut u16>,
    /// Destination port.
    pub destination_port: Option<&'a mut u16>,
    /// Edit of the frame at the input.
    pub rewrite: Option<&'a mut Rewrite>,
}

impl Identification {
    /// Returns the type.
    #[must_use]
    pub fn kind(&self) -> IdentificationKind {
        match self {
            Self::Null { .. } => IdentificationKind::Null,
            Self::SourceMacVlan { .. } => IdentificationKind::Source,
            Self::ActiveDestination { .. } => IdentificationKind::Active,
            Self::Ip(_) => IdentificationKind::Ip,
            Self::MaskAndMatch(_) => IdentificationKind::Mask,
        }
    }

    /// Returns the fields and values of matching frames.
    #[must_use]
    pub fn key(&self) -> LookupKey<'_> {
        match self {
            Self::Null { destination: address, vlan }
            | Self::ActiveDestination { destination: address, vlan, .. } => {
                LookupKey::Destination { address: *address, vlan: *vlan }
            }
            Self::SourceMacVlan { source, vlan } => {
                LookupKey::Source { address: *source, vlan: *vlan }
            }
            Self::Ip(ip) => LookupKey::Ip(ip),
            Self::MaskAndMatch(mask) => LookupKey::Mask(mask),
        }
    }

    /// Returns the edit of a frame at the input (6.6); `None`: unchanged.
    #[must_use]
    pub fn rewrite(&self) -> Option<Rewrite> {
        match self {
            Self::ActiveDestination { up, .. } => Some(*up).filter(|up| *up != Rewrite::default()),
            _ => None,
        }
    }

    /// Returns the parameters for modification.
    pub fn parameters_mut(&mut self) -> Parameters<'_> {
        match self {
            Self::Null { destination, vlan } => Parameters {
                destination: Some(destination),
                vlan: vlan.id_mut(),
                ..Parameters::default()
            },
            Self::SourceMacVlan { source, vlan } => {
                Parameters { source: Some(source), vlan: vlan.id_mut(), ..Parameters::default() }
            }
            Self::ActiveDestination { destination, vlan, up } => Parameters {
                destination: Some(destination),
                vlan: vlan.id_mut(),
                rewrite: Some(up),
                ..Parameters::default()
            },
            Self::Ip(ip) => {
                let (source_port, destination_port) = ip.next_protocol.ports_mut();
                Parameters {
                    destination: Some(&mut ip.destination),
                    vlan: ip.vlan.id_mut(),
                    ip_destination: Some(&mut ip.ip_destination),
                    ip_source: ip.ip_source.as_mut(),
                    source_port,
                    destination_port,
                    ..Parameters::default()
                }
            }
            Self::MaskAndMatch(_) => Parameters::default(),
        }
    }

    /// Returns the text that is hashed into the owner of a member's pinned state. Its octets never change:
    /// after an upgrade, they identify the sequence state.
    #[must_use]
    pub fn owner_text(&self) -> String {
        match self {
            Self::Null { destination: MacAddress(octets), vlan } => {
                let vlan = vlan.owner_text();
                format!("Null {{ destination: MacAddress({octets:?}), vlan: {vlan} }}")
            }
            Self::SourceMacVlan { source: MacAddress(octets), vlan } => {
                let vlan = vlan.owner_text();
                format!("SourceMacVlan {{ source: MacAddress({octets:?}), vlan: {vlan} }}")
            }
            Self::ActiveDestination { destination: MacAddress(octets), vlan, up } => {
                let (vlan, up) = (vlan.owner_text(), up.owner_text());
                format!(
                    "ActiveDestination {{ destination: MacAddress({octets:?}), vlan: {vlan}, \
                     up: {up} }}"
                )
            }
            Self::Ip(ip) => format!("Ip({})", ip.owner_text()),
            Self::MaskAndMatch(mask) => format!("MaskAndMatch({})", mask.owner_text()),
        }
    }

    /// Checks that frames can match.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn validate(&self) -> Result<(), IdentificationError> {
        match self {
            Self::Null { vlan, .. } => vlan.validate(),
            Self::SourceMacVlan { source, vlan } => {
                if source.0[0] & 1 != 0 {
                    return Err(IdentificationError::GroupSource(*source));
                }
                vlan.validate()
            }
            Self::ActiveDestination { vlan, up, .. } => {
                vlan.validate()?;
                up.validate().map_err(IdentificationError::Up)
            }
            Self::Ip(ip) => ip.validate(),
            Self::MaskAndMatch(mask) => mask.validate(),
        }
    }
}

//! Errors in an identification; each text names the field, its value and the remedy.

use core::error::Error;
use core::fmt;
use core::net::IpAddr;

use onbeat_wire::MacAddress;

use crate::spec::rewrite::RewriteError;

/// A violated rule of an identification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentificationError {
    /// `vlan` is out of range.
    VlanId(u16),
    /// `vlan` together with `tagged` = priority.
    PriorityWithVlan(u16),
    /// `source` is a group address.
    GroupSource(MacAddress),
    /// `dscp` is out of range.
    Dscp(u8),
    /// `ip_source` and `ip_destination` have different IP versions.
    IpFamilies {
        /// `ip_source`.
        source: IpAddr,
        /// `ip_destination`.
        destination: IpAddr,
    },
    /// `msdu_mask` and `msdu_match` differ in length.
    MsduLengths {
        /// Octets of `msdu_mask`.
        mask: usize,
        /// Octets of `msdu_match`.
        value: usize,
    },
    /// Invalid length of `msdu_mask`, in octets.
    MsduLength(usize),
    /// A match has a bit that its mask lacks.
    MatchOutsideMask {
        /// `destination`, `source` or `msdu`.
        field: &'static str,
        /// The octet, from 0.
        octet: usize,
    },
    /// In `up`.
    Up(RewriteError),
}

impl Error for IdentificationError {}

impl fmt::Display for IdentificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VlanId(vlan) => write!(f, "vlan: {vlan}; use 1 to 4094, or 0 for any"),
            Self::PriorityWithVlan(vlan) => write!(
                f,
                "vlan: {vlan} with tagged = priority, but such frames have no VLAN id; use 0, or \
                 tagged = tagged"
            ),
            Self::GroupSource(source) => write!(
                f,
                "source: {source} is a group address, which is never a source; use the talker's \
                 own address"
            ),
            Self::Dscp(dscp) => write!(f, "dscp: {dscp}; use 0 to 63, or omit it for any"),
            Self::IpFamilies { source, destination } => write!(
                f,
                "ip_source: {source} with ip_destination {destination}; use both as IPv4 or both \
                 as IPv6"
            ),
            Self::MsduLengths { mask, value } => {
                write!(
                    f,
                    "msdu_match: {value} octets, but msdu_mask has {mask}; use both the same length"
                )
            }
            Self::MsduLength(length) => {
                write!(f, "msdu_mask: {length} octets; use 2 to 1984, or omit it")
            }
            Self::MatchOutsideMask { field, octet } => write!(
                f,
                "{field}_match: octet {octet} has a bit that {field}_mask lacks, so that no frame \
                 matches; clear it or set it in the mask"
            ),
            Self::Up(error) => write!(f, "up.{error}"),
        }
    }
}

//! SoA: the start of the asynchronous phase (EPSG DS 301, 4.6.1.1.5).

use core::fmt;

use super::octets::{bit, bits};
use super::{NmtState, NodeId};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const STATE: usize = 3;
    pub(super) const FLAGS: usize = 4;
    pub(super) const SERVICE: usize = 6;
    pub(super) const TARGET: usize = 7;
    pub(super) const VERSION: usize = 8;
    pub(super) const REDUNDANCY: usize = 9;
    pub(super) const END: usize = 10;
}

/// Octets of a SoA; the reserved octets after them are padding.
pub(super) const LEN: usize = field::END;

const WHAT: &str = "POWERLINK SoA";

/// The service for which the managing node grants the asynchronous phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestedService(pub u8);

impl RequestedService {
    /// No node may send.
    pub const NO_SERVICE: RequestedService = RequestedService(0);
    /// The target identifies itself.
    pub const IDENT_REQUEST: RequestedService = RequestedService(1);
    /// The target reports its status.
    pub const STATUS_REQUEST: RequestedService = RequestedService(2);
    /// The target sends its NMT request; the managing node its NMT command.
    pub const NMT_REQUEST_INVITE: RequestedService = RequestedService(3);
    /// The target reports its response delay (EPSG DS 302-C).
    pub const SYNC_REQUEST: RequestedService = RequestedService(6);
    /// The target sends any frame.
    pub const UNSPECIFIED_INVITE: RequestedService = RequestedService(0xff);
}

impl fmt::Display for RequestedService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            RequestedService::NO_SERVICE => "NoService",
            RequestedService::IDENT_REQUEST => "IdentRequest",
            RequestedService::STATUS_REQUEST => "StatusRequest",
            RequestedService::NMT_REQUEST_INVITE => "NMTRequestInvite",
            RequestedService::SYNC_REQUEST => "SyncRequest",
            RequestedService::UNSPECIFIED_INVITE => "UnspecifiedInvite",
            RequestedService(other) => return write!(f, "service {other}"),
        })
    }
}

/// A version of the communication profile: 0x20 is 2.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EplVersion(pub u8);

impl EplVersion {
    /// The version of EPSG DS 301.
    pub const V2: EplVersion = EplVersion(0x20);
}

impl fmt::Display for EplVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 4, self.0 & 0xf)
    }
}

/// The start of the asynchronous phase, with the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Soa {
    /// State of the managing node.
    pub state: NmtState,
    /// EA: the target's EN as last received by the managing node.
    pub exception_acknowledge: bool,
    /// ER: the target shall restart error signaling.
    pub exception_reset: bool,
    /// The granted service.
    pub service: RequestedService,
    /// The node that receives the grant.
    pub target: NodeId,
    /// The network's version of POWERLINK.
    pub version: EplVersion,
    /// Flags of redundancy (EPSG DS 302-A).
    pub redundancy: u8,
}

impl Soa {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, TruncationError> {
        let (message, _) = split::<LEN>(WHAT, octets)?;
        Ok(Soa {
            state: NmtState(message[field::STATE]),
            exception_acknowledge: bit(message[field::FLAGS], 2),
            exception_reset: bit(message[field::FLAGS], 1),
            service: RequestedService(message[field::SERVICE]),
            target: NodeId(message[field::TARGET]),
            version: EplVersion(message[field::VERSION]),
            redundancy: message[field::REDUNDANCY],
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let message = room::<LEN>(WHAT, buffer)?;
        message[field::STATE] = self.state.0;
        message[field::FLAGS] = bits([(2, self.exception_acknowledge), (1, self.exception_reset)]);
        message[5] = 0;
        message[field::SERVICE] = self.service.0;
        message[field::TARGET] = self.target.0;
        message[field::VERSION] = self.version.0;
        message[field::REDUNDANCY] = self.redundancy;
        Ok(())
    }
}

impl fmt::Display for Soa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SoA {} {} -> {}", self.state, self.service, self.target)?;
        f.write_str(if self.exception_acknowledge { " EA" } else { "" })?;
        f.write_str(if self.exception_reset { " ER" } else { "" })
    }
}

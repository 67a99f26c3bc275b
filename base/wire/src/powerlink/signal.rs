//! Status in every response of a node: link status and queued frames.

use core::fmt;

use super::octets::{bit, bits};
use crate::EmitError;

/// Priority of a queued asynchronous frame; 7 is the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

impl Priority {
    /// The lowest priority; also that of a node with an empty queue.
    pub const LOWEST: Priority = Priority(0);
    /// Generic frames, including SDO.
    pub const GENERIC: Priority = Priority(3);
    /// NMT requests.
    pub const NMT_REQUEST: Priority = Priority(7);
}

/// A node's request to send: PR and RS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// PR: the highest priority with a queued frame, `0..=7`.
    pub priority: Priority,
    /// RS: number of queued frames of that priority, `0..=7`; 7 means 7 or more.
    pub pending: u8,
}

impl SendRequest {
    /// An empty queue.
    pub const NONE: SendRequest = SendRequest { priority: Priority::LOWEST, pending: 0 };
    /// Maximum of priority and number.
    pub const MAX: u8 = 7;

    pub(super) const fn from_octet(octet: u8) -> Self {
        SendRequest { priority: Priority(octet >> 3 & 7), pending: octet & 7 }
    }

    pub(super) fn octet(self) -> Result<u8, EmitError> {
        EmitError::check("POWERLINK PR", self.priority.0.into(), Self::MAX.into())?;
        EmitError::check("POWERLINK RS", self.pending.into(), Self::MAX.into())?;
        Ok(self.priority.0 << 3 | self.pending)
    }
}

impl fmt::Display for SendRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PR {} RS {}", self.priority.0, self.pending)
    }
}

/// Status of the links of a node with two ports: FLS and SLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Links {
    /// FLS, of the first port.
    pub first: bool,
    /// SLS, of the second.
    pub second: bool,
}

impl Links {
    pub(super) fn from_octet(octet: u8) -> Self {
        Links { first: bit(octet, 7), second: bit(octet, 6) }
    }

    pub(super) fn octet(self) -> u8 {
        bits([(7, self.first), (6, self.second)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_octet_and_back() {
        for octet in 0..=255u8 {
            let (request, links) = (SendRequest::from_octet(octet), Links::from_octet(octet));
            assert_eq!(links.octet() | request.octet().unwrap(), octet);
        }
    }

    #[test]
    fn does_not_fit() {
        let request = |priority, pending| SendRequest { priority: Priority(priority), pending };
        assert!(request(8, 0).octet().is_err());
        assert!(request(0, 8).octet().is_err());
        assert_eq!(request(7, 7).octet(), Ok(0x3f));
        assert_eq!(std::format!("{}", request(3, 1)), "PR 3 RS 1");
    }
}

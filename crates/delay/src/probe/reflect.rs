//! The session reflector (RFC 8762 4.3), without state: its numbers are the sender's.

use onbeat_wire::stamp::{ErrorEstimate, Reflected, Test, TestView, Timestamp};
use onbeat_wire::{EmitError, Truncated};

/// What a reflector knows of a test packet and of itself. Times are in nanoseconds since 1970, of
/// the clock that the error estimate's format wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// When the test packet was received.
    pub received_ns: i64,
    /// TTL or hop limit it was received with; 255 where that is not known.
    pub ttl: u8,
    /// When the answer is sent: as late as the caller can tell.
    pub sent_ns: i64,
    /// How good these times are, and the form of their stamps.
    pub error_estimate: ErrorEstimate,
}

/// Why a datagram has no answer. It is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// It is shorter than a STAMP packet.
    #[error(transparent)]
    NoTest(#[from] Truncated),
    /// The answer's error estimate does not fit its field.
    #[error(transparent)]
    Estimate(#[from] EmitError),
}

/// Turns a test packet around in place, into the answer of the same length: what follows the packet
/// stays.
pub fn reflect(datagram: &mut [u8], answer: &Answer) -> Result<(), Unanswered> {
    let test = Test::parse(&TestView::new_checked(datagram)?);
    let format = answer.error_estimate.format;
    let reflected = Reflected {
        sequence: test.sequence,
        timestamp: Timestamp::new(format, answer.sent_ns),
        error_estimate: answer.error_estimate,
        received: Timestamp::new(format, answer.received_ns),
        test,
        test_ttl: answer.ttl,
    };
    reflected.emit(datagram)?;
    Ok(())
}

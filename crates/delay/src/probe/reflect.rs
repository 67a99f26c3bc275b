//! The session reflector (RFC 8762 4.3): test packets become answers.

use onbeat_wire::stamp::{
    ErrorEstimate, PACKET_LEN, Reflected, TWAMP_REFLECTED_LEN, TWAMP_TEST_LEN, Test, TestView,
    Timestamp,
};
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
    /// It is shorter than a test packet of TWAMP.
    #[error(transparent)]
    NoTest(#[from] Truncated),
    /// The answer's error estimate does not fit its field.
    #[error(transparent)]
    Estimate(#[from] EmitError),
}

/// Turns a test packet of `len` octets at the start of `room` around in place, into the answer, and
/// says how long that is: as long as the test packet, what follows its fields as it was. `room` has at
/// least the octets of a STAMP packet.
///
/// Senders of TWAMP Light may send less than that (RFC 8762 4.6, RFC 5357 4.2.1): what they lack is
/// zeros, and the answer has what TWAMP's has at least.
///
/// `number` is asked for the reflector's own number of the packet, by the packet's session (0: none);
/// `None` from a reflector without state, whose numbers are the sender's.
pub fn reflect(
    room: &mut [u8],
    len: usize,
    answer: &Answer,
    number: impl FnOnce(u16) -> Option<u32>,
) -> Result<usize, Unanswered> {
    let received = room.get(..len).unwrap_or_default();
    if len < TWAMP_TEST_LEN {
        // The codec's own words.
        TestView::new_checked(received)?;
    }
    let mut fields = [0; PACKET_LEN];
    // Of a shorter packet the fields, and not the padding behind them.
    let known = if len < PACKET_LEN { TWAMP_TEST_LEN } else { PACKET_LEN };
    fields[..known].copy_from_slice(&received[..known]);
    let test = Test::parse(&TestView::new_checked(&fields)?);
    let format = answer.error_estimate.format;
    let reflected = Reflected {
        sequence: number(test.session).unwrap_or(test.sequence),
        timestamp: Timestamp::new(format, answer.sent_ns),
        error_estimate: answer.error_estimate,
        received: Timestamp::new(format, answer.received_ns),
        test,
        test_ttl: answer.ttl,
    };
    reflected.emit(room)?;
    Ok(len.max(TWAMP_REFLECTED_LEN))
}

//! The session reflector (RFC 8762 4.3): test packets become answers.

use onbeat_wire::stamp::{
    AuthenticatedView, ErrorEstimate, PACKET_LEN, Reflected, ReflectedView, TWAMP_REFLECTED_LEN,
    TWAMP_TEST_LEN, Test, TestView, Timestamp,
};
use onbeat_wire::{EmitError, Truncated};

use super::Key;

/// What a reflector knows of a test packet and of itself. Times are in nanoseconds since 1970, of
/// the clock that the error estimate's format wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyFields {
    /// The reflector's own number of the packet, by its session; `None` from a reflector without
    /// state, whose numbers are the sender's.
    pub sequence: Option<u32>,
    /// When the test packet was received.
    pub received_ns: i64,
    /// TTL or hop limit it was received with; 255 where that is not known.
    pub ttl: u8,
    /// When the answer is sent: as late as the caller can tell.
    pub sent_ns: i64,
    /// How good these times are, and the form of their stamps.
    pub error_estimate: ErrorEstimate,
}

/// Why a datagram is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RejectedDatagram {
    /// It is shorter than a test packet: of TWAMP, or of authenticated STAMP where there is a key.
    #[error(transparent)]
    NotATestPacket(#[from] Truncated),
    /// Whoever made it has another key, or none, or it was changed on its way.
    #[error("the HMAC of the test packet is wrong")]
    Hmac,
}

/// The test packet that a datagram is. With a key that is what verifies by it, and nothing else.
///
/// Senders of TWAMP Light may send less than a STAMP packet (RFC 8762 4.6, RFC 5357 4.2.1): what they
/// lack is zeros.
///
/// # Errors
/// [`RejectedDatagram`].
pub fn admit(datagram: &[u8], key: Option<&Key>) -> Result<Test, RejectedDatagram> {
    if let Some(key) = key {
        let packet = AuthenticatedView::new_checked(datagram)?;
        return key.verifies(&packet).then(|| packet.test()).ok_or(RejectedDatagram::Hmac);
    }
    let len = datagram.len();
    if len < TWAMP_TEST_LEN {
        // The codec's own words.
        TestView::new_checked(datagram)?;
    }
    let mut fields = [0; PACKET_LEN];
    // Of a shorter packet the fields, and not the padding behind them.
    let known = if len < PACKET_LEN { TWAMP_TEST_LEN } else { PACKET_LEN };
    fields[..known].copy_from_slice(&datagram[..known]);
    Ok(Test::parse(&TestView::new_checked(&fields)?))
}

/// How far the clock of another reflector may differ: as long as a stamp that a reflector made can be on its
/// way, and so short that no padding is taken for one.
const RECENT_NS: u64 = 60_000_000_000;

/// Whether a datagram, which [`admit`] took by the same key, is a reflected packet: two reflectors that
/// answer each other, or an echo service, would do so for ever. It quotes a time stamp that this reflector
/// made, or has that of its reception by another one, where a test packet has zeros or padding.
#[must_use]
pub fn is_reflected(datagram: &[u8], key: Option<&Key>, now_ns: i64) -> bool {
    let reflected = if key.is_some() {
        AuthenticatedView::new_checked(datagram).map(|packet| packet.reflected())
    } else {
        let mut fields = [0; PACKET_LEN];
        let len = datagram.len().min(PACKET_LEN);
        fields[..len].copy_from_slice(&datagram[..len]);
        ReflectedView::new_checked(&fields).map(|packet| Reflected::parse(&packet))
    };
    let is_recent = |stamp: Timestamp, format| {
        let time_ns = (stamp.0 != [0; 8]).then(|| stamp.time_ns(format, now_ns)).flatten();
        time_ns.is_some_and(|time_ns| time_ns.abs_diff(now_ns) <= RECENT_NS)
    };
    reflected.is_ok_and(|packet| {
        // An authenticated test packet has zeros in the place of its time stamp, which stands in that of the
        // reception.
        packet.timestamp.0 != [0; 8] && is_recent(packet.received, packet.error_estimate.format)
            || is_recent(packet.test.timestamp, packet.test.error_estimate.format)
    })
}

/// Turns the datagram of `len` octets at the start of `room`, which [`admit`] took for `test` by the same
/// key, around in place, into the answer, and says how long that is: as long as the datagram, what follows
/// its fields as it was; to a shorter packet of TWAMP what TWAMP's answer has at least.
///
/// # Errors
/// The answer's error estimate does not fit its field, or `room` has less than the octets of an answer.
/// It is left as it is.
pub fn reflect(
    room: &mut [u8],
    len: usize,
    test: &Test,
    answer: &ReplyFields,
    key: Option<&Key>,
) -> Result<usize, EmitError> {
    let format = answer.error_estimate.format;
    let reflected = Reflected {
        sequence: answer.sequence.unwrap_or(test.sequence),
        timestamp: Timestamp::new(format, answer.sent_ns),
        error_estimate: answer.error_estimate,
        received: Timestamp::new(format, answer.received_ns),
        test: *test,
        test_ttl: answer.ttl,
    };
    match key {
        Some(key) => reflected.emit_authenticated(room, |covered| key.hmac(covered))?,
        None => reflected.emit(room)?,
    };
    Ok(len.max(TWAMP_REFLECTED_LEN))
}

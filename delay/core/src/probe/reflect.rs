//! The session reflector (RFC 8762 4.3): turns test packets into replies.

use onbeat_wire::stamp::{
    AuthenticatedView, ErrorEstimate, PACKET_LEN, Reflected, ReflectedView, TWAMP_REFLECTED_LEN,
    TWAMP_TEST_LEN, Test, TestView, Timestamp,
};
use onbeat_wire::{EmitError, TruncationError};

use super::Key;

/// The fields of a reply that the reflector sets. Times are in nanoseconds since 1970, of the clock that the error
/// estimate's format requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyFields {
    /// The reflector's own number of the packet in its session; `None` for a stateless reflector, which copies the
    /// sender's number.
    pub sequence: Option<u32>,
    /// The time at which the test packet was received.
    pub received_ns: i64,
    /// TTL or hop limit of the received packet; 255 if unknown.
    pub ttl: u8,
    /// The transmission time of the reply, taken as late as possible.
    pub sent_ns: i64,
    /// The error of these times, and the format of their stamps.
    pub error_estimate: ErrorEstimate,
}

/// The reason why a datagram is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RejectedDatagram {
    /// It is shorter than a test packet: of TWAMP, or of authenticated STAMP with a key.
    #[error(transparent)]
    NotATestPacket(#[from] TruncationError),
    /// The sender has another key or none, or the packet was changed on the path.
    #[error("the HMAC of the test packet is wrong")]
    Hmac,
}

/// Decodes a datagram as a test packet. With a key, only authenticated packets are accepted.
///
/// Senders of TWAMP Light may send less than a STAMP packet (RFC 8762 4.6, RFC 5357 4.2.1): missing fields are
/// zero.
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
        // The error of the codec.
        TestView::new_checked(datagram)?;
    }
    let mut fields = [0; PACKET_LEN];
    // Only the fields of a shorter packet, not the padding after them.
    let known = if len < PACKET_LEN { TWAMP_TEST_LEN } else { PACKET_LEN };
    fields[..known].copy_from_slice(&datagram[..known]);
    Ok(Test::parse(&TestView::new_checked(&fields)?))
}

/// Maximum clock difference of another reflector: as long as a stamp can be in transit, and so short that no
/// padding is accepted as a stamp.
const RECENT_NS: u64 = 60_000_000_000;

/// Returns true if a datagram that [`admit`] accepted with the same key is a reflected packet: two reflectors, or
/// an echo service, would answer each other endlessly. It quotes a time stamp of this reflector, or has the
/// reception time of another one where a test packet has zeros or padding.
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
        // An authenticated test packet has zeros in the field of its time stamp, which is in the field of the
        // reception time.
        packet.timestamp.0 != [0; 8] && is_recent(packet.received, packet.error_estimate.format)
            || is_recent(packet.test.timestamp, packet.test.error_estimate.format)
    })
}

/// Converts the datagram of `len` octets at the start of `room`, which [`admit`] accepted as `test` with the same
/// key, to the reply in place, and returns its length: that of the datagram, with all octets after its fields
/// unchanged; for a shorter packet of TWAMP, the minimum length of TWAMP's reply.
///
/// # Errors
/// The reply's error estimate does not fit its field, or `room` is shorter than a reply. The datagram is left
/// unchanged.
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

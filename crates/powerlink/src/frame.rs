//! Frames: a message behind an Ethernet header, padded.

use alloc::vec;
use alloc::vec::Vec;

use onbeat_wire::ethernet::{HEADER_LEN, Header, MIN_FRAME_LEN, Repr};
use onbeat_wire::powerlink::Message;
use onbeat_wire::{EtherType, MacAddress};

/// Least octets of a frame that a node sends, without FCS.
pub const MIN_LEN: usize = MIN_FRAME_LEN;

/// A frame whose message is padded to `message_len` octets, and whose own length is at least
/// [`MIN_LEN`].
pub(crate) fn build(
    destination: MacAddress,
    source: MacAddress,
    message: &Message<'_>,
    message_len: usize,
) -> Vec<u8> {
    let len = HEADER_LEN + message_len.max(message.buffer_len());
    let mut frame = vec![0; len.max(MIN_LEN)];
    let header = Repr { destination, source, ethertype: EtherType::POWERLINK };
    let fits = "a node keeps its values within their fields";
    header.emit(&mut frame).expect(fits);
    message.emit(&mut frame[HEADER_LEN..]).expect(fits);
    frame
}

/// The message of a frame and who sent it, where it is POWERLINK's and can be read.
pub(crate) fn parse(frame: &[u8]) -> Option<(MacAddress, Message<'_>)> {
    let header = Header::new_checked(frame).ok()?;
    if header.ethertype() != EtherType::POWERLINK {
        return None;
    }
    Some((header.source(), Message::parse(header.payload()).ok()?))
}

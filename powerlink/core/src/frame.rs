//! Frames: a message after an Ethernet header, padded.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::ethernet::{HEADER_LEN, Header, MIN_FRAME_LEN, Repr};
use onbeat_wire::powerlink::{Message, MessageError, MessageType, NodeId};
use onbeat_wire::{EtherType, MacAddress};

/// Minimum length of a sent frame in octets, without FCS.
pub const MIN_LEN: usize = MIN_FRAME_LEN;

/// Builds a frame whose message is padded to `message_len` octets, with a length of at least [`MIN_LEN`].
pub(crate) fn build(
    destination: MacAddress,
    source: MacAddress,
    message: &Message<'_>,
    message_len: usize,
) -> Vec<u8> {
    build_in(Vec::new(), destination, source, message, message_len)
}

/// The same, in an existing buffer.
pub(crate) fn build_in(
    mut frame: Vec<u8>,
    destination: MacAddress,
    source: MacAddress,
    message: &Message<'_>,
    message_len: usize,
) -> Vec<u8> {
    let len = HEADER_LEN + message_len.max(message.buffer_len());
    frame.clear();
    frame.resize(len.max(MIN_LEN), 0);
    let header = Repr { destination, source, ethertype: EtherType::POWERLINK };
    let fits = "a node keeps its values within their fields";
    header.emit(&mut frame).expect(fits);
    message.emit(&mut frame[HEADER_LEN..]).expect(fits);
    frame
}

/// The message and the sender of a valid POWERLINK frame.
pub(crate) fn parse(frame: &[u8]) -> Option<(MacAddress, Message<'_>)> {
    let header = Header::new_checked(frame).ok()?;
    if header.ethertype() != EtherType::POWERLINK {
        return None;
    }
    Some((header.source(), Message::parse(header.payload()).ok()?))
}

/// A truncated POWERLINK frame: sender, message type and destination.
pub(crate) struct TruncatedFrame {
    pub(crate) mac: MacAddress,
    pub(crate) kind: MessageType,
    pub(crate) source: NodeId,
    pub(crate) destination: NodeId,
}

/// Service of an ASnd that transfers SDO.
const SDO: u8 = 5;

/// Reads the header of a frame whose message is invalid, if its type is known. An invalid SDO frame is none: SDO
/// is above the data link layer, and its sequence layer handles it like a lost one.
pub(crate) fn broken(frame: &[u8]) -> Option<TruncatedFrame> {
    let header = Header::new_checked(frame).ok()?;
    let octets = header.payload();
    let [kind, destination, source, ref rest @ ..] = *octets else { return None };
    if MessageType(kind & 0x7f) == MessageType::ASND && rest.first() == Some(&SDO) {
        return None;
    }
    let cut = matches!(Message::parse(octets), Err(MessageError::Truncated(_)));
    let kind = MessageType(kind & 0x7f);
    let broken = TruncatedFrame {
        mac: header.source(),
        kind,
        source: NodeId(source),
        destination: NodeId(destination),
    };
    (cut && header.ethertype() == EtherType::POWERLINK).then_some(broken)
}

/// Frames to send, and the buffers of sent frames.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

/// Maximum number of spare buffers: those of the cycle with the most frames.
const SPARE: usize = 8;

impl Outbox {
    /// Returns an empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(buffer);
        }
    }

    pub(crate) fn push(&mut self, frame: Vec<u8>) {
        self.waiting.push_back(frame);
    }

    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        self.waiting.pop_front()
    }
}

impl Extend<Vec<u8>> for Outbox {
    fn extend<T: IntoIterator<Item = Vec<u8>>>(&mut self, frames: T) {
        self.waiting.extend(frames);
    }
}

//! Automatic responses to polls: a driver holds the frame ready and sends it without waking any thread.
//!
//! The node behaves as without it, except that it does not send the response itself.
//! [`poll_response`](ControlledNode::poll_response) returns the present response;
//! [`handle_answered_frame`](ControlledNode::handle_answered_frame) reports that it was sent.

use alloc::vec::Vec;

use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::powerlink::{MessageType, NodeId};
use onbeat_wire::{EtherType, MacAddress};

use super::ControlledNode;

/// Octets of a frame that identify a poll of a node: addresses, EtherType, message type, destination and source
/// node.
pub const POLL_KEY_LEN: usize = HEADER_LEN + 3;

/// The source address, which is ignored: the node id identifies a managing node.
const SOURCE_ADDRESS: core::ops::Range<usize> = 6..12;

/// The response to polls from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// With this frame, without FCS.
    Frame(&'a [u8]),
    /// No response: the node is in a state in which it is not polled.
    Silence,
}

/// A pattern for the first octets of polls of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollKey {
    /// The octets.
    pub value: [u8; POLL_KEY_LEN],
    /// The bits to compare.
    pub mask: [u8; POLL_KEY_LEN],
}

impl PollKey {
    fn new(node: NodeId, mac: MacAddress) -> Self {
        let mut value = [0; POLL_KEY_LEN];
        value[..SOURCE_ADDRESS.start].copy_from_slice(&mac.0);
        value[SOURCE_ADDRESS.end..HEADER_LEN]
            .copy_from_slice(&EtherType::POWERLINK.0.to_be_bytes());
        value[HEADER_LEN..].copy_from_slice(&[MessageType::PREQ.0, node.0, NodeId::MN.0]);
        let mut mask = [0xff; POLL_KEY_LEN];
        mask[SOURCE_ADDRESS].fill(0);
        // The highest bit is reserved, and ignored when messages are read.
        mask[HEADER_LEN] = 0x7f;
        PollKey { value, mask }
    }
}

#[derive(Debug, Default)]
pub(super) struct AutomaticResponse {
    /// Another component sends the responses.
    pub(super) on: bool,
    /// The current frame is a poll that was answered.
    pub(super) answered: bool,
    /// The last returned response; empty: no response.
    returned: Vec<u8>,
    spare: Vec<u8>,
}

impl ControlledNode {
    /// Enables automatic responses, from the next poll on; returns the pattern of polls.
    ///
    /// Inputs are then sampled at the end of a cycle, so that the response is ready before its poll arrives. As
    /// without it, inputs of one cycle are sent in the next.
    pub fn answer_automatically(&mut self) -> PollKey {
        self.automatic.on = true;
        PollKey::new(self.node, self.mac)
    }

    /// Returns the response to polls if it has changed since the last call. Call it after each call of the
    /// node. Initially polls are not answered.
    pub fn poll_response(&mut self) -> Option<Response<'_>> {
        let mut next = core::mem::take(&mut self.automatic.spare);
        next.clear();
        if self.automatic.on && self.state.is_polled() {
            next = self.response(next);
        }
        let before = core::mem::replace(&mut self.automatic.returned, next);
        let changed = before != self.automatic.returned;
        self.automatic.spare = before;
        changed.then(|| match &self.automatic.returned[..] {
            [] => Response::Silence,
            frame => Response::Frame(frame),
        })
    }

    /// Handles a frame that was answered with the response: as any poll, but without sending a response.
    pub fn handle_answered_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.automatic.answered = true;
        self.receive(now_ns, frame);
        self.automatic.answered = false;
    }
}

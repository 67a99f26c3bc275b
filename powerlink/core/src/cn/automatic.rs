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

/// The source address.
const SOURCE_ADDRESS: core::ops::Range<usize> = 6..12;

/// The response to polls from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// Polls that match are answered with this frame, without FCS.
    Frame {
        /// The pattern of polls: it changes with the address of the managing node.
        polls: PollKey,
        /// The frame.
        frame: &'a [u8],
    },
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
    /// `manager`: the address of the managing node; without it, that of any sender matches.
    fn new(node: NodeId, mac: MacAddress, manager: Option<MacAddress>) -> Self {
        let mut value = [0; POLL_KEY_LEN];
        value[..SOURCE_ADDRESS.start].copy_from_slice(&mac.0);
        value[SOURCE_ADDRESS.end..HEADER_LEN]
            .copy_from_slice(&EtherType::POWERLINK.0.to_be_bytes());
        value[HEADER_LEN..].copy_from_slice(&[MessageType::PREQ.0, node.0, NodeId::MN.0]);
        let mut mask = [0xff; POLL_KEY_LEN];
        match manager {
            Some(manager) => value[SOURCE_ADDRESS].copy_from_slice(&manager.0),
            None => mask[SOURCE_ADDRESS].fill(0),
        }
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
    /// Its polls.
    polls: Option<PollKey>,
    spare: Vec<u8>,
}

impl ControlledNode {
    /// Enables automatic responses, from the next poll.
    ///
    /// Inputs are then sampled at the end of a cycle, so that the response is ready before its poll arrives. As
    /// without it, inputs of one cycle are sent in the next.
    pub fn answer_automatically(&mut self) {
        self.automatic.on = true;
    }

    /// Returns the response to polls if it has changed since the last call. Call it after each call of the
    /// node. Initially polls are not answered.
    pub fn poll_response(&mut self) -> Option<Response<'_>> {
        let mut next = core::mem::take(&mut self.automatic.spare);
        next.clear();
        if self.automatic.on && self.state.is_polled() {
            next = self.response(next);
        }
        let polls = PollKey::new(self.node, self.mac, self.manager());
        let before = core::mem::replace(&mut self.automatic.returned, next);
        let changed = before != self.automatic.returned
            || !before.is_empty() && self.automatic.polls != Some(polls);
        self.automatic.spare = before;
        self.automatic.polls = Some(polls);
        changed.then(|| match &self.automatic.returned[..] {
            [] => Response::Silence,
            frame => Response::Frame { polls, frame },
        })
    }

    /// Handles a frame that was answered with the response: as any poll, but without sending a response.
    pub fn handle_answered_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.automatic.answered = true;
        self.receive(now_ns, frame);
        self.automatic.answered = false;
    }
}

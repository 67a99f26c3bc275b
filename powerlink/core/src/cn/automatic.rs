//! Responses to polls that something else sends: a driver, which has the frame ready and needs nobody
//! to be awake.
//!
//! The node keeps to what it always does but for one thing: it does not send the response itself. What
//! the response is at any time, [`poll_response`](ControlledNode::poll_response) tells; that it was
//! sent, [`handle_answered_frame`](ControlledNode::handle_answered_frame) takes.

use alloc::vec::Vec;

use onbeat_wire::ethernet::HEADER_LEN;
use onbeat_wire::powerlink::{MessageType, NodeId};
use onbeat_wire::{EtherType, MacAddress};

use super::ControlledNode;

/// Octets of a frame by which a poll of a node is known: addresses, EtherType, message type,
/// destination and source node.
pub const POLL_KEY_LEN: usize = HEADER_LEN + 3;

/// Where the source address is, which is of no account: it is the node id that tells a managing node.
const SOURCE_ADDRESS: core::ops::Range<usize> = 6..12;

/// What a poll is to be answered with from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response<'a> {
    /// With this frame, without FCS.
    Frame(&'a [u8]),
    /// Not at all: the node is in a state in which it is not polled.
    Silence,
}

/// The first octets of polls of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollKey {
    /// The octets.
    pub value: [u8; POLL_KEY_LEN],
    /// Which bits of them count.
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
        // The highest bit is reserved, and read over wherever messages are read.
        mask[HEADER_LEN] = 0x7f;
        PollKey { value, mask }
    }
}

#[derive(Debug, Default)]
pub(super) struct Automatic {
    /// Somebody else sends responses.
    pub(super) on: bool,
    /// The frame at hand is a poll that was answered.
    pub(super) answered: bool,
    /// As it was told last; empty is silence.
    told: Vec<u8>,
    spare: Vec<u8>,
}

impl ControlledNode {
    /// Has somebody else send responses to polls, from the next one on; by what polls are known.
    ///
    /// Process data are then taken at the end of a cycle, so that the response is there before its
    /// poll comes: as without, what the application gives in one cycle is sent in the next.
    pub fn answer_automatically(&mut self) -> PollKey {
        self.automatic.on = true;
        PollKey::new(self.node, self.mac)
    }

    /// What polls are to be answered with from now on, where that is something else than it was when
    /// this was last asked; to be asked after whatever is done with the node. At first they are not
    /// answered.
    pub fn poll_response(&mut self) -> Option<Response<'_>> {
        let mut next = core::mem::take(&mut self.automatic.spare);
        next.clear();
        if self.automatic.on && self.state.is_polled() {
            next = self.response(next);
        }
        let before = core::mem::replace(&mut self.automatic.told, next);
        let changed = before != self.automatic.told;
        self.automatic.spare = before;
        changed.then(|| match &self.automatic.told[..] {
            [] => Response::Silence,
            frame => Response::Frame(frame),
        })
    }

    /// A frame was received that was answered with the response: it does all that a poll does, but for
    /// sending one.
    pub fn handle_answered_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.automatic.answered = true;
        self.receive(now_ns, frame);
        self.automatic.answered = false;
    }
}

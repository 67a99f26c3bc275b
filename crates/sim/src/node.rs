//! What a bus asks of a node.

use onbeat_powerlink::cn::ControlledNode;
use onbeat_powerlink::mn::ManagingNode;

/// A machine on a bus.
pub trait Node {
    /// A frame was received.
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]);

    /// The time has come.
    fn handle_deadline(&mut self, now_ns: u64);

    /// When to call [`Node::handle_deadline`].
    fn next_deadline_ns(&self) -> Option<u64>;

    /// The next frame to send.
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;
}

impl Node for ControlledNode {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        ControlledNode::handle_frame(self, now_ns, frame);
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        ControlledNode::handle_deadline(self, now_ns);
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        ControlledNode::next_deadline_ns(self)
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        ControlledNode::poll_transmit(self)
    }
}

impl Node for ManagingNode {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        ManagingNode::handle_frame(self, now_ns, frame);
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        ManagingNode::handle_deadline(self, now_ns);
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        ManagingNode::next_deadline_ns(self)
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        ManagingNode::poll_transmit(self)
    }
}

//! What whoever drives a node asks of it, be it a bus of `sim` or a port.

use alloc::vec::Vec;

use crate::cn::ControlledNode;
use crate::mn::ManagingNode;

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

    /// A frame's memory, once it was sent.
    fn recycle(&mut self, frame: Vec<u8>) {
        drop(frame);
    }
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

    fn recycle(&mut self, frame: Vec<u8>) {
        ControlledNode::recycle(self, frame);
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

    fn recycle(&mut self, frame: Vec<u8>) {
        ManagingNode::recycle(self, frame);
    }
}

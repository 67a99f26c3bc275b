//! What whoever drives a node asks of it, be it a bus of `sim` or a port.

use alloc::vec::Vec;

/// A machine on a bus.
pub trait Node {
    /// A frame was received, from its destination address on and without FCS. What is not for this node,
    /// or not POWERLINK's, is left alone.
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]);

    /// The time has come.
    fn handle_deadline(&mut self, now_ns: u64);

    /// When to call [`Node::handle_deadline`], at the latest.
    fn next_deadline_ns(&self) -> Option<u64>;

    /// The next frame to send, without FCS.
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;

    /// Takes a frame's memory back once it was sent, for the next one. Without it each frame takes an
    /// allocation.
    fn recycle(&mut self, frame: Vec<u8>) {
        drop(frame);
    }
}

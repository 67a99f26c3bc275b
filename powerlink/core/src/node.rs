//! The interface between a node and its driver, a bus of `sim` or a port.

use alloc::vec::Vec;

/// A state machine on a bus.
pub trait Node {
    /// Handles a received frame, starting at its destination address and without FCS. Frames for other nodes or of
    /// other protocols are ignored.
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]);

    /// Handles a deadline that has passed.
    fn handle_deadline(&mut self, now_ns: u64);

    /// The latest time for the next call of [`Node::handle_deadline`].
    fn next_deadline_ns(&self) -> Option<u64>;

    /// The next frame to send, without FCS.
    fn poll_transmit(&mut self) -> Option<Vec<u8>>;

    /// Returns the buffer of a sent frame, for reuse. Without it each frame is an allocation.
    fn recycle(&mut self, frame: Vec<u8>) {
        drop(frame);
    }
}

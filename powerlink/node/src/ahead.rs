//! Frames received ahead of their turn: whether a request may still be answered depends on those behind it.

use std::collections::VecDeque;

use onbeat_link::{Port, ReceivedFrame, Result};

use crate::port::BUFFERS;
use crate::runner::ends;

/// The received frames of a port, in order.
#[derive(Debug)]
pub(crate) struct ReceivedAhead(VecDeque<ReceivedFrame>);

impl ReceivedAhead {
    pub(crate) fn new() -> Self {
        ReceivedAhead(VecDeque::with_capacity(BUFFERS))
    }

    /// The next frame: received ahead of its turn, or of the port.
    pub(crate) fn next(&mut self, port: &mut dyn Port) -> Result<Option<ReceivedFrame>> {
        match self.0.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => port.receive(),
        }
    }

    /// Whether the slot of a request is over: a frame that ends it was received already. It need not be the next
    /// one: frames of other nodes can be between.
    pub(crate) fn is_over(&mut self, port: &mut dyn Port, request: &ReceivedFrame) -> Result<bool> {
        let octets = port.octets(request);
        if self.0.iter().any(|next| ends(octets, port.octets(next))) {
            return Ok(true);
        }
        while let Some(next) = port.receive()? {
            let over = ends(port.octets(request), port.octets(&next));
            self.0.push_back(next);
            if over {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

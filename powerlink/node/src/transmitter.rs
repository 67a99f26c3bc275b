//! Transmission of a node's frames, and the time stamps of its responses.

use onbeat_link::{Cause, Confirmation, Feature, Outcome, Port, Result, Slot, Stamp, StampSource};

use crate::bus::Response;
use crate::limits::LONGEST;

/// Number of slots in rotation: that many frames later, a transmission without a time stamp has none.
const SLOTS: usize = 8;

/// A response whose transmission is not stamped yet.
#[derive(Debug, Clone, Copy)]
struct PendingResponse {
    /// With the time from reception to submission.
    response: Response,
    received: Stamp,
}

/// Sends frames by slots in rotation, so that a confirmation identifies its frame.
#[derive(Debug)]
pub(crate) struct Transmitter {
    slots: [(Slot, Option<PendingResponse>); SLOTS],
    next: usize,
    /// The driver or the NIC stamps transmitted frames.
    stamped: bool,
}

impl Transmitter {
    /// # Errors
    /// The port has no room.
    pub(crate) fn new(port: &mut dyn Port) -> Result<Self> {
        let mut slots = Vec::with_capacity(SLOTS);
        for _ in 0..SLOTS {
            slots.push((port.allocate(LONGEST)?, None));
        }
        let capabilities = port.capabilities();
        let stamped =
            capabilities.backend().stamps() && capabilities.require(Feature::TransmitStamp).is_ok();
        Ok(Self { slots: slots.try_into().expect("SLOTS slots"), next: 0, stamped })
    }

    /// Sends a frame; returns its slot.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub(crate) fn send(&mut self, port: &mut dyn Port, frame: &[u8]) -> Result<Slot> {
        let (slot, _) = self.slots[self.next];
        port.update(slot, frame)?;
        port.send(slot)?;
        self.next = (self.next + 1) % SLOTS;
        Ok(slot)
    }

    /// The response of the slot that is used next. It will not be stamped any more: its time is that of its
    /// submission.
    pub(crate) fn expired(&mut self) -> Option<Response> {
        let (_, pending) = &mut self.slots[self.next];
        pending.take().map(|pending| pending.response)
    }

    /// A response was sent with this slot, to a request received at `received`. Returned if it will not be stamped.
    pub(crate) fn sent(
        &mut self,
        slot: Slot,
        response: Response,
        received: Stamp,
    ) -> Option<Response> {
        match self.slots.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, pending)) if self.stamped => {
                *pending = Some(PendingResponse { response, received });
                None
            }
            _ => Some(response),
        }
    }

    /// The response that a confirmation is for, with the time from stamp to stamp; false if they are of different
    /// clocks, and the time remains that of its submission.
    pub(crate) fn confirmed(&mut self, news: &Confirmation) -> Option<(Response, bool)> {
        let Outcome::Sent(stamp) = news.outcome else { return None };
        let by_node = |(slot, _): &&mut (Slot, _)| *slot == news.slot && news.cause == Cause::Now;
        let (_, pending) = self.slots.iter_mut().find(by_node)?;
        let PendingResponse { mut response, received } = (*pending)?;
        let comparable = stamp.source == received.source && stamp.source != StampSource::Process;
        if comparable {
            // An earlier one is of the frame that was in the slot before.
            response.delay_ns = stamp.ns.checked_sub(received.ns)?;
        }
        *pending = None;
        Some((response, comparable))
    }
}

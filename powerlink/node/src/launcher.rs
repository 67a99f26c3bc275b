//! SoC that the port sends by itself, at an instant.

use onbeat_link::{Cause, Confirmation, Feature, Outcome, Port, Result, Slot, Time};
use onbeat_powerlink::mn::Launch;

use crate::limits::LONGEST;

/// Has a port send the frame that begins a cycle.
#[derive(Debug)]
pub(crate) struct Launcher {
    slot: Slot,
    /// What the slot has: what the bus will see.
    frame: Vec<u8>,
}

impl Launcher {
    /// Nothing is planned yet.
    ///
    /// # Errors
    /// The port does not send at an instant by itself, or has no room.
    pub(crate) fn new(port: &mut dyn Port) -> Result<Self> {
        port.capabilities().require_native(Feature::SendAt)?;
        let slot = port.allocate(LONGEST)?;
        Ok(Launcher { slot, frame: Vec::with_capacity(LONGEST) })
    }

    /// Plans the next cycle.
    pub(crate) fn follow(&mut self, port: &mut dyn Port, launch: Launch<'_>) -> Result<()> {
        match launch {
            Launch::At { at_ns, frame } => {
                self.frame.clear();
                self.frame.extend_from_slice(frame);
                port.update(self.slot, frame)?;
                port.send_at(self.slot, Time(at_ns))
            }
            Launch::Cancel => port.cancel(self.slot).map(|_| ()),
        }
    }

    /// When the frame was to be launched that there is news of, and whether it was.
    pub(crate) fn launched(&self, news: &Confirmation) -> Option<(u64, bool)> {
        match news.cause {
            Cause::At(Time(at_ns)) if news.slot == self.slot => {
                Some((at_ns, matches!(news.outcome, Outcome::Sent(_))))
            }
            _ => None,
        }
    }

    /// What was launched.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }
}

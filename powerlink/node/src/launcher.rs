//! SoC that the port sends at launch times.

use onbeat_link::{Cause, Confirmation, Feature, Port, Result, Slot, Time};
use onbeat_powerlink::mn::Launch;

use crate::limits::LONGEST;

/// Makes a port send SoC.
#[derive(Debug)]
pub(crate) struct Launcher {
    slot: Slot,
    /// The frame in the slot, as sent on the bus.
    frame: Vec<u8>,
}

impl Launcher {
    /// No launch is planned yet.
    ///
    /// # Errors
    /// The port does not support launch times, or has no room.
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

    /// The launch time that a confirmation is for.
    pub(crate) fn launched(&self, news: &Confirmation) -> Option<u64> {
        match news.cause {
            Cause::At(Time(at_ns)) if news.slot == self.slot => Some(at_ns),
            _ => None,
        }
    }

    /// The launched frame.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }
}

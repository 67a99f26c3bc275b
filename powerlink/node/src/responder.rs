//! Responses to polls that the port sends automatically.

use onbeat_link::{
    Cause, Confirmation, Feature, Filter, Outcome, Port, ReceivedFrame, Response, Result, Slot,
};
use onbeat_powerlink::cn;

use crate::limits::LONGEST;

/// Makes a port answer polls with the node's response. The port's slot replaces a frame atomically: a sent
/// frame is one image or the next, never a mixture.
#[derive(Debug)]
pub(crate) struct Responder {
    slot: Slot,
    /// The response of the port, and its polls.
    response: Option<(Filter, Response)>,
    /// The frame in the slot.
    frame: Vec<u8>,
}

impl Responder {
    /// No poll is answered yet.
    ///
    /// # Errors
    /// The port does not support automatic responses, or has no room.
    pub(crate) fn new(port: &mut dyn Port) -> Result<Self> {
        port.capabilities().require_native(Feature::Response)?;
        let slot = port.allocate(LONGEST)?;
        Ok(Responder { slot, response: None, frame: Vec::with_capacity(LONGEST) })
    }

    /// Sets the response to polls.
    pub(crate) fn follow(&mut self, port: &mut dyn Port, to: cn::Response<'_>) -> Result<()> {
        match to {
            cn::Response::Frame { polls, frame } => {
                port.update(self.slot, frame)?;
                self.frame.clear();
                self.frame.extend_from_slice(frame);
                let filter = Filter::new(&polls.value, &polls.mask)?;
                if self.response.as_ref().is_none_or(|(former, _)| *former != filter) {
                    self.stop(port)?;
                    self.response = Some((filter, port.respond(filter, self.slot)?));
                }
            }
            cn::Response::Silence => self.stop(port)?,
        }
        Ok(())
    }

    fn stop(&mut self, port: &mut dyn Port) -> Result<()> {
        match self.response.take() {
            Some((_, response)) => port.stop_responding(response),
            None => Ok(()),
        }
    }

    /// The response to polls. For an answered poll it is the sent response, or its successor.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// From a poll's reception to its response, in nanoseconds, if the port has reported it by now. `other` receives
    /// confirmations of other frames.
    pub(crate) fn delay_ns(
        &self,
        port: &mut dyn Port,
        poll: &ReceivedFrame,
        mut other: impl FnMut(Confirmation),
    ) -> Result<Option<u64>> {
        while let Some(news) = port.confirmation()? {
            if news.slot != self.slot || news.cause != Cause::Response {
                other(news);
                continue;
            }
            let Outcome::Sent(stamp) = news.outcome else { continue };
            // An older report is of a poll whose response was not reported when it was read.
            if stamp.source == poll.stamp.source && stamp.ns >= poll.stamp.ns {
                return Ok(Some(stamp.ns - poll.stamp.ns));
            }
        }
        Ok(None)
    }
}

//! Responses to polls that the port sends by itself.

use onbeat_link::{Cause, Feature, Filter, Outcome, Port, Received, Response, Result, Slot};
use onbeat_powerlink::cn::{self, PollKey};

use crate::limits::LONGEST;

/// Has a port answer polls with what the node says they are to be answered with. The port's slot takes
/// a frame as a whole: what leaves is one image or the next, never some of each.
#[derive(Debug)]
pub(crate) struct Responder {
    slot: Slot,
    filter: Filter,
    response: Option<Response>,
    /// What the slot has.
    frame: Vec<u8>,
}

impl Responder {
    /// Nothing is answered yet.
    ///
    /// # Errors
    /// The port does not answer by itself, or has no room.
    pub(crate) fn new(port: &mut dyn Port, key: &PollKey) -> Result<Self> {
        port.capabilities().require_native(Feature::Response)?;
        let slot = port.allocate(LONGEST)?;
        let filter = Filter::new(&key.value, &key.mask)?;
        Ok(Responder { slot, filter, response: None, frame: Vec::with_capacity(LONGEST) })
    }

    /// Polls are to be answered with something else from now on.
    pub(crate) fn follow(&mut self, port: &mut dyn Port, to: cn::Response<'_>) -> Result<()> {
        match to {
            cn::Response::Frame(frame) => {
                port.update(self.slot, frame)?;
                self.frame.clear();
                self.frame.extend_from_slice(frame);
                if self.response.is_none() {
                    self.response = Some(port.respond(self.filter, self.slot)?);
                }
            }
            cn::Response::Silence => {
                self.response.take().map(|response| port.stop_responding(response)).transpose()?;
            }
        }
        Ok(())
    }

    /// What polls are answered with. Of one that was answered it is what it was answered with, or what
    /// took its place since.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// From a poll's reception to its response, in nanoseconds, where the port has told by now.
    pub(crate) fn delay_ns(&self, port: &mut dyn Port, poll: &Received) -> Result<Option<u64>> {
        while let Some(news) = port.confirmation()? {
            if news.slot != self.slot || news.cause != Cause::Response {
                continue;
            }
            let Outcome::Sent(stamp) = news.outcome else { continue };
            // One that is older is of a poll whose response was not told when it was looked at.
            if stamp.source == poll.stamp.source && stamp.ns >= poll.stamp.ns {
                return Ok(Some(stamp.ns - poll.stamp.ns));
            }
        }
        Ok(None)
    }
}

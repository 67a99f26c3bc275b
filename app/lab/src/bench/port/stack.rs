//! A minimal protocol stack over any [`Port`].

use onbeat_link::{Clock, Filter, Port, Slot, Time};
use onbeat_realtime::clock::now_ns;

use super::frames::{self, Frame, REQUEST_KEY};
use super::node::{ControlledNode, ManagingNode, PortNodeCounters};
use crate::Result;

/// The managing node: the port sends its slot each cycle.
pub(super) struct Requester {
    port: Box<dyn Port>,
    slot: Slot,
}

impl Requester {
    pub(super) fn new(mut port: Box<dyn Port>, request: &Frame) -> Result<Self> {
        port.add_multicast(frames::PRES_GROUP)?;
        let slot = port.allocate(request.len())?;
        port.update(slot, request)?;
        Ok(Self { port, slot })
    }
}

impl ManagingNode for Requester {
    fn start_requests(&mut self, first_ns: u64, period_ns: u64) -> Result<()> {
        let first = instant(&*self.port, first_ns);
        Ok(self.port.send_every(self.slot, first, period_ns)?)
    }

    fn serve(&mut self, until_ns: u64) -> Result<()> {
        serve(&mut *self.port, until_ns)
    }

    fn finish(&mut self) -> Result<()> {
        self.port.cancel(self.slot)?;
        Ok(())
    }

    fn counters(&mut self) -> Result<PortNodeCounters> {
        counters(&mut *self.port, |counters| counters.sent)
    }
}

/// The controlled node: the port responds with its slot.
pub(super) struct Responder(Box<dyn Port>);

impl Responder {
    pub(super) fn new(mut port: Box<dyn Port>, response: &Frame, request: &Frame) -> Result<Self> {
        let slot = port.allocate(response.len())?;
        port.update(slot, response)?;
        let mut mask = [0; REQUEST_KEY.end];
        mask[REQUEST_KEY].fill(0xff);
        let filter = Filter::new(&request[..REQUEST_KEY.end], &mask)?;
        // It responds as long as the port is open.
        let _response = port.respond(filter, slot)?;
        Ok(Self(port))
    }
}

impl ControlledNode for Responder {
    fn serve(&mut self, until_ns: u64) -> Result<()> {
        serve(&mut *self.0, until_ns)
    }

    fn counters(&mut self) -> Result<PortNodeCounters> {
        counters(&mut *self.0, |counters| counters.responses)
    }
}

fn serve(port: &mut dyn Port, until_ns: u64) -> Result<()> {
    let until = instant(port, until_ns);
    while port.wait(until)? {
        while let Some(frame) = port.receive()? {
            port.release(frame);
        }
        // Events report failed launches only, which are counted.
        while port.confirmation()?.is_some() {}
    }
    Ok(())
}

/// An instant of CLOCK_MONOTONIC on the port's clock, which may be CLOCK_TAI.
fn instant(port: &dyn Port, ns: u64) -> Time {
    match port.clock() {
        Clock::Monotonic => Time(ns),
        _ => {
            let (theirs, ours) = (port.now(), now_ns());
            match ns.checked_sub(ours) {
                Some(to_come) => theirs.after(to_come),
                None => theirs,
            }
        }
    }
}

fn counters(
    port: &mut dyn Port,
    sent: impl Fn(&onbeat_link::Diagnostics) -> u64,
) -> Result<PortNodeCounters> {
    let found = port.diagnostics()?;
    Ok(PortNodeCounters {
        sent: sent(&found),
        failed: found.send_failures,
        missed: found.missed_cycles,
        dropped: found.receive_drops,
    })
}

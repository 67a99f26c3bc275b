//! Operations common to ports over AF_XDP: they differ only in their responses.

use std::os::fd::BorrowedFd;

use onbeat_wire::MacAddress;

use super::PortBase;
use crate::packet::WakeReason;
use crate::response::Responses;
use crate::{
    Capabilities, Cause, Clock, Confirmation, Diagnostics, Error, Filter, Port, ReceivedFrame,
    Response, Result, Slot, Time,
};

/// A port over AF_XDP, with its method of response.
pub(crate) trait AfXdpPort: Send {
    fn parts(&self) -> (&PortBase, &Responses);

    fn parts_mut(&mut self) -> (&mut PortBase, &mut Responses);

    /// Performs due work, and processes received frames. Returns true if there is something for the caller.
    fn pump(&mut self) -> bool;

    /// Sleeps until an event occurs, or `other` is readable; returns the reason.
    fn sleep(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<WakeReason>;

    /// Updates the frame of a slot.
    fn slot_updated(&mut self, _slot: Slot, _frame: &[u8]) {}

    /// Updates the responses.
    fn responses_changed(&mut self) {}

    /// Adds further counters.
    fn add_to(&self, _diagnostics: &mut Diagnostics) {}
}

impl<T: AfXdpPort> Port for T {
    fn capabilities(&self) -> &Capabilities {
        &self.parts().0.capabilities
    }

    fn mac_address(&self) -> MacAddress {
        self.parts().0.mac
    }

    fn add_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.parts_mut().0.add_multicast(address)
    }

    fn remove_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.parts_mut().0.remove_multicast(address)
    }

    fn allocate(&mut self, capacity: usize) -> Result<Slot> {
        self.parts_mut().0.slots.allocate(capacity)
    }

    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()> {
        self.parts_mut().0.slots.update(slot, frame)?;
        self.slot_updated(slot, frame);
        Ok(())
    }

    fn free(&mut self, slot: Slot) -> Result<()> {
        let (base, responses) = self.parts_mut();
        if responses.uses(slot) {
            return Err(Error::SlotAnswers(slot));
        }
        base.free(slot)
    }

    fn send(&mut self, slot: Slot) -> Result<()> {
        self.parts_mut().0.transmit(slot, Cause::Now)
    }

    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()> {
        self.parts_mut().0.send_at(slot, time)
    }

    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()> {
        self.parts_mut().0.send_every(slot, first, period_ns)
    }

    fn cancel(&mut self, slot: Slot) -> Result<bool> {
        self.parts_mut().0.cancel(slot)
    }

    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response> {
        let (base, responses) = self.parts_mut();
        base.slots.frame(slot)?;
        let response = responses.add(filter, slot)?;
        self.responses_changed();
        Ok(response)
    }

    fn stop_responding(&mut self, response: Response) -> Result<()> {
        self.parts_mut().1.remove(&response)?;
        self.responses_changed();
        Ok(())
    }

    fn receive(&mut self) -> Result<Option<ReceivedFrame>> {
        if !self.parts().0.has_waiting() {
            self.pump();
        }
        Ok(self.parts_mut().0.receive())
    }

    fn octets<'a>(&'a self, frame: &'a ReceivedFrame) -> &'a [u8] {
        self.parts().0.octets(frame)
    }

    fn release(&mut self, frame: ReceivedFrame) {
        self.parts_mut().0.release(frame);
    }

    fn confirmation(&mut self) -> Result<Option<Confirmation>> {
        if !self.parts().0.sent.has_confirmation() {
            self.pump();
        }
        Ok(self.parts_mut().0.sent.take())
    }

    fn poll(&mut self) -> Result<()> {
        self.pump();
        Ok(())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.parts().0.schedule.next_deadline()
    }

    fn wait_for(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<bool> {
        loop {
            if self.pump() {
                return Ok(true);
            }
            let base = self.parts_mut().0;
            let now = base.now();
            if now >= until {
                return Ok(false);
            }
            base.check_presence(now)?;
            if base.options.spin && other.is_none() {
                std::hint::spin_loop();
                continue;
            }
            match self.sleep(until, other)? {
                WakeReason::Signal => return Ok(false),
                WakeReason::Other => return Ok(true),
                WakeReason::Ready | WakeReason::Error => {}
            }
        }
    }

    fn clock(&self) -> Clock {
        self.parts().0.options.clock
    }

    fn now(&self) -> Time {
        self.parts().0.now()
    }

    fn nic_time(&self) -> Result<u64> {
        self.parts().0.nic_time()
    }

    fn diagnostics(&mut self) -> Result<Diagnostics> {
        let mut diagnostics = self.parts_mut().0.diagnostics()?;
        self.add_to(&mut diagnostics);
        Ok(diagnostics)
    }
}

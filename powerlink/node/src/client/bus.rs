//! A client on the bus: the diagnostic device, node 253. It sends when the managing node invites it.

use onbeat_link::{Backend, Port, Slot, Time};
use onbeat_netdev::Namespace;
use onbeat_powerlink::Node;
use onbeat_powerlink::diagnostic::{Attention, DiagnosticDevice};
use onbeat_powerlink::od::Abort;
use onbeat_powerlink::sdo::{CompletedRequest, Request};
use onbeat_wire::powerlink::{NodeId, multicast};

use super::{ClientError, Transport};
use crate::limits::LONGEST;
use crate::port::open;
use crate::runner::{ends, is_soa};

/// Maximum time for the last frames of a connection to leave, in nanoseconds.
const CLOSE_NS: u64 = 1_000_000_000;

/// A client of a node on the bus of an interface.
pub(super) struct BusClient {
    interface: String,
    node: NodeId,
    timeout_ns: u64,
    port: Box<dyn Port>,
    slot: Slot,
    device: DiagnosticDevice,
}

impl std::fmt::Debug for BusClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BusClient").field("device", &self.device).finish_non_exhaustive()
    }
}

impl BusClient {
    pub(super) fn open(
        namespace: &Namespace,
        interface: &str,
        node: NodeId,
        timeout_ns: u64,
    ) -> Result<Self, ClientError> {
        let mut port = open(Backend::Packet, namespace, interface)?;
        for group in [multicast::SOC, multicast::SOA, multicast::ASND] {
            port.add_multicast(group)?;
        }
        let slot = port.allocate(LONGEST)?;
        let device = DiagnosticDevice::new(port.mac_address(), node, timeout_ns);
        Ok(BusClient { interface: interface.to_owned(), node, timeout_ns, port, slot, device })
    }

    /// Waits for frames until a time, and handles them.
    fn step(&mut self, until: Time) -> Result<(), ClientError> {
        self.port.wait(until)?;
        let mut next = self.port.receive()?;
        while let Some(frame) = next.take() {
            next = self.port.receive()?;
            let octets = self.port.octets(&frame);
            // A late answer would disturb the phase of another node.
            let is_over = next.as_ref().is_some_and(|next| ends(octets, self.port.octets(next)));
            if !(is_soa(octets) && is_over) {
                self.device.handle_frame(self.port.now().0, octets);
            }
            self.port.release(frame);
            while let Some(frame) = self.device.poll_transmit() {
                self.port.update(self.slot, &frame)?;
                match self.port.send(self.slot) {
                    // A lost frame is sent again.
                    Err(error) if error.is_congestion() || error.is_down() => {}
                    sent => sent?,
                }
            }
        }
        self.device.handle_deadline(self.port.now().0);
        Ok(())
    }

    /// The reason why there is no answer.
    fn silence(&self) -> ClientError {
        let (interface, timeout_s) = (self.interface.clone(), self.timeout_ns as f64 / 1e9);
        let not_invited =
            |missing| ClientError::NotInvited { interface: interface.clone(), missing, timeout_s };
        match self.device.attention() {
            Attention::Absent => ClientError::NoManagingNode { interface, timeout_s },
            Attention::Ignored => not_invited("identify"),
            Attention::Identified => not_invited("invite"),
            Attention::Invited => {
                ClientError::SilentOnBus { interface, node: self.node, timeout_s }
            }
        }
    }
}

impl Transport for BusClient {
    fn execute(&mut self, request: Request) -> Result<CompletedRequest, ClientError> {
        self.device.request(self.port.now().0, request);
        loop {
            let deadline = self.device.next_deadline_ns().unwrap_or_default();
            self.step(Time(deadline))?;
            match self.device.done.pop_front() {
                None => {}
                // The peer aborts on its open connection.
                Some(done)
                    if done.result == Err(Abort::TIME_OUT) && !self.device.is_connected() =>
                {
                    return Err(self.silence());
                }
                Some(done) => return Ok(done),
            }
        }
    }

    fn close(&mut self) {
        self.device.disconnect();
        let end = self.port.now().after(CLOSE_NS.min(self.timeout_ns));
        while !self.device.is_idle() && self.port.now() < end {
            if self.step(end).is_err() {
                return;
            }
        }
    }
}

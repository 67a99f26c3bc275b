//! A client on the bus: the diagnostic device, node 253. It sends when the managing node invites it.

use onbeat_link::{Backend, Port, Slot, Time};
use onbeat_netdev::Namespace;
use onbeat_powerlink::Node;
use onbeat_powerlink::diagnostic::{Attention, DiagnosticDevice};
use onbeat_powerlink::od::Abort;
use onbeat_powerlink::sdo::{CompletedRequest, Request};
use onbeat_realtime::Profile;
use onbeat_wire::powerlink::{NodeId, multicast};

use super::{ClientError, Transport};
use crate::ahead::ReceivedAhead;
use crate::limits::LONGEST;
use crate::port::open;
use crate::realtime::NodeThread;
use crate::runner::is_soa;

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
    ahead: ReceivedAhead,
    /// Policy of the thread that transmits, as that of a node.
    _thread: NodeThread,
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
        let thread = NodeThread::enter(&Profile::default()).map_err(ClientError::Realtime)?;
        let device = DiagnosticDevice::new(port.mac_address(), node, timeout_ns);
        Ok(BusClient {
            interface: interface.to_owned(),
            node,
            timeout_ns,
            port,
            slot,
            device,
            ahead: ReceivedAhead::new(),
            _thread: thread,
        })
    }

    /// Waits for frames until a time, and handles them.
    fn step(&mut self, until: Time) -> Result<(), ClientError> {
        self.port.wait(until)?;
        while let Some(frame) = self.ahead.next(&mut *self.port)? {
            let is_soa = is_soa(self.port.octets(&frame));
            // A late answer would disturb the phase of another node.
            if !(is_soa && self.ahead.is_over(&mut *self.port, &frame)?) {
                self.device.handle_frame(self.port.now().0, self.port.octets(&frame));
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
            match self.device.poll_completed() {
                None => {}
                // The peer aborts on its open connection.
                Some(done)
                    if done.result == Err(Abort::TIME_OUT) && !self.device.is_connected() =>
                {
                    if self.device.is_closed_by_peer() {
                        return Err(ClientError::Closed { node: self.node });
                    }
                    return Err(self.silence());
                }
                Some(done) => return Ok(done),
            }
        }
    }

    fn close(&mut self) {
        self.device.disconnect();
        if self.device.attention() != Attention::Invited {
            return;
        }
        let end = self.port.now().after(CLOSE_NS.min(self.timeout_ns));
        while !self.device.is_idle() && self.port.now() < end {
            if self.step(end).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use onbeat_netdev::{Handle, VethEnd};
    use onbeat_powerlink::od::profile::NMT_STATE;
    use onbeat_realtime::scheduling::ThreadPolicy;
    use onbeat_testing::{Feature, RawSocket, require_all};

    use super::*;

    /// Maximum wait for an event that always comes.
    const BOUND: Duration = Duration::from_secs(60);

    fn frame(source: u8, destination: [u8; 6], octets: &[u8]) -> Vec<u8> {
        let mac = [2, 0, 0, 0, 0, source];
        let mut frame = [&destination[..], &mac, &[0x88, 0xab], octets].concat();
        frame.resize(60, 0);
        frame
    }

    /// A SoA of node 240: an IdentRequest to a node.
    fn soa(target: u8) -> Vec<u8> {
        frame(240, multicast::SOA.0, &[5, 255, 240, 0x1d, 0, 0, 1, target, 0x20])
    }

    /// Between both SoA is a frame of another node.
    fn only_the_newest_soa_is_answered() {
        let namespace = Namespace::with_loopback().unwrap();
        let handle = Handle::in_namespace(&namespace).unwrap();
        let (mn, device) = (VethEnd::new("mn").queues(1, 1), VethEnd::new("dev").queues(1, 1));
        handle.create_veth(&mn, &device).unwrap();
        for name in ["mn", "dev"] {
            handle.set_ipv6(name, false).unwrap();
            handle.set_up(name).unwrap();
        }
        handle.wait_carrier("mn", BOUND).unwrap();
        let bus = RawSocket::open(&handle, "mn");
        let mut client = BusClient::open(&namespace, "dev", NodeId(1), 60_000_000_000).unwrap();
        assert!(ThreadPolicy::of(0).unwrap().is_real_time());
        let beside = RawSocket::open(&handle, "dev");
        client.device.request(client.port.now().0, Request::Read(NMT_STATE));
        let other = frame(2, multicast::ASND.0, &[6, 255, 2, 2]);
        let mut answers = |queued: &[Vec<u8>], wait| {
            for octets in queued {
                bus.send(octets);
            }
            let last = queued.last().unwrap();
            while beside.receive(BOUND).expect("the frames arrive") != *last {}
            client.step(client.port.now().after(1)).unwrap();
            client.step(client.port.now().after(1)).unwrap();
            bus.receive(wait).is_some()
        };
        assert!(!answers(&[soa(253), other.clone(), soa(0)], Duration::ZERO));
        assert!(answers(&[soa(253), other], BOUND));
        drop(client);
        assert!(!ThreadPolicy::of(0).unwrap().is_real_time());
    }

    #[test]
    fn a_late_soa_is_not_answered_and_the_thread_has_a_real_time_policy() {
        if require_all(&[Feature::Root, Feature::Veth]) {
            // Of its own: its policy does not affect other tests.
            thread::spawn(only_the_newest_soa_is_answered).join().unwrap();
        }
    }
}

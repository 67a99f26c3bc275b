//! A diagnostic device: node 253, which reads and writes objects of a node by SDO. It sends by invitation of the
//! managing node only, which identifies a device with this id at any time (EPSG DS 301, 4.5).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, EplVersion, HostName, IdentResponse, Links, Message, NmtState, NodeId, Priority,
    RequestedService, SendRequest, Service, multicast,
};

use crate::Node;
use crate::frame;
use crate::sdo::{Client, CompletedRequest, OutgoingFrame, Request};

/// The attention that the managing node has given to a diagnostic device, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attention {
    /// No SoA was received.
    Absent,
    /// The managing node sends SoA, but none to this device.
    Ignored,
    /// It identifies this device.
    Identified,
    /// It invites this device.
    Invited,
}

/// The device.
#[derive(Debug)]
pub struct DiagnosticDevice {
    mac: MacAddress,
    peer: NodeId,
    client: Client,
    attention: Attention,
    /// The managing node: the sender of the first SoA. Another one has no effect.
    manager: Option<MacAddress>,
    /// SDO frames queued until an invite.
    frames: VecDeque<OutgoingFrame>,
    out: VecDeque<Vec<u8>>,
    done: VecDeque<CompletedRequest>,
}

impl DiagnosticDevice {
    /// A device with the address `mac` for the objects of `peer`; `timeout_ns` is the timeout of its connection.
    pub fn new(mac: MacAddress, peer: NodeId, timeout_ns: u64) -> Self {
        DiagnosticDevice {
            mac,
            peer,
            client: Client::new(timeout_ns),
            attention: Attention::Absent,
            manager: None,
            frames: VecDeque::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// The attention that the managing node has given to this device so far.
    pub fn attention(&self) -> Attention {
        self.attention
    }

    /// Whether the peer closed the last connection.
    pub fn is_closed_by_peer(&self) -> bool {
        self.client.is_closed_by_peer()
    }

    /// Whether the device has a connection, or has requested one.
    pub fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Whether no frame is queued for an invite.
    pub fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds a request to the peer.
    pub fn request(&mut self, now_ns: u64, request: Request) {
        self.client.request(now_ns, request, &mut self.frames);
    }

    /// Returns the next completed request.
    pub fn poll_completed(&mut self) -> Option<CompletedRequest> {
        self.done.pop_front()
    }

    /// Closes the connection: a managing node that was reset does not know it.
    pub fn disconnect(&mut self) {
        self.client.close(&mut self.frames);
    }

    fn send(&mut self, destination: NodeId, service: Service<'_>) {
        let body = Body::Asnd(service);
        let message = Message { destination, source: NodeId::DIAGNOSTIC, body };
        self.out.push_back(frame::build(multicast::ASND, self.mac, &message, 0));
    }

    /// Answers an IdentRequest with the number of queued frames.
    fn identify(&mut self) {
        let pending = self.frames.len().min(SendRequest::MAX.into()) as u8;
        self.send(
            NodeId::BROADCAST,
            Service::IdentResponse(IdentResponse {
                exception_new: false,
                exception_clear: false,
                links: Links::default(),
                request: SendRequest { priority: Priority::GENERIC, pending },
                state: NmtState::PRE_OPERATIONAL_1,
                version: EplVersion::V2,
                features: 0,
                mtu: 1500,
                poll_in_size: 36,
                poll_out_size: 36,
                response_time_ns: 0,
                device_type: 0,
                vendor_id: 0,
                product_code: 0,
                revision_number: 0,
                serial_number: 0,
                vendor_extension_1: 0,
                configuration_date: 0,
                configuration_time: 0,
                software_date: 0,
                software_time: 0,
                address: core::net::Ipv4Addr::UNSPECIFIED,
                mask: core::net::Ipv4Addr::UNSPECIFIED,
                gateway: core::net::Ipv4Addr::UNSPECIFIED,
                host_name: HostName([0; 32]),
                vendor_extension_2: &[0; 48],
            }),
        );
    }

    /// Answers a SoA to this device.
    fn requested(&mut self, service: RequestedService) {
        match service {
            RequestedService::IDENT_REQUEST => {
                self.attention = self.attention.max(Attention::Identified);
                self.identify();
            }
            RequestedService::UNSPECIFIED_INVITE => {
                self.attention = Attention::Invited;
                if let Some(frame) = self.frames.pop_front() {
                    self.send(self.peer, Service::Sdo(frame.sdo()));
                }
            }
            _ => {}
        }
    }
}

impl Node for DiagnosticDevice {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        let Some((mac, message)) = frame::parse(frame) else { return };
        match message.body {
            Body::Soa(soa)
                if message.source == NodeId::MN && *self.manager.get_or_insert(mac) == mac =>
            {
                self.attention = self.attention.max(Attention::Ignored);
                if soa.target == NodeId::DIAGNOSTIC {
                    self.requested(soa.service);
                }
            }
            Body::Asnd(Service::Sdo(sdo))
                if message.destination == NodeId::DIAGNOSTIC && message.source == self.peer =>
            {
                self.done.extend(self.client.receive(now_ns, &sdo, &mut self.frames));
            }
            _ => {}
        }
    }

    fn handle_deadline(&mut self, now_ns: u64) {
        if self.client.next_deadline_ns().is_some_and(|deadline| deadline <= now_ns) {
            self.done.extend(self.client.handle_deadline(now_ns, &mut self.frames));
        }
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        self.client.next_deadline_ns()
    }

    fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SoA: an IdentRequest to node 253.
    fn soa(source: u8, mac: u8) -> Vec<u8> {
        let mut frame = Vec::from(multicast::SOA.0);
        frame.extend([2, 0, 0, 0, 0, mac, 0x88, 0xab, 5, 255, source, 0x1d, 0, 0, 1, 253, 0x20]);
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn only_one_managing_node_is_answered() {
        let mut device = DiagnosticDevice::new(MacAddress::default(), NodeId(1), 1_000_000);
        for (source, mac, answers) in [
            (241, 1, false),
            (1, 1, false),
            (240, 2, true),
            (240, 3, false),
            (241, 2, false),
            (240, 2, true),
        ] {
            device.handle_frame(0, &soa(source, mac));
            assert_eq!(device.poll_transmit().is_some(), answers, "{source}, {mac}");
        }
    }
}

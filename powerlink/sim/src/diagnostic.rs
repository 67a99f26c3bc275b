//! A diagnostic device: node 253, which reads and writes objects of the managing node by SDO.

use std::collections::VecDeque;

use onbeat_powerlink::sdo::{Client, CompletedRequest, OutgoingFrame, Request};
use onbeat_wire::ethernet::{HEADER_LEN, Header, Repr};
use onbeat_wire::powerlink::{
    Body, EplVersion, HostName, IdentResponse, Links, Message, NmtState, NodeId, Priority,
    RequestedService, SendRequest, Service, multicast,
};
use onbeat_wire::{EtherType, MacAddress};

use crate::Node;

/// Time-out of its connection, in nanoseconds.
const TIMEOUT_NS: u64 = 15_000_000_000;

/// The device, and the requests that it has completed.
#[derive(Debug)]
pub struct DiagnosticDevice {
    mac: MacAddress,
    client: Client,
    /// SDO frames queued until an invite.
    frames: VecDeque<OutgoingFrame>,
    out: VecDeque<Vec<u8>>,
    /// Completed requests.
    pub done: VecDeque<CompletedRequest>,
}

impl DiagnosticDevice {
    pub(crate) fn new(mac: MacAddress) -> Self {
        DiagnosticDevice {
            mac,
            client: Client::new(TIMEOUT_NS),
            frames: VecDeque::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    /// Adds a request to the managing node.
    pub fn request(&mut self, now_ns: u64, request: Request) {
        self.client.request(now_ns, request, &mut self.frames);
    }

    /// Closes the connection: a managing node that was reset does not know it.
    pub fn disconnect(&mut self) {
        self.client.close(&mut self.frames);
    }

    fn send(&mut self, destination: NodeId, service: Service<'_>) {
        let body = Body::Asnd(service);
        let message = Message { destination, source: NodeId::DIAGNOSTIC, body };
        let mut frame = vec![0; (HEADER_LEN + message.buffer_len()).max(60)];
        let (destination, source) = (multicast::ASND, self.mac);
        let fits = "the frame has room for the message";
        let header = Repr { destination, source, ethertype: EtherType::POWERLINK };
        header.emit(&mut frame).expect(fits);
        message.emit(&mut frame[HEADER_LEN..]).expect(fits);
        self.out.push_back(frame);
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
}

impl Node for DiagnosticDevice {
    fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        let Ok(header) = Header::new_checked(frame) else { return };
        let Ok(message) = Message::parse(header.payload()) else { return };
        match message.body {
            Body::Soa(soa) if soa.target == NodeId::DIAGNOSTIC => match soa.service {
                RequestedService::IDENT_REQUEST => self.identify(),
                RequestedService::UNSPECIFIED_INVITE => {
                    if let Some(frame) = self.frames.pop_front() {
                        self.send(NodeId::MN, Service::Sdo(frame.sdo()));
                    }
                }
                _ => {}
            },
            Body::Asnd(Service::Sdo(sdo)) if message.destination == NodeId::DIAGNOSTIC => {
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

//! The frames that a controlled node sends.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, EplVersion, ErrorEntries, HostName, IdentResponse, Links, Message, NodeId, Pres, Service,
    StatusResponse, multicast,
};

use super::ControlledNode;
use crate::frame;
use crate::nmt::State;
use crate::od::profile;
use crate::sdo::OutgoingFrame;

/// Octets of a poll before its payload.
const POLL_HEADER: usize = 10;

impl ControlledNode {
    /// Sends the response to polls of this cycle.
    pub(super) fn send_pres(&mut self) {
        let buffer = self.out.buffer();
        let frame = self.response(buffer);
        self.out.push(frame);
    }

    /// Builds the response to polls of this cycle.
    pub(super) fn response(&self, buffer: Vec<u8>) -> Vec<u8> {
        let pres = Pres {
            state: self.state.code(),
            multiplexed_slot: self.multiplex.is_assigned(),
            exception_new: self.signaling.new,
            ready: self.state == State::Operational,
            links: Links::default(),
            request: self.queue.request(),
            pdo_version: self.tpdo.version,
            payload: &self.payload,
        };
        let len = POLL_HEADER + self.number(profile::PRES_LIMIT) as usize;
        self.frame(buffer, multicast::PRES, NodeId::BROADCAST, Body::Pres(pres), len)
    }

    pub(super) fn send_ident_response(&mut self) {
        let address = |object| Ipv4Addr::from(self.number(object));
        let mut host_name = [0; 32];
        let name = self.od.get(profile::HOST_NAME).unwrap_or_default();
        host_name.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let ident = IdentResponse {
            exception_new: false,
            exception_clear: false,
            links: Links::default(),
            request: self.queue.request(),
            state: self.prepared.state.code(),
            version: EplVersion(self.number(profile::EPL_VERSION) as u8),
            features: self.number(profile::FEATURES),
            mtu: self.number(profile::ASYNC_MTU) as u16,
            poll_in_size: self.number(profile::PREQ_LIMIT) as u16,
            poll_out_size: self.number(profile::PRES_LIMIT) as u16,
            response_time_ns: self.number(profile::RESPONSE_TIME_NS),
            device_type: self.number(profile::DEVICE_TYPE),
            vendor_id: self.number(profile::VENDOR_ID),
            product_code: self.number(profile::PRODUCT_CODE),
            revision_number: self.number(profile::REVISION_NUMBER),
            serial_number: self.number(profile::SERIAL_NUMBER),
            vendor_extension_1: 0,
            configuration_date: self.number(profile::CONFIGURATION_DATE),
            configuration_time: self.number(profile::CONFIGURATION_TIME),
            software_date: self.number(profile::SOFTWARE_DATE),
            software_time: self.number(profile::SOFTWARE_TIME),
            address: address(profile::ADDRESS),
            mask: address(profile::MASK),
            gateway: address(profile::GATEWAY),
            host_name: HostName(host_name),
            vendor_extension_2: &[0; 48],
        };
        let frame = self.asnd(NodeId::BROADCAST, Service::IdentResponse(ident));
        self.out.push(frame);
    }

    pub(super) fn send_status_response(&mut self) {
        let status = StatusResponse {
            exception_new: self.prepared.exception_new,
            exception_clear: self.prepared.exception_clear,
            links: Links::default(),
            request: self.queue.request(),
            state: self.prepared.state.code(),
            static_errors: self.prepared.static_errors,
            entries: ErrorEntries::new(&self.prepared.entries),
        };
        let frame = self.asnd(NodeId::BROADCAST, Service::StatusResponse(status));
        self.out.push(frame);
    }

    pub(super) fn sdo_frame(&self, peer: NodeId, outgoing: &OutgoingFrame) -> Vec<u8> {
        self.asnd(peer, Service::Sdo(outgoing.sdo()))
    }

    pub(super) fn asnd(&self, destination: NodeId, service: Service<'_>) -> Vec<u8> {
        self.frame(Vec::new(), multicast::ASND, destination, Body::Asnd(service), 0)
    }

    fn frame(
        &self,
        buffer: Vec<u8>,
        to: MacAddress,
        destination: NodeId,
        body: Body<'_>,
        len: usize,
    ) -> Vec<u8> {
        let message = Message { destination, source: self.node, body };
        frame::build_in(buffer, to, self.mac, &message, len)
    }

    /// An object of at most 32 bits.
    fn number(&self, object: crate::od::ObjectId) -> u32 {
        self.od.number(object) as u32
    }
}

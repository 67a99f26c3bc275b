//! What a managing node does with the frames it receives.

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, IdentResponse, Message, NmtCommandId, NmtRequest, NodeId, Pres, Sdo, Service,
    StatusResponse,
};

use super::dcf::{RESTORE, STORE};
use super::station::Signalling;
use super::{Event, Failure, ManagingNode, Phase, Step};
use crate::dll::Counter;
use crate::frame;
use crate::od::{Abort, profile};
use crate::sdo::{Done, Request};

/// Nodes whose configuration is written at the same time. They share the asynchronous phases, and
/// with too many of them each would wait longer for its next frame than a connection lasts.
const CONFIGURING: usize = 8;

impl ManagingNode {
    /// A frame was received, from its destination address on and without FCS. What is not for
    /// this node, or not POWERLINK's, is left alone.
    pub fn handle_frame(&mut self, now_ns: u64, frame: &[u8]) {
        let Some((mac, message)) = frame::parse(frame) else { return };
        if mac == self.mac || self.phase == Phase::Off {
            return;
        }
        let Message { source, destination, body } = message;
        let place = self.stations.iter().position(|station| station.node == source);
        match (body, place) {
            (Body::Soc(_) | Body::Soa(_) | Body::Preq(_) | Body::Amni, _) => {
                self.other_managing_node(now_ns, mac);
            }
            (Body::Pres(pres), Some(place)) => self.pres(now_ns, place, &pres),
            (Body::Asnd(service), _)
                if destination == NodeId::MN || destination == NodeId::BROADCAST =>
            {
                if let Some(place) = place {
                    self.service(now_ns, place, mac, &service);
                }
                if self.phase == (Phase::Reduced { target: source }) {
                    self.reduced_cycle(now_ns);
                }
            }
            _ => {}
        }
    }

    fn other_managing_node(&mut self, now_ns: u64, mac: MacAddress) {
        self.events.push_back(Event::OtherManagingNode(mac));
        if self.phase == Phase::Listen {
            self.timer_ns = now_ns + self.microseconds(profile::WAIT_NOT_ACTIVE_US);
        }
    }

    fn pres(&mut self, now_ns: u64, place: usize, pres: &Pres<'_>) {
        if self.phase != (Phase::Poll { station: place }) {
            // Too late: it was counted as lost.
            return;
        }
        let station = &mut self.stations[place];
        let node = station.node;
        station.good_polls = station.good_polls.saturating_add(1);
        station.request = pres.request;
        station.status_due |= pres.exception_new != station.acknowledged;
        Counter::loss_of_pres(node).good(&mut self.od);
        if pres.ready && !station.rpdo.is_empty() {
            self.events.push_back(if station.rpdo.reads(pres.pdo_version, pres.payload) {
                station.rpdo.receive(pres.payload, &mut self.od);
                Event::Received(node)
            } else {
                Event::Unreadable(node)
            });
        }
        self.told_state(now_ns, place, pres.state);
        self.poll_from(now_ns, place + 1);
    }

    fn service(&mut self, now_ns: u64, place: usize, mac: MacAddress, service: &Service<'_>) {
        match service {
            Service::IdentResponse(ident) => self.ident(now_ns, place, mac, ident),
            Service::StatusResponse(status) => self.status(now_ns, place, status),
            Service::Sdo(sdo) => self.sdo(now_ns, place, sdo),
            Service::NmtRequest(request) => self.nmt_request(request),
            Service::NmtCommand(_) | Service::Other { .. } => {}
        }
    }

    fn status(&mut self, now_ns: u64, place: usize, status: &StatusResponse<'_>) {
        let station = &mut self.stations[place];
        station.request = status.request;
        station.status_due = false;
        station.signalling = match (station.signalling, status.exception_clear) {
            (Signalling::Raise, true) => Signalling::Lower,
            (Signalling::Lower, false) => Signalling::Done,
            (other, _) => other,
        };
        if station.signalling == Signalling::Done {
            station.acknowledged = status.exception_new;
        }
        self.told_state(now_ns, place, status.state);
    }

    fn sdo(&mut self, now_ns: u64, place: usize, sdo: &Sdo<'_>) {
        let station = &mut self.stations[place];
        let done = station.sdo.receive(now_ns, sdo, &mut station.frames);
        if let Some(done) = done {
            self.configured(now_ns, place, &done);
        }
    }

    /// A controlled node asks for a command: it gets it, where it is one that a node may ask for.
    fn nmt_request(&mut self, request: &NmtRequest<'_>) {
        let state_command = request.command.extended().is_some();
        if state_command && request.target.is_controlled() {
            self.commands.push_back((request.target, request.command));
        }
    }

    fn ident(&mut self, now_ns: u64, place: usize, mac: MacAddress, ident: &IdentResponse<'_>) {
        let configuring = self.stations.iter().filter(|other| other.step == Step::Configure);
        let busy = configuring.count() >= CONFIGURING;
        let station = &mut self.stations[place];
        if station.step != Step::Identify {
            return;
        }
        station.mac = Some(mac);
        station.request = ident.request;
        station.state = ident.state;
        if let Err(mismatch) = station.settings.check(ident) {
            // It stays what it is: after a while it is asked again, and nothing else.
            self.events.push_back(Event::Failed(station.node, Failure::Identity(mismatch)));
            return self.leave_alone(now_ns, place);
        }
        if station.settings.is_configured(ident) {
            return self.go(now_ns, place, Step::Configured);
        }
        if busy {
            // Its turn comes: it is asked again.
            return;
        }
        if core::mem::replace(&mut station.downloaded, true) {
            return self.fail(now_ns, place, Failure::NotConfigured);
        }
        self.download(now_ns, place);
    }

    /// Writes a node's configuration.
    fn download(&mut self, now_ns: u64, place: usize) {
        let station = &mut self.stations[place];
        let requests = station.settings.download(&self.od, station.node, station.restored);
        for request in requests {
            station.sdo.request(now_ns, request, &mut station.frames);
        }
        self.go(now_ns, place, Step::Configure);
    }

    /// A request of a node's configuration is done.
    pub(super) fn configured(&mut self, now_ns: u64, place: usize, done: &Done) {
        let Request::Write(object, _) = done.request else { return };
        let station = &mut self.stations[place];
        let optional = object == RESTORE || object == STORE;
        match done.result {
            // Its defaults are effective after a reset; what is to be written comes then.
            Ok(_) if object == RESTORE => {
                station.restored = true;
                self.commands.push_back((station.node, NmtCommandId::RESET_NODE));
                self.leave_alone(now_ns, place);
            }
            Err(abort) if !optional || abort == Abort::TIME_OUT => {
                self.fail(now_ns, place, Failure::Configuration(object, abort));
            }
            _ if station.sdo.pending() == 0 => {
                self.commands.push_back((station.node, NmtCommandId::RESET_CONFIGURATION));
                self.leave_alone(now_ns, place);
            }
            _ => {}
        }
    }
}

//! Handles the frames that a managing node receives.

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, IdentResponse, Message, NmtCommand, NmtCommandId, NmtRequest, NodeId, Pres, Sdo, Service,
    StatusResponse,
};

use super::dcf::{RESTORE, STORE, is_optional};
use super::order::Order;
use super::station::{Signaling, Station};
use super::{Event, Failure, ManagingNode, Phase, Step};
use crate::dll::Counter;
use crate::frame;
use crate::od::{Abort, profile};
use crate::sdo::{CompletedRequest, Request};

/// Nodes that are configured in parallel. They share the asynchronous phases; with more of them, the wait of
/// each for its next frame would exceed the timeout of its connection.
const CONFIGURING: usize = 8;

/// Maximum number of queued commands and SDO frames that other nodes request.
pub(super) const WAITING: usize = 64;

impl ManagingNode {
    /// Handles a received frame, starting at its destination address and without FCS. Frames for other nodes or of
    /// other protocols are ignored.
    pub(super) fn receive(&mut self, now_ns: u64, frame: &[u8]) {
        let Some((mac, message)) = frame::parse(frame) else {
            return self.unreadable(now_ns, frame);
        };
        if mac == self.mac || self.phase == Phase::Off {
            return;
        }
        let Message { source, destination, body } = message;
        let place = self.stations.iter().position(|station| station.node == source);
        if place.is_some_and(|place| self.is_foreign(now_ns, place, mac, &body)) {
            return;
        }
        match (body, place) {
            (Body::Soc(_) | Body::Soa(_) | Body::Preq(_) | Body::Amni, _) => {
                self.other_managing_node(now_ns, mac);
            }
            // No network yet, or not its own.
            _ if !self.state.answers() => {}
            (Body::Pres(pres), Some(place)) => self.pres(now_ns, place, &pres),
            (Body::Asnd(service), _)
                if destination == NodeId::MN || destination == NodeId::BROADCAST =>
            {
                match place {
                    Some(place) => self.service(now_ns, place, mac, &service),
                    None => self.serve_guest(now_ns, source, &service),
                }
                if self.phase == (Phase::Reduced { target: source }) {
                    self.reduced_cycle(now_ns);
                }
            }
            _ => {}
        }
    }

    /// Handles an invalid message: the format of a node of the network is wrong (E_DLL_INVALID_FORMAT).
    fn unreadable(&mut self, now_ns: u64, frame: &[u8]) {
        let Some(broken) = frame::broken(frame) else { return };
        let is_it =
            |station: &Station| station.node == broken.source && station.mac == Some(broken.mac);
        let place = self.stations.iter().position(is_it);
        if let Some(place) = place.filter(|place| self.stations[*place].step.is_polled()) {
            self.fail(now_ns, place, Failure::InvalidFormat);
        }
    }

    /// Whether a frame with the id of a node is from another address than its IdentResponse: it is counted,
    /// reported and ignored.
    fn is_foreign(&mut self, now_ns: u64, place: usize, mac: MacAddress, body: &Body<'_>) -> bool {
        let station = &mut self.stations[place];
        // A device may be replaced while the node is absent.
        let identifies =
            station.step == Step::Identify && matches!(body, Body::Asnd(Service::IdentResponse(_)));
        if identifies || station.mac.is_none_or(|known| known == mac) {
            return false;
        }
        station.foreign += 1;
        if self.foreign_reports.is_due(now_ns) {
            self.events.push_back(Event::ForeignAddress(station.node, mac));
        }
        true
    }

    fn other_managing_node(&mut self, now_ns: u64, mac: MacAddress) {
        self.foreign_frames += 1;
        if self.other_reports.is_due(now_ns) {
            self.events.push_back(Event::OtherManagingNode(mac));
        }
        if self.phase == Phase::Listen {
            self.timer_ns = now_ns + self.microseconds(profile::WAIT_NOT_ACTIVE_US);
        }
    }

    fn pres(&mut self, now_ns: u64, place: usize, pres: &Pres<'_>) {
        if self.phase != (Phase::Poll { station: place }) {
            return self.late_pres(now_ns, place);
        }
        let station = &mut self.stations[place];
        let node = station.node;
        station.good_polls = station.good_polls.saturating_add(1);
        station.request = pres.request;
        station.status_due |= pres.exception_new != station.acknowledged;
        Counter::loss_of_pres(node).good(&mut self.od);
        Counter::late_pres(node).good(&mut self.od);
        if pres.ready && !station.rpdo.is_empty() {
            self.events.push_back(if station.rpdo.reads(pres.pdo_version, pres.payload) {
                station.rpdo.receive(pres.payload, &mut self.od);
                Event::Received(node)
            } else {
                Event::Unreadable(node)
            });
        }
        self.state_reported(now_ns, place, pres.state);
        self.poll_from(now_ns, place + 1);
    }

    /// Handles a response after its timeout, when it was already counted as lost.
    fn late_pres(&mut self, now_ns: u64, place: usize) {
        let station = &mut self.stations[place];
        if !core::mem::take(&mut station.may_be_late) {
            return;
        }
        let node = station.node;
        self.events.push_back(Event::LatePres(node));
        if Counter::late_pres(node).error(&mut self.od) {
            self.fail(now_ns, place, Failure::LatePres);
        }
    }

    fn service(&mut self, now_ns: u64, place: usize, mac: MacAddress, service: &Service<'_>) {
        match service {
            Service::IdentResponse(ident) => self.ident(now_ns, place, mac, ident),
            Service::StatusResponse(status) => self.status(now_ns, place, status),
            Service::Sdo(sdo) => self.sdo(now_ns, place, sdo),
            Service::NmtRequest(request) => self.nmt_request(place, request),
            Service::NmtCommand(_) | Service::Other { .. } => {}
        }
    }

    fn status(&mut self, now_ns: u64, place: usize, status: &StatusResponse<'_>) {
        if self.status_requested.take_if(|asked| *asked == place).is_some() {
            Counter::loss_of_status(self.stations[place].node).good(&mut self.od);
        }
        let station = &mut self.stations[place];
        station.request = status.request;
        station.status_due = false;
        station.signaling = match (station.signaling, status.exception_clear) {
            (Signaling::Raise, true) => Signaling::Lower,
            (Signaling::Lower, false) => Signaling::Done,
            (other, _) => other,
        };
        if station.signaling == Signaling::Done {
            let news = station.acknowledged != status.exception_new;
            station.acknowledged = status.exception_new;
            if news {
                station.emergency_new = true;
                let (node, entries) = (station.node, status.entries.iter());
                self.events.extend(entries.map(|entry| Event::Reported(node, entry)));
            }
        }
        // A node may prepare its StatusResponse at its previous request, however long ago. A polled one reports its
        // current state in each cycle.
        if !self.stations[place].polled {
            self.state_reported(now_ns, place, status.state);
        }
    }

    /// Ends the phase of a StatusRequest.
    pub(super) fn status_over(&mut self, now_ns: u64) {
        let Some(place) = self.status_requested.take() else { return };
        let Station { node, step, .. } = self.stations[place];
        if matches!(step, Step::Identify | Step::Reset) {
            // It was reset meanwhile, perhaps before it could answer.
            return;
        }
        self.events.push_back(Event::LostStatus(node));
        // A reduced cycle is short: a node that is not scheduled for a moment would fail in it.
        self.stations[place].status_after_ns = now_ns + self.cycle_ns;
        if Counter::loss_of_status(node).error(&mut self.od) {
            self.fail(now_ns, place, Failure::LossOfStatus);
        }
    }

    fn sdo(&mut self, now_ns: u64, place: usize, sdo: &Sdo<'_>) {
        if self.serve_station(now_ns, place, sdo) {
            return;
        }
        let station = &mut self.stations[place];
        let done = station.sdo.receive(now_ns, sdo, &mut station.frames);
        // A frame without room is sent again, as if it was lost.
        station.frames.truncate(WAITING);
        if let Some(done) = done {
            self.sdo_done(now_ns, place, done);
        }
    }

    /// Handles a command requested by a controlled node: sends it, if nodes may request it, or else answers
    /// that it is invalid.
    fn nmt_request(&mut self, place: usize, request: &NmtRequest<'_>) {
        if self.commands.len() >= WAITING {
            // A flood of requests is dropped; a sender can repeat its request.
            return;
        }
        if !self.execute(request) {
            self.command(self.stations[place].node, NmtCommandId::INVALID_SERVICE);
        }
    }

    /// Executes a requested command; returns false if it is invalid.
    pub(super) fn execute(&mut self, request: &NmtRequest<'_>) -> bool {
        let (command, target) = (request.command, request.target);
        if self.request_for_all(command, request.data) {
            return true;
        }
        let asked = self.stations.iter_mut().find(|station| station.node == target);
        match (command, asked) {
            (NmtCommandId::IDENT_REQUEST, Some(station)) => station.ident_due = true,
            (NmtCommandId::STATUS_REQUEST, Some(station)) => station.status_due = true,
            (command, Some(_)) if command.extended().is_some() => self.command(target, command),
            (NmtCommandId::NET_HOST_NAME_SET, Some(_)) => self.set_host_name(target, request.data),
            _ => return false,
        }
        true
    }

    /// Handles a request of a service for all nodes; returns false for others.
    fn request_for_all(&mut self, command: NmtCommandId, data: &[u8]) -> bool {
        if let (NmtCommandId::FLUSH_ARP_ENTRY, [node, ..]) = (command, data) {
            self.flush_arp(NodeId(*node));
            return true;
        }
        match (command.plain(), NmtCommand { command, data }.nodes()) {
            (Some(plain), Ok(nodes)) => self.command_nodes(&nodes, plain),
            _ => self.publish(command),
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
            // It keeps its step: after a while it receives another IdentRequest, nothing else.
            self.record_failure(place, Failure::Identity(mismatch));
            return self.suspend_requests(now_ns, place);
        }
        if station.settings.is_configured(ident) {
            return self.go(now_ns, place, Step::Configured);
        }
        if busy {
            // It receives another IdentRequest in turn.
            return;
        }
        if core::mem::replace(&mut station.downloaded, true) {
            return self.fail(now_ns, place, Failure::NotConfigured);
        }
        self.download(now_ns, place);
    }

    /// Starts writing a node's configuration.
    fn download(&mut self, now_ns: u64, place: usize) {
        let station = &mut self.stations[place];
        let requests = station.settings.download(&self.od, station.node, station.restored);
        for request in requests {
            station.sdo.request(now_ns, request, &mut station.frames);
        }
        self.go(now_ns, place, Step::Configure);
    }

    /// Handles a completed request of a node's configuration.
    pub(super) fn configured(&mut self, now_ns: u64, place: usize, done: &CompletedRequest) {
        let Request::Write(object, _) = done.request else { return };
        let station = &mut self.stations[place];
        let is_command = object == RESTORE || object == STORE;
        match done.result {
            // Its defaults apply after a reset; the configuration is written then.
            Ok(_) if object == RESTORE => {
                station.restored = true;
                self.commands.push_back(Order::plain(station.node, NmtCommandId::RESET_NODE));
                return self.suspend_requests(now_ns, place);
            }
            Ok(_) => {}
            Err(abort) if is_command && abort != Abort::TIME_OUT => {}
            Err(Abort::NO_OBJECT | Abort::NO_SUB_INDEX) if is_optional(object) => {
                if station.skipped.insert(object) {
                    self.events.push_back(Event::Skipped(station.node, object));
                }
            }
            Err(abort) => {
                return self.fail(now_ns, place, Failure::Configuration(object, abort));
            }
        }
        if self.stations[place].sdo.pending() == 0 {
            let node = self.stations[place].node;
            self.commands.push_back(Order::plain(node, NmtCommandId::RESET_CONFIGURATION));
            self.suspend_requests(now_ns, place);
        }
    }
}

//! Handles the frames that a controlled node receives.

use alloc::collections::VecDeque;

use onbeat_wire::powerlink::{
    Body, Message, MessageType, NmtCommand, NmtCommandId, NodeId, PdoVersion, Preq, Pres,
    RequestedService, Sdo, Service, Soa, Soc,
};

use super::{Access, ControlledNode, Event};
use crate::code;
use crate::dll::CycleEvent;
use crate::frame;
use crate::nmt::{self, State};

impl ControlledNode {
    /// Handles a received frame, starting at its destination address and without FCS. Frames for other nodes or of
    /// other protocols are ignored.
    pub(super) fn receive(&mut self, now_ns: u64, frame: &[u8]) {
        let Some((mac, message)) = frame::parse(frame) else {
            return self.unreadable(now_ns, frame);
        };
        let Message { destination, source, ref body } = message;
        let mine = destination == self.node || destination == NodeId::BROADCAST;
        if !mine || source == self.node || !self.state.communicates() {
            return;
        }
        let from_mn = match body {
            Body::Amni => return self.announced(now_ns, source, mac),
            _ => self.is_from_manager(now_ns, mac, &message),
        };
        // Another node may send process data or access objects, but not under the id of the managing node.
        let from_node = from_mn || source != NodeId::MN;
        match body {
            Body::Soc(soc) if from_mn => self.soc(now_ns, soc),
            Body::Preq(preq) if from_mn => self.preq(now_ns, preq),
            Body::Pres(pres) if from_node => self.pres(source, pres),
            Body::Soa(soa) if from_mn => self.soa(now_ns, soa),
            Body::Asnd(Service::NmtCommand(command)) if from_mn => {
                self.nmt_command(now_ns, destination, command);
            }
            Body::Asnd(Service::Sdo(sdo)) if from_node && destination == self.node => {
                self.sdo(now_ns, source, sdo);
            }
            _ => {}
        }
    }

    /// Handles a frame that is not a valid message. An invalid poll of this node means that both ends use
    /// different formats (E_DLL_INVALID_FORMAT); the sender of any other is unknown.
    fn unreadable(&mut self, now_ns: u64, frame: &[u8]) {
        let Some(broken) = frame::broken(frame) else { return };
        let poll = broken.kind == MessageType::PREQ && broken.source == NodeId::MN;
        if poll && broken.destination == self.node && self.state.is_polled() {
            if self.manager.is_foreign(broken.mac) {
                return self.ignore(now_ns, broken.mac);
            }
            self.events.push_back(Event::InvalidFormat);
            self.communication_error(code::INVALID_FORMAT);
            self.nmt(now_ns, nmt::Event::ErrorCondition);
        }
    }

    fn soc(&mut self, now_ns: u64, soc: &Soc) {
        self.time = soc.net_time;
        self.nmt(now_ns, nmt::Event::Soc);
        if self.state.is_cyclic() {
            self.multiplex.soc(soc.multiplexed_cycle_completed, self.is_in_cycle());
            self.cycle_event(now_ns, CycleEvent::Soc);
            self.soc_jitter(now_ns);
            self.expect_soc(now_ns);
            self.tpdo.transmit(&self.od, &mut self.payload);
            self.events.push_back(Event::Cycle);
        }
    }

    fn preq(&mut self, now_ns: u64, preq: &Preq<'_>) {
        if !self.state.is_polled() {
            return;
        }
        self.multiplex.preq(preq.multiplexed_slot);
        // The response first: everything else is less urgent.
        if !self.automatic.answered && self.is_in_time(now_ns) {
            self.send_pres();
        }
        self.cycle_event(now_ns, CycleEvent::Preq);
        self.signaling.acknowledge(preq.exception_acknowledge);
        if preq.ready {
            self.process_data(NodeId::NONE, preq.pdo_version, preq.payload);
        }
    }

    fn pres(&mut self, source: NodeId, pres: &Pres<'_>) {
        if pres.ready {
            self.process_data(source, pres.pdo_version, pres.payload);
        }
    }

    /// Copies valid process data by the channels of their sender.
    fn process_data(&mut self, source: NodeId, version: PdoVersion, payload: &[u8]) {
        if !matches!(self.state, State::ReadyToOperate | State::Operational) {
            return;
        }
        let mut error = None;
        for rpdo in self.rpdos.iter_mut().filter(|rpdo| rpdo.source == source) {
            let reads = rpdo.channel.reads(version, payload);
            self.events.push_back(if reads {
                rpdo.channel.receive(payload, &mut self.od);
                Event::Received(source)
            } else {
                Event::Unreadable(source)
            });
            // Reported once, not in every cycle.
            if !core::mem::replace(&mut rpdo.unreadable, !reads) && !reads {
                let same = version.main() == rpdo.channel.version.main();
                error = Some(if same { code::PDO_SHORT } else { code::PDO_VERSION });
            }
        }
        if let Some(error) = error {
            self.report(code::OCCURRED, error, u64::from(source.0));
        }
    }

    fn soa(&mut self, now_ns: u64, soa: &Soa) {
        self.nmt(now_ns, nmt::Event::Soa);
        self.cycle_event(now_ns, CycleEvent::Soa);
        if soa.target == self.node && self.state.answers() {
            self.requested(now_ns, soa);
        }
        self.prepare_responses();
        if self.automatic.on && self.state.is_cyclic() {
            self.tpdo.transmit(&self.od, &mut self.payload);
        }
    }

    fn requested(&mut self, now_ns: u64, soa: &Soa) {
        let answers = self.is_in_time(now_ns);
        match soa.service {
            RequestedService::IDENT_REQUEST if answers => self.send_ident_response(),
            RequestedService::STATUS_REQUEST => {
                if answers {
                    self.send_status_response();
                }
                self.signaling.reset(soa.exception_reset);
                self.signaling.acknowledge(soa.exception_acknowledge);
            }
            service if answers => {
                self.out.extend(self.queue.take(service));
                self.reset_after_answer(now_ns);
            }
            _ => {}
        }
    }

    /// Handles a frame whose slot is over: a SoA if the next SoC or SoA was received already, a PReq if the SoC of
    /// the next cycle was. As any other, but a request is not answered: the answer would disturb the slot of another
    /// node.
    pub fn handle_late_frame(&mut self, now_ns: u64, frame: &[u8]) {
        self.late = true;
        self.receive(now_ns, frame);
        self.late = false;
    }

    /// The number of requests that were not answered, since their slot was over.
    pub fn late_requests(&self) -> u64 {
        self.late_requests
    }

    /// Whether a request to this node may be answered. A late one is counted and reported.
    fn is_in_time(&mut self, now_ns: u64) -> bool {
        if self.late {
            self.late_requests += 1;
            if self.late_reports.is_due(now_ns) {
                self.events.push_back(Event::LateRequest(self.late_requests));
            }
        }
        !self.late
    }

    fn nmt_command(&mut self, now_ns: u64, destination: NodeId, telegram: &NmtCommand<'_>) {
        match telegram.to(self.node, destination) {
            Ok(Some(NmtCommandId::ENABLE_READY_TO_OPERATE)) => {
                self.enabled = self.state == State::PreOperational2;
                self.become_ready(now_ns);
            }
            Ok(Some(command)) => match nmt::Event::from_command(command) {
                Some(event) => self.nmt(now_ns, event),
                None => self.managing_command(destination, telegram),
            },
            Ok(None) | Err(_) => {}
        }
    }

    fn sdo(&mut self, now_ns: u64, peer: NodeId, sdo: &Sdo<'_>) {
        if !self.state.answers() {
            return;
        }
        let ControlledNode { od, events, sdo: server, store, .. } = self;
        let mut frames = VecDeque::new();
        let mut access = Access { od, events, store: store.as_mut() };
        server.receive(now_ns, peer, sdo, &mut access, &mut frames);
        for (to, frame) in &frames {
            self.queue_sdo(*to, frame);
        }
        let last = frames.back().filter(|(to, _)| *to == peer);
        let answer = last.map(|(_, frame)| self.sdo_frame(peer, frame));
        self.commanded_itself(now_ns, answer);
    }
}

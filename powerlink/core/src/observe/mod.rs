//! Analysis of a bus by its frames: those of a node, a bus observer or a capture.
//!
//! [`Observer::observe`] takes frames in the order of the bus, and reports the meaning of each: cycle times,
//! response times, missing responses, states.

mod address;
mod observation;
mod slots;

use alloc::collections::BTreeMap;

use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::{
    Body, IdentResponse, Message, NmtCommandId, NmtState, NodeId, RequestedService, Service, Soc,
};
use onbeat_wire::{EtherType, MacAddress};

use address::{Addresses, Sender};
use slots::Slots;

pub use address::ForeignFrames;
pub use observation::{Frames, Identity, Node, Observation, Request, Requests};

/// Polls without a response after which a node that never sent a frame is hidden, not silent: a managing node
/// polls only nodes that were identified, and stops after fewer losses by default (0x1C0B/3).
const HIDDEN_POLLS: u64 = 16;

/// Difference between the increment of RelativeTime and the observed interval beyond which they are not one cycle: a
/// managing node was restarted or its time was set, or a SoC is forged. Cycles are deferred by less.
const JUMP_NS: u64 = 1_000_000_000;

/// A request that the managing node waits for.
#[derive(Debug, Clone, Copy)]
struct PendingRequest {
    node: NodeId,
    request: Request,
    at_ns: u64,
}

/// Analyzes the frames of a bus.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    nodes: BTreeMap<NodeId, Node>,
    frames: Frames,
    pending: Option<PendingRequest>,
    /// The last SoC, and its time.
    soc: Option<(Soc, u64)>,
    /// The interval before it.
    cycle_ns: u64,
    slots: Slots,
    addresses: Addresses,
}

impl Observer {
    /// Returns an observer without observations.
    pub fn new() -> Self {
        Self::default()
    }

    /// The observations of each node; the managing node is 240.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    /// Frames by kind.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Frames with the id of a node from another address than the node's, by id and address; of at most 64 senders.
    /// They count as frames of the bus and have no other effect on its analysis.
    pub fn foreign(&self) -> &BTreeMap<(NodeId, MacAddress), ForeignFrames> {
        &self.addresses.foreign
    }

    /// Number of cycles in a multiplexed cycle, if there is one.
    pub fn multiplexed_cycles(&self) -> Option<u64> {
        self.slots.length()
    }

    /// Nodes that take part, but whose frames are not visible at this point of the bus: a managing node whose
    /// polls are answered but not observed, and nodes that are polled continuously and never observed. This
    /// occurs where only one direction is observed: on the interface of a node, whose packet sockets (without
    /// qdisc), AF_XDP and XDP transmit past captures, and XDP receives before them.
    pub fn hidden(&self) -> impl Iterator<Item = NodeId> + '_ {
        let heard = |node: &Node| node.mac.is_some();
        let manager = self.nodes.get(&NodeId::MN).is_some_and(heard);
        let controlled = || self.nodes.iter().filter(|(id, _)| **id != NodeId::MN);
        let responds = controlled().any(|(_, node)| node.responses > 0);
        // Only responses carry a state.
        let answers = controlled().any(|(_, node)| node.state.is_some());
        let no_polls = responds && self.frames.preq == 0 || answers && !manager;
        let silent = controlled().filter(move |(_, node)| {
            !heard(node) && node.requests(Request::Poll).unanswered >= HIDDEN_POLLS
        });
        silent.map(|(id, _)| *id).chain(no_polls.then_some(NodeId::MN))
    }

    /// Whether the polls of a node are visible, and thus whether its responses are known to be solicited. A switch
    /// forwards PReq only to its node, and PRes to all: a controlled node observes its own polls, and the responses
    /// of all nodes.
    pub fn sees_polls_of(&self, node: NodeId) -> bool {
        let polled = |node: &Node| node.requests(Request::Poll).sent > 0;
        let of_others = || self.nodes.values().filter(|node| polled(node)).count() > 1;
        self.nodes.get(&node).is_none_or(|node| polled(node) || node.responses == 0) || of_others()
    }

    /// Handles a frame of the bus, starting at its destination address; `report` receives its meaning. Times are
    /// nanoseconds of any clock.
    pub fn observe(&mut self, time_ns: u64, frame: &[u8], mut report: impl FnMut(Observation)) {
        let Ok(header) = Header::new_checked(frame) else {
            self.frames.malformed += 1;
            return;
        };
        if header.ethertype() != EtherType::POWERLINK {
            self.frames.foreign += 1;
            self.other_protocol(time_ns, header.source(), &mut report);
            return;
        }
        let Ok(message) = Message::parse(header.payload()) else {
            self.frames.malformed += 1;
            return;
        };
        // A redundant managing node sends them with the id of the managing node as well.
        let of_manager = matches!(message.body, Body::Soc(_) | Body::Preq(_) | Body::Soa(_));
        if of_manager && message.source != NodeId::MN {
            self.frames.malformed += 1;
            return;
        }
        self.frames.count(&message.body);
        if !self.is_of_node(time_ns, header.source(), &message, &mut report) {
            return;
        }
        match message.body {
            Body::Soc(soc) => {
                self.next_request(None, &mut report);
                self.cycle(soc, time_ns, &mut report);
            }
            Body::Preq(preq) => {
                let slot = if preq.multiplexed_slot { self.slots.place() } else { None };
                self.node(message.destination).slot = slot;
                let (node, request) = (message.destination, Request::Poll);
                self.next_request(
                    Some(PendingRequest { node, request, at_ns: time_ns }),
                    &mut report,
                );
            }
            Body::Pres(pres) => {
                self.node(message.source).responses += 1;
                // No frame requests a managing node's own response.
                if message.source != NodeId::MN {
                    self.answer(message.source, &[Request::Poll], time_ns, &mut report);
                }
                self.state(message.source, pres.state, &mut report);
            }
            Body::Soa(soa) => {
                let request = match soa.service {
                    RequestedService::NO_SERVICE => None,
                    RequestedService::IDENT_REQUEST => Some(Request::Ident),
                    RequestedService::STATUS_REQUEST => Some(Request::Status),
                    _ => Some(Request::Invite),
                };
                // The managing node needs no invite for its own phase.
                let request = request.filter(|_| soa.target != NodeId::MN);
                let node = soa.target;
                self.next_request(
                    request.map(|request| PendingRequest { node, request, at_ns: time_ns }),
                    &mut report,
                );
                self.state(message.source, soa.state, &mut report);
            }
            Body::Asnd(service) => self.service(&message, &service, time_ns, &mut report),
            Body::Amni => {}
        }
    }

    /// Handles a frame of another protocol: a node answers an invitation with any frame.
    fn other_protocol(
        &mut self,
        time_ns: u64,
        mac: MacAddress,
        report: &mut impl FnMut(Observation),
    ) {
        let Some(PendingRequest { node, request: Request::Invite, .. }) = self.pending else {
            return;
        };
        if self.nodes.get(&node).is_some_and(|known| known.mac == Some(mac)) {
            self.answer(node, &[Request::Invite], time_ns, report);
        }
    }

    /// Handles the next request of the managing node: the previous one is unanswered.
    fn next_request(&mut self, next: Option<PendingRequest>, report: &mut impl FnMut(Observation)) {
        if let Some(next) = next {
            self.node(next.node).count(next.request).sent += 1;
        }
        let Some(PendingRequest { node, request, .. }) =
            core::mem::replace(&mut self.pending, next)
        else {
            return;
        };
        self.node(node).count(request).unanswered += 1;
        report(Observation::Unanswered { node, request });
    }

    fn answer(
        &mut self,
        node: NodeId,
        to: &[Request],
        time_ns: u64,
        report: &mut impl FnMut(Observation),
    ) {
        let asked = self.pending.take_if(|asked| asked.node == node && to.contains(&asked.request));
        let Some(PendingRequest { request, at_ns, .. }) = asked else {
            self.node(node).unsolicited += 1;
            return report(Observation::Unsolicited { node });
        };
        report(Observation::Response { node, request, delay_ns: time_ns.saturating_sub(at_ns) });
    }

    fn service(
        &mut self,
        message: &Message<'_>,
        service: &Service<'_>,
        time_ns: u64,
        report: &mut impl FnMut(Observation),
    ) {
        let node = message.source;
        if node != NodeId::MN {
            let to: &[Request] = match service {
                Service::IdentResponse(_) => &[Request::Ident],
                Service::StatusResponse(_) => &[Request::Status],
                _ => &[Request::Invite],
            };
            self.answer(node, to, time_ns, report);
        }
        match service {
            Service::IdentResponse(ident) => self.identity(node, ident, report),
            Service::StatusResponse(status) => self.state(node, status.state, report),
            Service::NmtCommand(command) => {
                let (node, command) = (message.destination, command.command);
                report(Observation::Command { node, command });
                self.commanded(node, command);
            }
            _ => {}
        }
    }

    /// Handles a reset of a node: its state is unknown until its next response.
    fn commanded(&mut self, to: NodeId, command: NmtCommandId) {
        let resets = matches!(
            command,
            NmtCommandId::RESET_NODE
                | NmtCommandId::RESET_COMMUNICATION
                | NmtCommandId::RESET_CONFIGURATION
                | NmtCommandId::SW_RESET
        );
        for (node, known) in &mut self.nodes {
            if resets && *node != NodeId::MN && (to == *node || to == NodeId::BROADCAST) {
                known.state = None;
            }
        }
    }

    fn identity(
        &mut self,
        node: NodeId,
        ident: &IdentResponse<'_>,
        report: &mut impl FnMut(Observation),
    ) {
        self.state(node, ident.state, report);
        let identity = Identity::of(ident);
        let known = self.node(node);
        if known.identity.replace(identity) != Some(identity) {
            report(Observation::Identified { node, identity });
        }
    }

    fn state(&mut self, node: NodeId, to: NmtState, report: &mut impl FnMut(Observation)) {
        let known = self.node(node);
        let from = known.state.replace(to);
        if from != Some(to) {
            report(Observation::State { node, from, to });
        }
    }

    /// Whether a message is of the node that it claims to be.
    fn is_of_node(
        &mut self,
        time_ns: u64,
        mac: MacAddress,
        message: &Message<'_>,
        report: &mut impl FnMut(Observation),
    ) -> bool {
        let node = message.source;
        let sender = self.addresses.judge(time_ns, self.cycle_ns, mac, message);
        let known = self.node(node);
        match sender {
            Sender::Node => {}
            Sender::Replaced(before) => {
                known.addresses += 1;
                report(Observation::OtherAddress { node, before, mac });
            }
            Sender::Successor(before) => {
                known.takeovers += 1;
                report(Observation::TakenOver { before, mac });
            }
            Sender::Foreign(of_node) => {
                known.foreign += 1;
                report(Observation::ForeignAddress { node, of_node, mac });
                return false;
            }
        }
        known.mac = Some(mac);
        true
    }

    fn cycle(&mut self, soc: Soc, time_ns: u64, report: &mut impl FnMut(Observation)) {
        self.slots.soc(&soc);
        let Some((last, last_ns)) = self.soc.replace((soc, time_ns)) else { return };
        // A restarted managing node starts at 0: the interval before it is not a cycle.
        let step_us = soc.relative_time_us.checked_sub(last.relative_time_us);
        let Some(step_us) = step_us.filter(|step| *step > 0) else { return };
        let interval_ns = time_ns.saturating_sub(last_ns);
        let step_ns = step_us.saturating_mul(1000);
        if interval_ns.abs_diff(step_ns) > JUMP_NS {
            return;
        }
        self.cycle_ns = interval_ns;
        report(Observation::Cycle { interval_ns, step_ns });
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.entry(node).or_default()
    }
}

#[cfg(test)]
mod tests;

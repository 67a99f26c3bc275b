//! What a bus does, from its frames alone: those of a node, a bus observer or a capture.
//!
//! [`Observer::observe`] takes frames in the order in which they were on the bus, and tells what each
//! one means: how long the cycle was, how soon a node answered, that it did not, in which state it is.

mod seen;
mod slots;

use alloc::collections::BTreeMap;

use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::{
    Body, IdentResponse, Message, NmtCommandId, NmtState, NodeId, RequestedService, Service, Soc,
};
use onbeat_wire::{EtherType, MacAddress};

use slots::Slots;

pub use seen::{Frames, Identity, Node, Observation, Request, Requests};

/// Polls without a response after which a node that never sent a frame is not silent, but hidden: a
/// managing node polls only nodes that identified themselves, and stops after fewer losses by default
/// (0x1C0B/3).
const HIDDEN_POLLS: u64 = 16;

/// What a managing node waits for an answer to.
#[derive(Debug, Clone, Copy)]
struct Asked {
    node: NodeId,
    request: Request,
    at_ns: u64,
}

/// Looks at the frames of a bus.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    nodes: BTreeMap<NodeId, Node>,
    frames: Frames,
    asked: Option<Asked>,
    /// The last SoC, and when it was.
    soc: Option<(Soc, u64)>,
    slots: Slots,
}

impl Observer {
    /// One that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of each node; the managing node is 240.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    /// Frames by kind.
    pub fn frames(&self) -> &Frames {
        &self.frames
    }

    /// Cycles of a multiplexed cycle, where there is one.
    pub fn multiplexed_cycles(&self) -> Option<u64> {
        self.slots.length()
    }

    /// Nodes that take part, though their frames cannot be seen at this place of the bus: a managing node
    /// whose polls are answered and not seen, and nodes that are polled on and on and never seen. So it is
    /// where one direction is observed: on the interface of a node, whose packet sockets (without qdisc),
    /// AF_XDP and XDP transmit past captures, and XDP receives before them.
    pub fn hidden(&self) -> impl Iterator<Item = NodeId> + '_ {
        let heard = |node: &Node| node.mac.is_some();
        let manager = self.nodes.get(&NodeId::MN).is_some_and(heard);
        let controlled = || self.nodes.iter().filter(|(id, _)| **id != NodeId::MN);
        let responds = controlled().any(|(_, node)| node.responses > 0);
        // A state is in responses only.
        let answers = controlled().any(|(_, node)| node.state.is_some());
        let no_polls = responds && self.frames.preq == 0 || answers && !manager;
        let silent = controlled().filter(move |(_, node)| {
            !heard(node) && node.requests(Request::Poll).unanswered >= HIDDEN_POLLS
        });
        silent.map(|(id, _)| *id).chain(no_polls.then_some(NodeId::MN))
    }

    /// A frame was on the bus, from its destination address on; `tell` gets what it means. Times are
    /// nanoseconds of any clock.
    pub fn observe(&mut self, time_ns: u64, frame: &[u8], mut tell: impl FnMut(Observation)) {
        let Ok(header) = Header::new_checked(frame) else {
            self.frames.malformed += 1;
            return;
        };
        if header.ethertype() != EtherType::POWERLINK {
            self.frames.foreign += 1;
            return;
        }
        let Ok(message) = Message::parse(header.payload()) else {
            self.frames.malformed += 1;
            return;
        };
        self.frames.count(&message.body);
        self.address(message.source, header.source(), &mut tell);
        match message.body {
            Body::Soc(soc) => {
                self.ask(None, &mut tell);
                self.cycle(soc, time_ns, &mut tell);
            }
            Body::Preq(preq) => {
                let slot = if preq.multiplexed_slot { self.slots.place() } else { None };
                self.node(message.destination).slot = slot;
                let (node, request) = (message.destination, Request::Poll);
                self.ask(Some(Asked { node, request, at_ns: time_ns }), &mut tell);
            }
            Body::Pres(pres) => {
                self.node(message.source).responses += 1;
                // A managing node's own response is not asked for by a frame.
                if message.source != NodeId::MN {
                    self.answer(message.source, &[Request::Poll], time_ns, &mut tell);
                }
                self.state(message.source, pres.state, &mut tell);
            }
            Body::Soa(soa) => {
                let request = match soa.service {
                    RequestedService::NO_SERVICE => None,
                    RequestedService::IDENT_REQUEST => Some(Request::Ident),
                    RequestedService::STATUS_REQUEST => Some(Request::Status),
                    _ => Some(Request::Invite),
                };
                // What the managing node grants itself it also knows when to use.
                let request = request.filter(|_| soa.target != NodeId::MN);
                let node = soa.target;
                self.ask(request.map(|request| Asked { node, request, at_ns: time_ns }), &mut tell);
                self.state(message.source, soa.state, &mut tell);
            }
            Body::Asnd(service) => self.service(&message, &service, time_ns, &mut tell),
            Body::Amni => {}
        }
    }

    /// The managing node goes on: what it waited for until now did not come.
    fn ask(&mut self, next: Option<Asked>, tell: &mut impl FnMut(Observation)) {
        if let Some(next) = next {
            self.node(next.node).count(next.request).asked += 1;
        }
        let Some(Asked { node, request, .. }) = core::mem::replace(&mut self.asked, next) else {
            return;
        };
        self.node(node).count(request).unanswered += 1;
        tell(Observation::Unanswered { node, request });
    }

    fn answer(
        &mut self,
        node: NodeId,
        to: &[Request],
        time_ns: u64,
        tell: &mut impl FnMut(Observation),
    ) {
        let asked = self.asked.take_if(|asked| asked.node == node && to.contains(&asked.request));
        let Some(Asked { request, at_ns, .. }) = asked else {
            self.node(node).unasked += 1;
            return tell(Observation::Unasked { node });
        };
        tell(Observation::Response { node, request, delay_ns: time_ns.saturating_sub(at_ns) });
    }

    fn service(
        &mut self,
        message: &Message<'_>,
        service: &Service<'_>,
        time_ns: u64,
        tell: &mut impl FnMut(Observation),
    ) {
        let node = message.source;
        if node != NodeId::MN {
            let to: &[Request] = match service {
                Service::IdentResponse(_) => &[Request::Ident],
                Service::StatusResponse(_) => &[Request::Status],
                _ => &[Request::Invite],
            };
            self.answer(node, to, time_ns, tell);
        }
        match service {
            Service::IdentResponse(ident) => self.identity(node, ident, tell),
            Service::StatusResponse(status) => self.state(node, status.state, tell),
            Service::NmtCommand(command) => {
                let (node, command) = (message.destination, command.command);
                tell(Observation::Command { node, command });
                self.commanded(node, command);
            }
            _ => {}
        }
    }

    /// Of a node that is reset nobody knows the state until it tells.
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
        tell: &mut impl FnMut(Observation),
    ) {
        self.state(node, ident.state, tell);
        let identity = Identity::of(ident);
        let known = self.node(node);
        if known.identity.replace(identity) != Some(identity) {
            tell(Observation::Identified { node, identity });
        }
    }

    fn state(&mut self, node: NodeId, to: NmtState, tell: &mut impl FnMut(Observation)) {
        let known = self.node(node);
        let from = known.state.replace(to);
        if from != Some(to) {
            tell(Observation::State { node, from, to });
        }
    }

    fn address(&mut self, node: NodeId, mac: MacAddress, tell: &mut impl FnMut(Observation)) {
        let known = self.node(node);
        let before = known.mac.replace(mac);
        if let Some(before) = before.filter(|before| *before != mac) {
            known.addresses += 1;
            tell(Observation::OtherAddress { node, before, mac });
        }
    }

    fn cycle(&mut self, soc: Soc, time_ns: u64, tell: &mut impl FnMut(Observation)) {
        self.slots.soc(&soc);
        let Some((last, last_ns)) = self.soc.replace((soc, time_ns)) else { return };
        // A managing node that begins anew begins at 0: what was between is no cycle.
        let step_us = soc.relative_time_us.checked_sub(last.relative_time_us);
        let Some(step_us) = step_us.filter(|step| *step > 0) else { return };
        let interval_ns = time_ns.saturating_sub(last_ns);
        tell(Observation::Cycle { interval_ns, step_ns: step_us.saturating_mul(1000) });
    }

    fn node(&mut self, node: NodeId) -> &mut Node {
        self.nodes.entry(node).or_default()
    }
}

#[cfg(test)]
mod tests;

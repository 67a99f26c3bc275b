//! Checks the frames of a bus against the rules of POWERLINK.

mod multiplex;

use std::collections::BTreeMap;

use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::{
    Body, Message, NmtCommandId, NmtState, NodeId, Pres, RequestedService, Service, Soa, Soc,
};
use onbeat_wire::{EtherType, MacAddress};

use multiplex::Polls;

/// A frame that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its time on the bus.
    pub time_ns: u64,
    /// The broken rule.
    pub what: String,
}

/// Observations of a controlled node.
#[derive(Debug, Clone, Copy)]
struct ObservedNode {
    mac: MacAddress,
    state: NmtState,
}

/// The node that may send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermittedSender {
    /// The managing node.
    Managing,
    /// The polled node, once, and MS of the poll.
    Polled(NodeId, bool),
    /// The node that has the asynchronous phase, once.
    Invited(NodeId, RequestedService),
}

impl PermittedSender {
    /// MS of the poll of a node, if it was polled.
    fn polled(self, node: NodeId) -> Option<bool> {
        match self {
            PermittedSender::Polled(polled, slot) if polled == node => Some(slot),
            _ => None,
        }
    }
}

/// Checks frames in the order of the bus.
#[derive(Debug)]
pub struct Checker {
    cycle_us: u64,
    turn: PermittedSender,
    managing: Option<MacAddress>,
    last_soc: Option<(u64, Soc)>,
    /// There was no SoA since the last SoC.
    isochronous: bool,
    polls: Polls,
    nodes: BTreeMap<NodeId, ObservedNode>,
    violations: Vec<Violation>,
    frames: u64,
    cycles: u64,
}

/// Maximum number of recorded violations.
const KEPT: usize = 100;

impl Checker {
    /// Returns a checker of a network with this cycle length.
    pub fn new(cycle_us: u64) -> Self {
        Checker {
            cycle_us,
            turn: PermittedSender::Managing,
            managing: None,
            last_soc: None,
            isochronous: false,
            polls: Polls::default(),
            nodes: BTreeMap::new(),
            violations: Vec::new(),
            frames: 0,
            cycles: 0,
        }
    }

    /// The violations, at most a hundred.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The number of checked frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Isochronous cycles.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// The last reported state of a node.
    pub fn state(&self, node: NodeId) -> Option<NmtState> {
        self.nodes.get(&node).map(|known| known.state)
    }

    /// Forgets a node that was turned off or disconnected: it may then be in any state.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Checks a frame.
    pub fn observe(&mut self, time_ns: u64, frame: &[u8]) {
        self.frames += 1;
        let Some(what) = self.broken(time_ns, frame) else { return };
        if self.violations.len() < KEPT {
            self.violations.push(Violation { time_ns, what });
        }
    }

    fn broken(&mut self, time_ns: u64, frame: &[u8]) -> Option<String> {
        let Ok(header) = Header::new_checked(frame) else { return Some("not a frame".into()) };
        if header.ethertype() != EtherType::POWERLINK {
            return None;
        }
        if !(60..=1514).contains(&frame.len()) {
            return Some(format!("not an Ethernet frame: length {}", frame.len()));
        }
        let message = match Message::parse(header.payload()) {
            Ok(message) => message,
            Err(error) => return Some(error.to_string()),
        };
        let source = message.source;
        if matches!(message.body, Body::Soc(_) | Body::Preq(_) | Body::Soa(_)) {
            let managing = *self.managing.get_or_insert(header.source());
            if managing != header.source() || source != NodeId::MN {
                return Some(format!("another managing node: {message}"));
            }
        }
        match message.body {
            Body::Soc(soc) => self.soc(time_ns, soc),
            Body::Preq(preq) => {
                let node = message.destination;
                let known = self.nodes.get(&node).map(|known| known.mac);
                self.turn = PermittedSender::Polled(node, preq.multiplexed_slot);
                if !self.isochronous {
                    Some(format!("polled outside of the isochronous phase: {message}"))
                } else if known.is_some_and(|mac| mac != header.destination()) {
                    Some(format!("poll to the address of another: {message}"))
                } else if preq.payload.len() + 24 > frame.len() {
                    Some(format!("longer than its frame: {message}"))
                } else {
                    self.polls.preq(node, preq.multiplexed_slot)
                }
            }
            Body::Pres(pres) => self.pres(header.source(), source, &pres),
            Body::Soa(soa) => self.soa(soa),
            Body::Asnd(service) => self.asnd(header.source(), &message, &service),
            Body::Amni => None,
        }
    }

    fn soc(&mut self, time_ns: u64, soc: Soc) -> Option<String> {
        self.cycles += 1;
        self.turn = PermittedSender::Managing;
        let polls = self.polls.soc(soc);
        let began = core::mem::replace(&mut self.isochronous, true);
        let (last_ns, last) = self.last_soc.replace((time_ns, soc))?;
        let step_us = soc.relative_time_us.wrapping_sub(last.relative_time_us);
        if soc.relative_time_us == 0 {
            // The network has restarted its cycles.
            return polls;
        }
        let passed_us = (time_ns - last_ns + 500) / 1000;
        if began {
            Some("SoC without a SoA since the previous one".into())
        } else if step_us == 0 || step_us % self.cycle_us != 0 {
            Some(format!("RelativeTime steps by {step_us} us in cycles of {} us", self.cycle_us))
        } else if passed_us % self.cycle_us != 0 {
            Some(format!("{passed_us} us between SoC in cycles of {} us", self.cycle_us))
        } else {
            polls
        }
    }

    fn soa(&mut self, soa: Soa) -> Option<String> {
        let reduced = soa.state == NmtState::PRE_OPERATIONAL_1;
        let isochronous = core::mem::replace(&mut self.isochronous, false);
        self.turn = match soa.service {
            RequestedService::NO_SERVICE => PermittedSender::Managing,
            service => PermittedSender::Invited(soa.target, service),
        };
        match (reduced, isochronous) {
            (false, false) => Some(format!("SoA without a SoC in state {}", soa.state)),
            _ => None,
        }
    }

    fn pres(&mut self, mac: MacAddress, node: NodeId, pres: &Pres<'_>) -> Option<String> {
        let turn = core::mem::replace(&mut self.turn, PermittedSender::Managing);
        let Some(slot) = turn.polled(node) else {
            return Some(format!("PRes of {node}, which was not polled"));
        };
        if pres.multiplexed_slot != slot {
            return Some(format!(
                "PRes of {node} has MS {}, its poll {slot}",
                pres.multiplexed_slot
            ));
        }
        if pres.ready != (pres.state == NmtState::OPERATIONAL) {
            return Some(format!(
                "PRes of {node} in {} has RD {}; it must be true in OPERATIONAL only",
                pres.state, pres.ready
            ));
        }
        self.state_reported(mac, node, pres.state)
    }

    fn asnd(
        &mut self,
        mac: MacAddress,
        message: &Message<'_>,
        service: &Service<'_>,
    ) -> Option<String> {
        let turn = core::mem::replace(&mut self.turn, PermittedSender::Managing);
        let source = message.source;
        let PermittedSender::Invited(invited, granted) = turn else {
            return Some(format!("no node was invited: {message}"));
        };
        let fits = match service {
            Service::IdentResponse(_) => granted == RequestedService::IDENT_REQUEST,
            Service::StatusResponse(_) => granted == RequestedService::STATUS_REQUEST,
            Service::NmtRequest(_) | Service::NmtCommand(_) => {
                granted == RequestedService::NMT_REQUEST_INVITE
            }
            Service::Sdo(_) | Service::Other { .. } => {
                granted == RequestedService::UNSPECIFIED_INVITE
            }
        };
        if invited != source || !fits {
            return Some(format!("{granted} of {invited} was granted: {message}"));
        }
        match service {
            Service::NmtCommand(command) => {
                if source != NodeId::MN {
                    return Some(format!("NMT command sent by a controlled node: {message}"));
                }
                for (node, known) in &mut self.nodes {
                    let to = command.to(*node, message.destination);
                    commanded(known, to.ok().flatten());
                }
                None
            }
            Service::IdentResponse(ident) => self.state_reported(mac, source, ident.state),
            Service::StatusResponse(status) => self.state_reported(mac, source, status.state),
            _ => None,
        }
    }

    /// Checks whether a node's reported state can follow its former one.
    fn state_reported(&mut self, mac: MacAddress, node: NodeId, state: NmtState) -> Option<String> {
        let before = self.nodes.insert(node, ObservedNode { mac, state });
        let before = before?;
        if before.mac != mac {
            return Some(format!("two nodes with the id {node}: {} and {mac}", before.mac));
        }
        let allowed: &[NmtState] = match before.state {
            // Transitions by commands are applied in `commanded`, whether the node received them or not.
            NmtState::READY_TO_OPERATE => {
                &[NmtState::PRE_OPERATIONAL_1, NmtState::PRE_OPERATIONAL_2]
            }
            NmtState::OPERATIONAL | NmtState::STOPPED => &[
                NmtState::PRE_OPERATIONAL_1,
                NmtState::PRE_OPERATIONAL_2,
                NmtState::READY_TO_OPERATE,
            ],
            _ => &[NmtState::PRE_OPERATIONAL_1, NmtState::PRE_OPERATIONAL_2],
        };
        let fine = state == before.state || allowed.contains(&state);
        (!fine).then(|| format!("node {node} went from {} to {state}", before.state))
    }
}

/// A command permits another state of a node; if the command was lost, the node stays in a state that leads
/// there.
fn commanded(known: &mut ObservedNode, command: Option<NmtCommandId>) {
    known.state = match (command, known.state) {
        (Some(NmtCommandId::ENABLE_READY_TO_OPERATE), NmtState::PRE_OPERATIONAL_2) => {
            NmtState::READY_TO_OPERATE
        }
        (Some(NmtCommandId::START_NODE), NmtState::READY_TO_OPERATE) => NmtState::OPERATIONAL,
        (
            Some(NmtCommandId::STOP_NODE),
            NmtState::PRE_OPERATIONAL_2 | NmtState::READY_TO_OPERATE | NmtState::OPERATIONAL,
        ) => NmtState::STOPPED,
        (_, state) => state,
    };
}

//! Rules of POWERLINK over the frames that were on a bus.

mod multiplex;

use std::collections::BTreeMap;

use onbeat_wire::ethernet::Header;
use onbeat_wire::powerlink::{
    Body, Message, NmtCommandId, NmtState, NodeId, Pres, RequestedService, Service, Soa, Soc,
};
use onbeat_wire::{EtherType, MacAddress};

use multiplex::Polls;

/// A frame that must not have been there, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// When it was on the bus.
    pub time_ns: u64,
    /// What rule it breaks, and how.
    pub what: String,
}

/// What is known of a controlled node from the bus.
#[derive(Debug, Clone, Copy)]
struct Known {
    mac: MacAddress,
    state: NmtState,
}

/// Who may send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The managing node.
    Managing,
    /// The node that was polled, once, and MS of the poll.
    Polled(NodeId, bool),
    /// The node that has the asynchronous phase, once.
    Invited(NodeId, RequestedService),
}

impl Turn {
    /// MS of the poll, where a node was polled.
    fn polled(self, node: NodeId) -> Option<bool> {
        match self {
            Turn::Polled(polled, slot) if polled == node => Some(slot),
            _ => None,
        }
    }
}

/// Looks at frames in the order in which they were on the bus.
#[derive(Debug)]
pub struct Checker {
    cycle_us: u64,
    turn: Turn,
    managing: Option<MacAddress>,
    last_soc: Option<(u64, Soc)>,
    /// No SoA was seen since the last SoC.
    isochronous: bool,
    polls: Polls,
    nodes: BTreeMap<NodeId, Known>,
    violations: Vec<Violation>,
    frames: u64,
    cycles: u64,
}

/// Violations that are kept.
const KEPT: usize = 100;

impl Checker {
    /// A checker of a network with this length of cycle.
    pub fn new(cycle_us: u64) -> Self {
        Checker {
            cycle_us,
            turn: Turn::Managing,
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

    /// The rules that were broken, the first hundred times.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Frames looked at.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Isochronous cycles.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// The state a node told last.
    pub fn state(&self, node: NodeId) -> Option<NmtState> {
        self.nodes.get(&node).map(|known| known.state)
    }

    /// A node was turned off, or its cable pulled: whatever it says next is no surprise.
    pub fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// A frame was on the bus.
    pub fn observe(&mut self, time_ns: u64, frame: &[u8]) {
        self.frames += 1;
        let Some(what) = self.broken(time_ns, frame) else { return };
        if self.violations.len() < KEPT {
            self.violations.push(Violation { time_ns, what });
        }
    }

    fn broken(&mut self, time_ns: u64, frame: &[u8]) -> Option<String> {
        let Ok(header) = Header::new_checked(frame) else { return Some("no frame".into()) };
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
                self.turn = Turn::Polled(node, preq.multiplexed_slot);
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
        self.turn = Turn::Managing;
        let polls = self.polls.soc(soc);
        let began = core::mem::replace(&mut self.isochronous, true);
        let (last_ns, last) = self.last_soc.replace((time_ns, soc))?;
        let step_us = soc.relative_time_us.wrapping_sub(last.relative_time_us);
        if soc.relative_time_us == 0 {
            // The network began to cycle anew.
            return polls;
        }
        let passed_us = (time_ns - last_ns + 500) / 1000;
        if began {
            Some("a SoC, and no SoA since the one before".into())
        } else if step_us == 0 || step_us % self.cycle_us != 0 {
            Some(format!("RelativeTime steps by {step_us} us in cycles of {} us", self.cycle_us))
        } else if passed_us % self.cycle_us != 0 {
            Some(format!("{passed_us} us between SoC, of cycles of {} us", self.cycle_us))
        } else {
            polls
        }
    }

    fn soa(&mut self, soa: Soa) -> Option<String> {
        let reduced = soa.state == NmtState::PRE_OPERATIONAL_1;
        let isochronous = core::mem::replace(&mut self.isochronous, false);
        self.turn = match soa.service {
            RequestedService::NO_SERVICE => Turn::Managing,
            service => Turn::Invited(soa.target, service),
        };
        match (reduced, isochronous) {
            (false, false) => Some(format!("a SoA without a SoC in state {}", soa.state)),
            _ => None,
        }
    }

    fn pres(&mut self, mac: MacAddress, node: NodeId, pres: &Pres<'_>) -> Option<String> {
        let turn = core::mem::replace(&mut self.turn, Turn::Managing);
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
            return Some(format!("PRes of {node} in {} with RD {}", pres.state, pres.ready));
        }
        self.state_told(mac, node, pres.state)
    }

    fn asnd(
        &mut self,
        mac: MacAddress,
        message: &Message<'_>,
        service: &Service<'_>,
    ) -> Option<String> {
        let turn = core::mem::replace(&mut self.turn, Turn::Managing);
        let source = message.source;
        let Turn::Invited(invited, granted) = turn else {
            return Some(format!("nobody was invited: {message}"));
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
                    return Some(format!("a command of a controlled node: {message}"));
                }
                for (node, known) in &mut self.nodes {
                    let to = command.to(*node, message.destination);
                    commanded(known, to.ok().flatten());
                }
                None
            }
            Service::IdentResponse(ident) => self.state_told(mac, source, ident.state),
            Service::StatusResponse(status) => self.state_told(mac, source, status.state),
            _ => None,
        }
    }

    /// A node told its state: whether it can have got there from the one it told before.
    fn state_told(&mut self, mac: MacAddress, node: NodeId, state: NmtState) -> Option<String> {
        let before = self.nodes.insert(node, Known { mac, state });
        let before = before?;
        if before.mac != mac {
            return Some(format!("two nodes with the id {node}: {} and {mac}", before.mac));
        }
        let allowed: &[NmtState] = match before.state {
            // What a command allows is entered by `commanded`, whether the node got it or not.
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

/// A command allows a node to be in another state; where the node did not get it, it stays in one
/// that leads there.
fn commanded(known: &mut Known, command: Option<NmtCommandId>) {
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

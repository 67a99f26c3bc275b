//! What the frames of a capture report: states, commands, process data.

use std::collections::BTreeMap;

use onbeat_wire::powerlink::{Body, Message, NmtCommandId, NmtState, NodeId, Service};

/// Commands after which a node boots again.
const RESETS: [NmtCommandId; 3] =
    [NmtCommandId::RESET_NODE, NmtCommandId::RESET_COMMUNICATION, NmtCommandId::SW_RESET];
/// Frames without a request to a node, some seconds.
const OMITTED: u64 = 5000;
const EPL: [u8; 2] = [0x88, 0xab];

/// A poll with valid data to a node that accepts them, and the valid data of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Number of the frame in the capture, from 1.
    pub(crate) frame: u64,
    pub(crate) poll: Vec<u8>,
    pub(crate) response: Option<Vec<u8>>,
}

/// A command to reset a node, or all (255).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reset {
    pub(crate) frame: u64,
    pub(crate) command: NmtCommandId,
    pub(crate) node: u8,
    /// Error code of the reason (Table 120 of EPSG DS 301), if it has one.
    pub(crate) reason: u16,
}

/// Reports of frames since the last [`Record::mark`].
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Frames of the capture.
    pub(crate) frames: u64,
    /// Times of SoC.
    pub(crate) socs_ns: Vec<i64>,
    /// The last state of each node, and the managing node.
    pub(crate) states: BTreeMap<u8, NmtState>,
    /// Successive responses in OPERATIONAL of each node.
    operational: BTreeMap<u8, u64>,
    /// Reports of a state other than OPERATIONAL, by node.
    pub(crate) left: BTreeMap<u8, u64>,
    /// Polls without a response, by node.
    pub(crate) lost: BTreeMap<u8, u64>,
    pub(crate) resets: Vec<Reset>,
    /// The last frame that requested something from a node.
    requested: BTreeMap<u8, u64>,
    pub(crate) exchanges: BTreeMap<u8, Vec<Exchange>>,
    /// The node of a poll without a response so far, and whether the poll is in `exchanges`.
    pending: Option<(u8, bool)>,
}

impl Record {
    /// Forgets everything but the last states.
    pub(crate) fn mark(&mut self) {
        *self = Record {
            frames: self.frames,
            states: std::mem::take(&mut self.states),
            pending: self.pending,
            ..Record::default()
        };
    }

    pub(crate) fn take(&mut self, time_ns: i64, octets: &[u8]) {
        self.frames += 1;
        if octets.get(12..14) != Some(&EPL[..]) {
            return;
        }
        let message = Message::parse(&octets[14..])
            .unwrap_or_else(|error| panic!("frame {}: {error}", self.frames));
        let (source, destination) = (message.source.0, message.destination.0);
        match message.body {
            Body::Soc(_) => {
                self.socs_ns.push(time_ns);
                self.lose();
            }
            Body::Preq(preq) => {
                self.lose();
                self.requested.insert(destination, self.frames);
                let accepts = self.states.get(&destination).is_some_and(|state| {
                    [NmtState::READY_TO_OPERATE, NmtState::OPERATIONAL].contains(state)
                });
                self.pending = Some((destination, preq.ready && accepts));
                if preq.ready && accepts {
                    let (frame, poll) = (self.frames, preq.payload.to_vec());
                    let exchange = Exchange { frame, poll, response: None };
                    self.exchanges.entry(destination).or_default().push(exchange);
                }
            }
            Body::Pres(pres) => {
                self.report(source, pres.state);
                if let Some((_, true)) = self.pending.take_if(|(node, _)| *node == source) {
                    let last = self.exchanges.get_mut(&source).and_then(|all| all.last_mut());
                    if let Some(exchange) = last.filter(|_| pres.ready) {
                        exchange.response = Some(pres.payload.to_vec());
                    }
                }
                let operational = self.operational.entry(source).or_default();
                *operational =
                    if pres.state == NmtState::OPERATIONAL { *operational + 1 } else { 0 };
            }
            Body::Soa(soa) => {
                self.lose();
                self.requested.insert(soa.target.0, self.frames);
                self.report(source, soa.state);
            }
            Body::Asnd(Service::NmtCommand(command)) if RESETS.contains(&command.command) => {
                let reason = match command.data {
                    [low, high, ..] => u16::from_le_bytes([*low, *high]),
                    _ => 0,
                };
                let (frame, command) = (self.frames, command.command);
                self.resets.push(Reset { frame, command, node: destination, reason });
            }
            Body::Asnd(Service::IdentResponse(ident)) => self.report(source, ident.state),
            Body::Asnd(_) | Body::Amni => {}
        }
    }

    fn report(&mut self, node: u8, state: NmtState) {
        if state != NmtState::OPERATIONAL {
            *self.left.entry(node).or_default() += 1;
        }
        self.states.insert(node, state);
    }

    /// The response to the last poll is missing.
    fn lose(&mut self) {
        if let Some((node, _)) = self.pending.take() {
            *self.lost.entry(node).or_default() += 1;
            self.operational.remove(&node);
        }
    }

    /// Whether the managing node and these are in OPERATIONAL, and have been for some cycles.
    pub(crate) fn all_operational(&self, nodes: impl IntoIterator<Item = u8>) -> bool {
        let some = |node| self.operational.get(&node).is_some_and(|cycles| *cycles >= 20);
        self.states.get(&NodeId::MN.0) == Some(&NmtState::OPERATIONAL)
            && nodes.into_iter().all(some)
    }

    /// The managing node has requested nothing from one of these nodes for thousands of frames.
    pub(crate) fn is_omitted(&self, mut nodes: impl Iterator<Item = u8>) -> bool {
        let last = |node| self.requested.get(&node).copied();
        nodes.any(|node| last(node).is_some_and(|frame| self.frames - frame > OMITTED))
    }

    /// Resets of all nodes, or of this one.
    pub(crate) fn resets_of(&self, node: u8) -> usize {
        self.resets.iter().filter(|reset| reset.node == node).count()
    }
}

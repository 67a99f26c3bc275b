//! Network management between a controlled node and its managing node, besides states: requests of the node, and
//! commands that change no state.

use alloc::vec::Vec;

use onbeat_wire::powerlink::{NmtCommand, NmtCommandId, NmtRequest, NodeId, Priority, Service};

use super::{ControlledNode, Event};
use crate::nmt;
use crate::od::{Abort, ObjectId, profile};

/// Octets of a host name.
const HOST_NAME: usize = 32;

/// Maximum length of the data of a request, in octets: no command has more.
const REQUEST: usize = 240;

impl ControlledNode {
    /// Requests that the managing node commands a node, or sends it an IdentRequest or StatusRequest
    /// ([`NmtCommandId::IDENT_REQUEST`], [`NmtCommandId::STATUS_REQUEST`]). The request is sent when the node
    /// is invited; returns false if the queue is full. Published services are for all nodes, whichever the
    /// target.
    pub fn request(&mut self, target: NodeId, command: NmtCommandId) -> bool {
        self.request_with(target, command, &[])
    }

    /// The same for a command with data: a host name, a node, a list of nodes. At most 240 octets of `data` are
    /// sent.
    pub fn request_with(&mut self, target: NodeId, command: NmtCommandId, data: &[u8]) -> bool {
        let data = data.get(..REQUEST).unwrap_or(data);
        let request = NmtRequest { command, target, data };
        let frame: Vec<u8> = self.asnd(NodeId::MN, Service::NmtRequest(request));
        self.queue.push(Priority::NMT_REQUEST, frame)
    }

    /// Handles a command that changes no state.
    pub(super) fn managing_command(&mut self, to: NodeId, command: &NmtCommand<'_>) {
        match (command.command, command.data) {
            (NmtCommandId::NET_HOST_NAME_SET, name) if to == self.node => {
                let name = name.get(..HOST_NAME).unwrap_or(name);
                let end = name.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
                let set = self.od.set(profile::HOST_NAME, &name[..end]);
                debug_assert!(set.is_ok(), "a host name has room for 32 octets");
            }
            (NmtCommandId::FLUSH_ARP_ENTRY, [node, ..]) => {
                self.events.push_back(Event::FlushArp(NodeId(*node)));
            }
            _ => self.published(command),
        }
    }

    /// Executes a peer's write to 0x1F9E once its answer was sent: the last frame that is queued for the peer, of
    /// which a reset would clear the queue. Datagrams remain queued over a reset.
    pub(super) fn commanded_itself(&mut self, now_ns: u64, answer: Option<Vec<u8>>) {
        let command = self.od.number(profile::RESET_COMMAND) as u8;
        if let Some(event) = reset(command) {
            let none = self.od.set_number(profile::RESET_COMMAND, profile::NO_COMMAND.into());
            debug_assert!(none.is_ok(), "a command is an octet");
            match answer.filter(|answer| self.queue.holds(answer)) {
                Some(answer) => self.reset = Some((event, answer)),
                None => self.nmt(now_ns, event),
            }
        }
    }

    /// Executes a commanded reset whose answer was sent meanwhile.
    pub(super) fn reset_after_answer(&mut self, now_ns: u64) {
        let queue = &self.queue;
        if let Some((event, _)) = self.reset.take_if(|(_, answer)| !queue.holds(answer)) {
            self.nmt(now_ns, event);
        }
    }
}

/// The event of a reset that a node executes by itself.
fn reset(command: u8) -> Option<nmt::Event> {
    match NmtCommandId(command) {
        id @ (NmtCommandId::RESET_NODE
        | NmtCommandId::RESET_COMMUNICATION
        | NmtCommandId::RESET_CONFIGURATION
        | NmtCommandId::SW_RESET) => nmt::Event::from_command(id),
        _ => None,
    }
}

/// Checks a peer's write to 0x1F9E: a reset, or no command.
pub(super) fn check_write(object: ObjectId, value: &[u8]) -> Result<(), Abort> {
    match (object, value) {
        (profile::RESET_COMMAND, [profile::NO_COMMAND]) => Ok(()),
        (profile::RESET_COMMAND, [command]) if reset(*command).is_none() => Err(Abort::VALUE),
        _ => Ok(()),
    }
}

//! Commands of a managing node to others (EPSG DS 301, 7.3.1).

use onbeat_wire::powerlink::{NmtCommand, NmtCommandId, NmtState, NodeId, NodeSet};

use super::station::Station;
use super::{ManagingNode, Step};

/// Octets behind the header of a command: a frame as long as the shortest of Ethernet.
const DATA: usize = 40;

/// A command on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// Whom it is for.
    pub(super) node: NodeId,
    pub(super) command: NmtCommandId,
    pub(super) data: [u8; DATA],
}

impl Order {
    pub(super) const fn plain(node: NodeId, command: NmtCommandId) -> Self {
        Order { node, command, data: [0; DATA] }
    }

    /// A reset of a node, with the error that is its reason.
    pub(super) fn reset(node: NodeId, code: u16) -> Self {
        let [low, high] = code.to_le_bytes();
        Order::with(node, NmtCommandId::RESET_NODE, &[low, high])
    }

    fn with(node: NodeId, command: NmtCommandId, data: &[u8]) -> Self {
        let mut order = Order::plain(node, command);
        order.data.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
        order
    }

    /// What the order means for a node.
    pub(super) fn means(&self, node: NodeId) -> Option<NmtCommandId> {
        let command = NmtCommand { command: self.command, data: &self.data };
        command.to(node, self.node).ok().flatten()
    }
}

impl ManagingNode {
    /// Sends a plain command to a node, or to all.
    pub fn command(&mut self, node: NodeId, command: NmtCommandId) {
        self.commands.push_back(Order::plain(node, command));
    }

    /// Sends a plain command of a state to a list of nodes, in one frame; whether it has such a
    /// form.
    pub fn command_nodes(&mut self, nodes: &NodeSet, command: NmtCommandId) -> bool {
        let extended = command.extended();
        self.commands
            .extend(extended.map(|extended| Order::with(NodeId::BROADCAST, extended, &nodes.0)));
        extended.is_some()
    }

    /// Gives a node a host name, of which 32 octets count.
    pub fn set_host_name(&mut self, node: NodeId, name: &[u8]) {
        let name = name.get(..32).unwrap_or(name);
        self.commands.push_back(Order::with(node, NmtCommandId::NET_HOST_NAME_SET, name));
    }

    /// Has all nodes look up the IP address of one anew.
    pub fn flush_arp(&mut self, node: NodeId) {
        let (all, flush) = (NodeId::BROADCAST, NmtCommandId::FLUSH_ARP_ENTRY);
        self.commands.push_back(Order::with(all, flush, &[node.0]));
    }

    /// Tells all nodes which of them are in a state, are configured to be there, or are there; whether
    /// the service is one of these.
    pub fn publish(&mut self, service: NmtCommandId) -> bool {
        let is_known = |station: &Station| !matches!(station.step, Step::Identify | Step::Reset);
        let in_state = |state: NmtState| self.listed(|station| station.state == state);
        let nodes = match service {
            NmtCommandId::PUBLISH_CONFIGURED_NODES => self.listed(|_| true),
            NmtCommandId::PUBLISH_ACTIVE_NODES => self.listed(is_known),
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_1 => in_state(NmtState::PRE_OPERATIONAL_1),
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_2 => in_state(NmtState::PRE_OPERATIONAL_2),
            NmtCommandId::PUBLISH_READY_TO_OPERATE => in_state(NmtState::READY_TO_OPERATE),
            NmtCommandId::PUBLISH_OPERATIONAL => in_state(NmtState::OPERATIONAL),
            NmtCommandId::PUBLISH_STOPPED => in_state(NmtState::STOPPED),
            _ => return false,
        };
        self.commands.push_back(Order::with(NodeId::BROADCAST, service, &nodes.0));
        true
    }

    fn listed(&self, which: impl Fn(&Station) -> bool) -> NodeSet {
        self.stations.iter().filter(|station| which(station)).map(|station| station.node).collect()
    }
}

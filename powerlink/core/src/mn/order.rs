//! Commands of a managing node to others (EPSG DS 301, 7.3.1 to 7.3.4).

use alloc::vec::Vec;

use onbeat_wire::powerlink::{
    NmtCommand, NmtCommandId, NmtState, NodeId, NodeSet, NodeStates, TimeOfDay,
};

use super::station::Station;
use super::{ManagingNode, Step};

/// A queued command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    /// The destination.
    pub(super) node: NodeId,
    pub(super) command: NmtCommandId,
    /// Its data, without the padding of a frame.
    pub(super) data: Vec<u8>,
}

impl Order {
    pub(super) const fn plain(node: NodeId, command: NmtCommandId) -> Self {
        Order { node, command, data: Vec::new() }
    }

    /// A reset of a node, with the error code as its reason.
    pub(super) fn reset(node: NodeId, code: u16) -> Self {
        let [low, high] = code.to_le_bytes();
        Order::with(node, NmtCommandId::RESET_NODE, &[low, high])
    }

    fn with(node: NodeId, command: NmtCommandId, data: &[u8]) -> Self {
        Order { node, command, data: data.to_vec() }
    }

    /// The effect of the command on a node.
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

    /// Sends a plain state command to a list of nodes, in one frame; returns false if the command has no such
    /// form.
    pub fn command_nodes(&mut self, nodes: &NodeSet, command: NmtCommandId) -> bool {
        let extended = command.extended();
        self.commands
            .extend(extended.map(|extended| Order::with(NodeId::BROADCAST, extended, &nodes.0)));
        extended.is_some()
    }

    /// Sets the host name of a node, at most 32 octets.
    pub fn set_host_name(&mut self, node: NodeId, name: &[u8]) {
        let name = name.get(..32).unwrap_or(name);
        self.commands.push_back(Order::with(node, NmtCommandId::NET_HOST_NAME_SET, name));
    }

    /// Makes all nodes resolve the IP address of a node again.
    pub fn flush_arp(&mut self, node: NodeId) {
        let (all, flush) = (NodeId::BROADCAST, NmtCommandId::FLUSH_ARP_ENTRY);
        self.commands.push_back(Order::with(all, flush, &[node.0]));
    }

    /// Publishes information to all nodes: lists of nodes that are configured, present, in a state or have new
    /// errors; the state of each node; date and time. The values are those at the time of transmission. Returns
    /// false for any other service.
    pub fn publish(&mut self, service: NmtCommandId) -> bool {
        let publishes = service.publishes();
        if publishes {
            self.commands.push_back(Order::plain(NodeId::BROADCAST, service));
        }
        publishes
    }

    /// Fills in the data of a command before it is sent.
    pub(super) fn complete(&mut self, now_ns: u64, order: &mut Order) {
        let state = match order.command {
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_1 => NmtState::PRE_OPERATIONAL_1,
            NmtCommandId::PUBLISH_PRE_OPERATIONAL_2 => NmtState::PRE_OPERATIONAL_2,
            NmtCommandId::PUBLISH_READY_TO_OPERATE => NmtState::READY_TO_OPERATE,
            NmtCommandId::PUBLISH_OPERATIONAL => NmtState::OPERATIONAL,
            NmtCommandId::PUBLISH_STOPPED => NmtState::STOPPED,
            NmtCommandId::PUBLISH_CONFIGURED_NODES => {
                order.data = self.listed(|_| true);
                return;
            }
            NmtCommandId::PUBLISH_ACTIVE_NODES => {
                order.data = self.listed(is_known);
                return;
            }
            NmtCommandId::PUBLISH_EMERGENCY_NEW => {
                order.data = self.listed(|station| station.emergency_new);
                self.stations.iter_mut().for_each(|station| station.emergency_new = false);
                return;
            }
            NmtCommandId::PUBLISH_NODE_STATES => {
                let mut states = NodeStates::OFF;
                for station in self.stations.iter().filter(|station| is_known(station)) {
                    states.set(station.node, station.state);
                }
                states.set(NodeId::MN, self.state.code());
                order.data = states.0.to_vec();
                return;
            }
            NmtCommandId::PUBLISH_TIME => {
                order.data = TimeOfDay::from(self.net_time(now_ns)).to_octets().to_vec();
                return;
            }
            _ => return,
        };
        order.data = self.listed(|station| station.state == state);
    }

    fn listed(&self, which: impl Fn(&Station) -> bool) -> Vec<u8> {
        let listed = self.stations.iter().filter(|station| which(station));
        let nodes: NodeSet = listed.map(|station| station.node).collect();
        nodes.0.to_vec()
    }
}

/// Whether a node has responded since its last reset.
fn is_known(station: &Station) -> bool {
    !matches!(station.step, Step::Identify | Step::Reset)
}

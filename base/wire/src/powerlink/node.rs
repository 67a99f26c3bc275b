//! Nodes: ids, sets of nodes, and multicast groups.

use core::fmt;

/// The multicast groups of POWERLINK (EPSG DS 301, table 1).
pub mod multicast {
    use crate::MacAddress;

    /// Start of cycle.
    pub const SOC: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 1]);
    /// Poll responses.
    pub const PRES: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 2]);
    /// Start of asynchronous phase.
    pub const SOA: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 3]);
    /// Asynchronous frames.
    pub const ASND: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 4]);
    /// Active managing node indication.
    pub const AMNI: MacAddress = MacAddress([0x01, 0x11, 0x1e, 0, 0, 5]);
}

/// The id of a node in its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u8);

impl NodeId {
    /// No node.
    pub const NONE: NodeId = NodeId(0);
    /// The managing node (MN).
    pub const MN: NodeId = NodeId(240);
    /// The node itself.
    pub const SELF: NodeId = NodeId(251);
    /// A non-existing node.
    pub const DUMMY: NodeId = NodeId(252);
    /// A diagnostic device.
    pub const DIAGNOSTIC: NodeId = NodeId(253);
    /// A router to a different network.
    pub const ROUTER: NodeId = NodeId(254);
    /// All nodes.
    pub const BROADCAST: NodeId = NodeId(255);

    /// Returns whether this is the id of a controlled node (CN): `1..=239`.
    pub const fn is_controlled(self) -> bool {
        self.0 >= 1 && self.0 < Self::MN.0
    }

    /// Returns whether this is the id of the active managing node (240), or of a redundant one (EPSG DS 302-A):
    /// `240..=250`.
    pub const fn is_managing(self) -> bool {
        self.0 >= Self::MN.0 && self.0 <= 250
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of nodes in the form of extended NMT commands: one bit per id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct NodeSet(pub [u8; 32]);

impl NodeSet {
    /// Octets of a set.
    pub const LEN: usize = 32;

    /// No node.
    pub const EMPTY: NodeSet = NodeSet([0; 32]);

    /// Returns whether a node is in the set.
    pub const fn contains(&self, node: NodeId) -> bool {
        self.0[(node.0 / 8) as usize] >> (node.0 % 8) & 1 == 1
    }

    /// Adds a node.
    pub fn insert(&mut self, node: NodeId) {
        self.0[usize::from(node.0 / 8)] |= 1 << (node.0 % 8);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: NodeId) {
        self.0[usize::from(node.0 / 8)] &= !(1 << (node.0 % 8));
    }

    /// Returns the nodes of the set, by id.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..=u8::MAX).map(NodeId).filter(|node| self.contains(*node))
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = NodeSet::EMPTY;
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn controlled_nodes_are_1_to_239() {
        let controlled = (0..=255).filter(|id| NodeId(*id).is_controlled());
        assert!(controlled.eq(1..=239));
    }

    #[test]
    fn managing_nodes_are_240_to_250() {
        let managing = (0..=255).filter(|id| NodeId(*id).is_managing());
        assert!(managing.eq(240..=250));
    }

    #[test]
    fn every_id_has_its_bit_in_a_set() {
        let mut set = NodeSet::EMPTY;
        for id in 0..=255 {
            set.insert(NodeId(id));
            assert_eq!(set.0[usize::from(id / 8)], 1 << (id % 8), "{id}");
            assert_eq!(set.iter().collect::<Vec<_>>(), [NodeId(id)]);
            set.remove(NodeId(id));
            assert_eq!(set, NodeSet::EMPTY);
        }
        let some: NodeSet = [NodeId(110), NodeId(1), NodeId(32)].into_iter().collect();
        assert_eq!(std::format!("{some:?}"), "{1, 32, 110}");
    }
}

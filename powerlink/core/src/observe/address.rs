//! The address of each node, and frames with its id from others: another device with this id, or forged ones.

use alloc::collections::BTreeMap;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, Message, NodeId};

use super::Frames;

/// Silence of a node after which another address is its own: the device was replaced.
const REPLACED_NS: u64 = 1_000_000_000;
/// The same in cycles, for long ones.
const REPLACED_CYCLES: u64 = 10;
/// Maximum number of recorded foreign senders.
const KEPT: usize = 64;

/// Frames with the id of a node from another address than the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForeignFrames {
    /// By kind.
    pub frames: Frames,
    /// Time of the first one, in nanoseconds.
    pub first_ns: u64,
    /// Time of the last one, in nanoseconds.
    pub last_ns: u64,
}

/// The relation of a frame's source address to its node id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// The node.
    Node,
    /// The node with a new address: the former one was silent.
    Replaced(MacAddress),
    /// A redundant managing node that has announced itself (AMNI, EPSG DS 302-A).
    Successor(MacAddress),
    /// Another device than the one with this address.
    Foreign(MacAddress),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    /// Address of each node, and when it was last heard.
    known: BTreeMap<NodeId, (MacAddress, u64)>,
    /// The address that announced its take-over in the silence of the managing node, and when.
    successor: Option<(MacAddress, u64)>,
    /// The last SoC, or SoA without one since.
    started_ns: u64,
    pub(super) foreign: BTreeMap<(NodeId, MacAddress), ForeignFrames>,
}

impl Addresses {
    /// Judges the sender of a message; `cycle_ns`: the last interval between SoC, or 0.
    pub(super) fn judge(
        &mut self,
        time_ns: u64,
        cycle_ns: u64,
        mac: MacAddress,
        message: &Message<'_>,
    ) -> Sender {
        let node = message.source;
        if matches!(message.body, Body::Amni) && time_ns.saturating_sub(self.started_ns) > cycle_ns
        {
            self.successor = Some((mac, time_ns));
        }
        // It starts its cycles a cycle later.
        let due = |(successor, since_ns): (MacAddress, u64)| {
            successor == mac && time_ns.saturating_sub(since_ns) >= cycle_ns / 2
        };
        let (known, heard_ns) = self.known.entry(node).or_insert((mac, time_ns));
        let former = *known;
        let silence_ns = REPLACED_NS.max(cycle_ns.saturating_mul(REPLACED_CYCLES));
        let starts = matches!(message.body, Body::Soc(_) | Body::Soa(_));
        let sender = if former == mac {
            Sender::Node
        } else if starts && self.successor.is_some_and(due) {
            Sender::Successor(former)
        } else if time_ns.saturating_sub(*heard_ns) >= silence_ns {
            Sender::Replaced(former)
        } else {
            self.count(time_ns, mac, message);
            return Sender::Foreign(former);
        };
        (*known, *heard_ns) = (mac, time_ns);
        if starts && node == NodeId::MN {
            // An announcement is void if the former managing node continues.
            self.successor = None;
            // Isochronous cycles are measured from SoC to SoC.
            let isochronous = cycle_ns > 0 && time_ns.saturating_sub(self.started_ns) <= cycle_ns;
            if matches!(message.body, Body::Soc(_)) || !isochronous {
                self.started_ns = time_ns;
            }
        }
        sender
    }

    fn count(&mut self, time_ns: u64, mac: MacAddress, message: &Message<'_>) {
        let key = (message.source, mac);
        if self.foreign.len() >= KEPT && !self.foreign.contains_key(&key) {
            return;
        }
        let new = ForeignFrames { first_ns: time_ns, ..ForeignFrames::default() };
        let counted = self.foreign.entry(key).or_insert(new);
        counted.frames.count(&message.body);
        counted.last_ns = time_ns;
    }
}

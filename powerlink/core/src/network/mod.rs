//! A network described once, and the nodes that follow from it: what a controlled node has as input
//! its managing node receives, and how a node is configured is what its managing node writes to it.
//!
//! In the managing node the n-th output of node k is object `A040 + n` sub-index k, and the n-th
//! input is `A4C0 + n` sub-index k, both counted from 0.

mod build;
mod error;

use alloc::string::String;
use alloc::vec::Vec;

use onbeat_wire::powerlink::NodeId;

use crate::od::profile::Identity;
use crate::od::{DataType, Dictionary, ObjectId, id};

pub use build::follows_from_network;
pub use error::NetworkError;

/// Signals of a node, each way: as many as a mapping has entries for.
pub const MAX_SIGNALS: usize = 64;

/// Index of the managing node's first output to each node.
const OUTPUTS: u16 = 0xa040;
/// Index of the managing node's first input from each node.
const INPUTS: u16 = 0xa4c0;

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Length of a cycle, in microseconds.
    pub cycle_us: u32,
    /// Length of the asynchronous phase of a reduced cycle, in nanoseconds.
    pub async_slot_ns: u32,
    /// How long PRE_OPERATIONAL_1 lasts at least, in microseconds: nodes are configured faster in it
    /// than in a cycle.
    pub pre_operational_1_us: u32,
    /// How late a SoC may be for a controlled node, in nanoseconds.
    pub soc_tolerance_ns: u32,
    /// How far from a cycle behind the one before a SoC may come for a controlled node, in nanoseconds;
    /// 0: it is not looked at.
    pub soc_jitter_ns: u32,
    /// Of all error counters: they go up by 8 with each loss and down by 1 with each good cycle.
    pub threshold: u32,
    /// Cycles of a multiplexed cycle, in each of which nodes may have a slot; 0 where every node is
    /// polled in every cycle.
    pub multiplexed_cycles: u8,
    /// PS of SoC changes every so many cycles (0x1F98/9), 0 to 1000; with 0 it does not.
    pub prescaler: u16,
    /// The nodes are started at once; else each once it is ready (0x1F80, bit 1).
    pub start_all: bool,
    /// The managing node stays in BASIC_ETHERNET where no other one is heard (0x1F80, bit 13): nobody
    /// manages the network.
    pub basic_ethernet: bool,
    /// The controlled nodes.
    pub nodes: Vec<Station>,
}

/// A controlled node of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Its id, `1..=239`, once in a network.
    pub node: NodeId,
    /// The network does not run without it.
    pub mandatory: bool,
    /// Who it is. What is 0 the managing node does not look at.
    pub identity: Identity,
    /// How long the managing node waits for its response to a poll, in nanoseconds.
    pub pres_timeout_ns: u32,
    /// The cycle of a multiplexed cycle in which it is polled, from 1 on; 0 is every cycle.
    pub multiplexed: u8,
    /// What it sends.
    pub inputs: Vec<Signal>,
    /// What it receives.
    pub outputs: Vec<Signal>,
    /// Its objects, where a device's description says: besides those of the communication profile,
    /// and limits, access and defaults of these. A signal may be one of them, and otherwise is added
    /// to them.
    pub described: Option<Dictionary>,
    /// Objects that are written to it when it is configured, beside those that follow from the above.
    pub parameters: Vec<(ObjectId, Vec<u8>)>,
}

/// A value of a process, which goes to the other end in each cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// What people call it.
    pub name: String,
    /// Its object in the controlled node.
    pub object: ObjectId,
    /// Its type: one of fixed length.
    pub data_type: DataType,
}

/// The managing node's object for an output of a node, by its place among them.
pub fn managing_output(node: NodeId, place: usize) -> ObjectId {
    id(OUTPUTS + place as u16, node.0)
}

/// The managing node's object for an input of a node, by its place among them.
pub fn managing_input(node: NodeId, place: usize) -> ObjectId {
    id(INPUTS + place as u16, node.0)
}

#[cfg(test)]
mod tests;

//! A description of a network, from which all its nodes are built: the inputs of a controlled node are received
//! by its managing node, and the configuration of a node is written by its managing node.
//!
//! In the managing node the n-th output of node k is object `A040 + n` sub-index k, and the n-th input is `A4C0
//! + n` sub-index k, both counted from 0.

mod build;
mod cross;
mod error;
mod project;

use alloc::string::String;
use alloc::vec::Vec;

use onbeat_wire::powerlink::NodeId;

use crate::od::profile::{self, Identity};
use crate::od::{DataType, Dictionary, ObjectId, id};

pub use build::follows_from_network;
pub use error::NetworkError;
pub use project::{PROCESS_TYPES, ProcessValue, Project, ProjectError};

/// Maximum number of signals of a node in each direction: the number of entries of a mapping.
pub const MAX_SIGNALS: usize = profile::MAX_MAPPED as usize;

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
    /// Minimum duration of PRE_OPERATIONAL_1, in microseconds: nodes are configured faster in it than in a
    /// cycle.
    pub pre_operational_1_us: u32,
    /// Tolerance of a controlled node for a late SoC, in nanoseconds.
    pub soc_tolerance_ns: u32,
    /// Permitted deviation of the interval between SoC from the cycle length, in nanoseconds; 0: not checked.
    pub soc_jitter_ns: u32,
    /// Threshold of the managing node's error counters: they increase by 8 with each loss and decrease by 1 with
    /// each good cycle.
    pub threshold: u32,
    /// Threshold of the controlled nodes' error counters.
    pub node_threshold: u32,
    /// Number of cycles in a multiplexed cycle, in each of which nodes may have a slot; 0: every node is polled
    /// in every cycle.
    pub multiplexed_cycles: u8,
    /// PS of SoC toggles every this many cycles (0x1F98/9), 0 to 1000; 0: never.
    pub prescaler: u16,
    /// The nodes are started at once; otherwise each when it is ready (0x1F80, bit 1).
    pub start_all: bool,
    /// The managing node stays in BASIC_ETHERNET if it hears no other one (0x1F80, bit 13): the network is
    /// unmanaged.
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
    /// Its identity. The managing node does not check values of 0.
    pub identity: Identity,
    /// Timeout of its response to a poll, in nanoseconds.
    pub pres_timeout_ns: u32,
    /// Minimum time from SoC to its poll, in nanoseconds; 0: none.
    pub soc_to_poll_ns: u32,
    /// The cycle of a multiplexed cycle in which it is polled, starting at 1; 0: every cycle.
    pub multiplexed: u8,
    /// The signals it sends.
    pub inputs: Vec<Signal>,
    /// The signals it receives from the managing node.
    pub outputs: Vec<Signal>,
    /// The signals it receives from other controlled nodes.
    pub received: Vec<ReceivedSignal>,
    /// Its objects, if there is a device description: those besides the communication profile, and limits,
    /// access and defaults of the profile's. A signal may be one of them, and is added to them otherwise.
    pub described: Option<Dictionary>,
    /// Objects written to it during configuration, besides those derived from the above.
    pub parameters: Vec<(ObjectId, Vec<u8>)>,
}

/// A process value, transferred to the other end in each cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// Its object in the controlled node.
    pub object: ObjectId,
    /// Its type: one of fixed length.
    pub data_type: DataType,
}

/// A process value that a controlled node receives from another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Its name.
    pub name: String,
    /// Its object in the receiving node.
    pub object: ObjectId,
    /// Its type: that of the input.
    pub data_type: DataType,
    /// The node that sends it.
    pub source: NodeId,
    /// Its position among the inputs of that node, from 0.
    pub input: usize,
}

/// The managing node's object for an output of a node, by its position.
pub fn managing_output(node: NodeId, place: usize) -> ObjectId {
    id(OUTPUTS + place as u16, node.0)
}

/// The managing node's object for an input of a node, by its position.
pub fn managing_input(node: NodeId, place: usize) -> ObjectId {
    id(INPUTS + place as u16, node.0)
}

#[cfg(test)]
mod tests;

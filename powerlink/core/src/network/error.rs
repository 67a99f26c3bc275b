//! A network that cannot be.

use core::fmt;

use onbeat_wire::powerlink::NodeId;

use crate::cn::NotControlled;
use crate::mn::Unmapped;
use crate::od::{Abort, AddError, ObjectId};

/// Why a network's description makes no nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkError {
    /// A node is not part of the network.
    NoNode(NodeId),
    /// An id that no controlled node can have.
    Id(NotControlled),
    /// An object cannot be added to a node.
    Object(NodeId, AddError),
    /// An object of a node does not take its value.
    Value(NodeId, ObjectId, Abort),
    /// An object of a node's description is not as the communication profile has it.
    Described(NodeId, ObjectId, Abort),
    /// A signal is not as a node's description has its object.
    Signal(NodeId, ObjectId, Abort),
    /// A node has more signals one way than [`super::MAX_SIGNALS`].
    Signals(NodeId),
    /// A node's slot is behind the end of the multiplexed cycle, which has so many cycles.
    Slot(NodeId, u8, u8),
    /// A node's signals do not fit a poll.
    Mapping(Unmapped),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::NoNode(node) => write!(f, "there is no node {node} in the network"),
            NetworkError::Id(error) => error.fmt(f),
            NetworkError::Object(node, error) => write!(f, "node {node}: {error}"),
            NetworkError::Value(node, object, abort) => {
                write!(f, "node {node}: object {object} does not take its value, {abort}")
            }
            NetworkError::Described(node, object, abort) => write!(
                f,
                "node {node}: object {object} is not as the communication profile has it, {abort}"
            ),
            NetworkError::Signal(node, object, abort) => {
                write!(
                    f,
                    "node {node}: object {object} of its description is no such signal, {abort}"
                )
            }
            NetworkError::Signals(node) => {
                write!(f, "node {node} has more than {} signals one way", super::MAX_SIGNALS)
            }
            NetworkError::Slot(node, slot, cycles) => write!(
                f,
                "node {node} is polled in cycle {slot} of a multiplexed cycle, which has {cycles}"
            ),
            NetworkError::Mapping(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NetworkError {}

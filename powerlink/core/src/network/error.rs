//! Errors of a network description.

use core::fmt;

use onbeat_wire::powerlink::NodeId;

use crate::cn::InvalidNodeId;
use crate::mn::MappingError;
use crate::od::{Abort, AddError, ObjectId};

/// An error of a network description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkError {
    /// A node is not part of the network.
    NoNode(NodeId),
    /// An id that no controlled node can have.
    Id(InvalidNodeId),
    /// An object cannot be added to a node.
    Object(NodeId, AddError),
    /// The value of an object of a node is invalid.
    Value(NodeId, ObjectId, Abort),
    /// An object of a node's description conflicts with the communication profile.
    Described(NodeId, ObjectId, Abort),
    /// A signal conflicts with the object of the node's description.
    Signal(NodeId, ObjectId, Abort),
    /// A value cannot be received from another node: it is not in the network, or has no such input of this type.
    Source {
        /// The receiving node.
        node: NodeId,
        /// The object in it.
        object: ObjectId,
        /// The other node.
        source: NodeId,
    },
    /// A node has more signals in one direction than [`super::MAX_SIGNALS`].
    Signals(NodeId),
    /// A node's slot is after the end of the multiplexed cycle, whose number of cycles follows.
    Slot(NodeId, u8, u8),
    /// A node's signals do not fit a poll.
    Mapping(MappingError),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetworkError::NoNode(node) => write!(f, "node {node} not found in the network"),
            NetworkError::Id(error) => error.fmt(f),
            NetworkError::Object(node, error) => write!(f, "node {node}: {error}"),
            NetworkError::Value(node, object, abort) => {
                write!(f, "node {node}: value of object {object} is invalid: {abort}")
            }
            NetworkError::Described(node, object, abort) => write!(
                f,
                "node {node}: object {object} conflicts with the communication profile, {abort}"
            ),
            NetworkError::Signal(node, object, abort) => {
                write!(
                    f,
                    "node {node}: object {object} of its description cannot be this signal, {abort}"
                )
            }
            NetworkError::Source { node, object, source } => write!(
                f,
                "node {node}: object {object} cannot be received: node {source} is not another node \
                 of the network with this input"
            ),
            NetworkError::Signals(node) => {
                write!(
                    f,
                    "node {node} has too many signals in one direction; use at most {}",
                    super::MAX_SIGNALS
                )
            }
            NetworkError::Slot(node, slot, cycles) => {
                write!(
                    f,
                    "node {node} has slot {slot} of {cycles} in the multiplexed cycle; use 1 to {cycles}"
                )
            }
            NetworkError::Mapping(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NetworkError {}

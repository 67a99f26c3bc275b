//! The control socket: one JSON request per line, one JSON response per line, in order.
//!
//! ```text
//! {"request":"reset","stream":"axis-1"}
//! {"response":"done","message":"stream \"axis-1\" is reset"}
//! ```

mod client;
mod server;
mod status;
mod table;

use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, DIRECTORY, discover};
pub use server::{BindError, Server};
pub use status::{
    EgressStatus, GenerationStatus, Link, MemberStatus, NodeStatus, PortMode, PortStatus,
    RecoveryStatus, StreamStatus,
};
pub use table::{node_table, stream_detail};

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Whether the node is there.
    Ping,
    /// The state of the node, its ports and streams.
    Show,
    /// Resets a stream's functions (frerSeqGenReset, frerSeqRcvyReset).
    Reset {
        /// Name of the stream.
        stream: String,
    },
    /// Reads the configuration file anew.
    Reload,
    /// Ends the daemon.
    Stop,
}

/// What the node answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Ping`].
    Pong {
        /// Name of the node.
        node: String,
        /// Process id of the daemon.
        pid: u32,
    },
    /// To [`Request::Show`].
    Status {
        /// The state.
        status: Box<NodeStatus>,
    },
    /// It is done.
    Done {
        /// What was done.
        message: String,
    },
    /// It is not done.
    Error {
        /// Why, and the way out.
        message: String,
    },
}

//! The control socket: one JSON request per line, one JSON response per line, in order.
//!
//! ```text
//! {"request":"reset","stream":"axis-1"}
//! {"response":"done","message":"stream \"axis-1\" is reset"}
//! ```
//!
//! A request for events with `wait` is answered when an event occurs, or after [`EVENT_WAIT`] without events. A
//! client that repeats the request from the last number receives all events; `missed` counts those no longer
//! stored.

mod client;
mod event;
mod nodes;
mod orphan;
mod paths;
mod readers;
mod server;
mod status;
mod summary;
mod table;
mod wildcards;

use std::str::FromStr;

use onbeat_netconf::Datastore;
use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, DIRECTORY, discover};
pub use event::{Event, EventDetail};
pub use nodes::{
    HostStatus, LanFrames, LanStatus, NodesStatus, ProxyStatus, RemoteNode, nodes_table,
};
pub use paths::{PathStatus, Skew, StreamPaths, paths_table};
pub use readers::{Audience, GroupError, MANAGER_GROUP, MANAGERS, READER_GROUP, READERS};
pub(crate) use server::in_directory;
pub use server::{BindError, EVENT_WAIT, MAX_FOLLOWERS, Reply, Server};
pub use status::{
    EgressStatus, FileVersion, GenerationStatus, LinkState, MemberStatus, MemoryStatus, NodeStatus,
    PortMode, PortStatus, RecoveryStatus, StreamStatus, UnknownStream,
};
pub use summary::{
    DetailedStream, GuardStatus, NodeSummary, StreamTotals, StreamTrouble, is_match,
};
pub use table::{node_table, stream_detail, uptime};
pub use wildcards::{
    NodeTables, SenderFrames, SenderStatus, WildcardPath, WildcardStatus, WildcardTables,
    wildcards_table,
};

/// Probes of a path: of the shortest frames, and of the longest ones. [`PROVED`] of them at its end prove it: some were lost,
/// and yet one of the shortest arrived and 7 of the longest.
pub const SHORTEST_PROBES: usize = 3;
/// See [`SHORTEST_PROBES`].
pub const LONGEST_PROBES: usize = 9;
/// Probes that prove a path.
pub const PROVED: usize = 10;

const _: () = assert!(LONGEST_PROBES < PROVED && PROVED < SHORTEST_PROBES + LONGEST_PROBES);

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Checks that the node answers.
    Ping,
    /// Queries the state of the node, its ports and streams.
    Show,
    /// Queries ports and streams as they run, as text of a configuration file.
    Configuration,
    /// Queries ports and streams after a restart: of the file and the stored streams.
    StoredConfiguration,
    /// Queries the state of few streams; no other stream is read.
    Streams {
        /// Their names.
        streams: Vec<String>,
    },
    /// Queries sums over all streams, and the state of few.
    Summary {
        /// Patterns of names of streams to list: `*` matches any characters, `?` one. Streams in trouble follow.
        #[serde(default)]
        streams: Vec<String>,
        /// Maximum number of listed streams.
        limit: u32,
    },
    /// Queries the paths of streams with sequence recovery.
    Paths {
        /// Name of the only stream; none: all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<String>,
    },
    /// Queries the tables of a PRP node, or of a node with wildcards.
    Nodes,
    /// Resets a stream's functions (frerSeqGenReset, frerSeqRcvyReset).
    Reset {
        /// Name of the stream.
        stream: String,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Sets the number of the next packet of a stream (GenSeqNum).
    SetNumber {
        /// Name of the stream.
        stream: String,
        /// The number.
        number: u16,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Sends probes along the paths of streams: frames without R-TAG, which recovery counts and discards.
    Prove {
        /// Names of the streams; none: all of the text.
        #[serde(default)]
        streams: Vec<String>,
        /// `[[stream]]` tables that describe the streams; none: as they are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// Name of the text in messages.
        #[serde(default)]
        file: String,
    },
    /// Queries events.
    Events {
        /// Start of the query; none: all stored events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<EventStart>,
        /// Whether to wait for an event if there is none.
        #[serde(default)]
        wait: bool,
    },
    /// Adds streams: all of the text, or none.
    AddStreams {
        /// `[[stream]]` tables.
        text: String,
        /// Name of the text in messages.
        file: String,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Replaces the streams with the same names.
    ChangeStreams {
        /// `[[stream]]` tables.
        text: String,
        /// Name of the text in messages.
        file: String,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Removes streams: all of them, or none.
    RemoveStreams {
        /// Their names.
        streams: Vec<String>,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Removes streams, and adds or replaces those of a text: all of them, or none.
    SetStreams {
        /// Names of streams to remove.
        remove: Vec<String>,
        /// `[[stream]]` tables; empty: none.
        text: String,
        /// Name of the text in messages.
        file: String,
        /// Whether to store the streams for later starts and reloads.
        store: bool,
        /// SHA-256 of the text of [`Response::Configuration`] that the change is derived from; none: any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base: Option<String>,
        /// Whether the client has the lock of each datastore that changes, if any session has.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_lock: bool,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Stores the running streams that are not of the file for later starts and reloads.
    StoreStreams {
        /// Whether to remove the stored streams instead.
        remove: bool,
        /// Whether the client has the lock of startup, if any session has.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        has_lock: bool,
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Replaces the file of a managed node by a text that differs from it in streams only.
    ReplaceFile {
        /// The text of a whole file.
        text: String,
    },
    /// Reloads the configuration file.
    Reload {
        /// Whether another system may manage the node.
        #[serde(default)]
        force: bool,
    },
    /// Removes the node and stops the daemon.
    Stop,
}

impl Request {
    /// Whether it changes nothing.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Ping
            | Self::Show
            | Self::Configuration
            | Self::Streams { .. }
            | Self::Summary { .. }
            | Self::Paths { .. }
            | Self::Nodes
            | Self::Events { .. } => true,
            Self::Reset { .. }
            | Self::SetNumber { .. }
            | Self::Prove { .. }
            | Self::AddStreams { .. }
            | Self::ChangeStreams { .. }
            | Self::RemoveStreams { .. }
            | Self::SetStreams { .. }
            | Self::StoreStreams { .. }
            | Self::StoredConfiguration
            | Self::ReplaceFile { .. }
            | Self::Reload { .. }
            | Self::Stop => false,
        }
    }

    /// Whether managers may send it: it reads the node, sends probes, or replaces the streams as a whole.
    pub(crate) fn is_for_managers(&self) -> bool {
        matches!(
            self,
            Self::Ping
                | Self::Show
                | Self::Streams { .. }
                | Self::Prove { .. }
                | Self::ReplaceFile { .. }
        )
    }

    /// The datastores that it changes, whose locks exclude it: state, such as counters, is in none.
    pub(crate) fn changed_datastores(&self) -> &'static [Datastore] {
        use Datastore::{Running, Startup};
        match self {
            Self::SetStreams { has_lock: true, .. } | Self::StoreStreams { has_lock: true, .. } => {
                &[]
            }
            Self::AddStreams { .. }
            | Self::ChangeStreams { .. }
            | Self::RemoveStreams { .. }
            | Self::SetStreams { store: false, .. }
            | Self::ReplaceFile { .. }
            | Self::Reload { .. } => &[Running],
            Self::SetStreams { store: true, .. } => &[Running, Startup],
            Self::StoreStreams { .. } => &[Startup],
            _ => &[],
        }
    }

    /// Whether it changes streams without `force`, which a node that another system manages refuses.
    pub fn is_unforced_change(&self) -> bool {
        match self {
            Self::Reset { force, .. }
            | Self::SetNumber { force, .. }
            | Self::AddStreams { force, .. }
            | Self::ChangeStreams { force, .. }
            | Self::RemoveStreams { force, .. }
            | Self::SetStreams { force, .. }
            | Self::StoreStreams { force, .. }
            | Self::Reload { force } => !force,
            _ => false,
        }
    }
}

/// Start of an event query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStart {
    /// Events after this number.
    Number(u64),
    /// Events since this time: RFC 3339, UTC, or a prefix of it, such as `2025-01-31T12`.
    Time(String),
}

/// Form of RFC 3339 times; 0 stands for any digit.
const TIME: &str = "0000-00-00T00:00:00.000000Z";

/// A number, a time, or a prefix of a time.
impl FromStr for EventStart {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(number) = text.parse() {
            return Ok(EventStart::Number(number));
        }
        let alike = |(given, like): (char, char)| {
            if like == '0' { given.is_ascii_digit() } else { given == like }
        };
        // In whole seconds, too.
        let begins = text.strip_suffix('Z').unwrap_or(text);
        let is_time = begins.len() >= "0000-00".len() && begins.len() < TIME.len();
        if is_time && begins.chars().zip(TIME.chars()).all(alike) {
            return Ok(EventStart::Time(begins.to_owned()));
        }
        Err("use the number of an event, or a time in UTC such as 2025-01-31T12:30:00Z")
    }
}

/// A response of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// To [`Request::Ping`].
    Pong {
        /// Name of the node.
        node: String,
        /// Process id of the daemon.
        pid: u32,
        /// Its file; none: an earlier version of onbeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        configuration: Option<FileVersion>,
    },
    /// To [`Request::Show`].
    Status {
        /// The state.
        status: Box<NodeStatus>,
    },
    /// To [`Request::Configuration`].
    Configuration {
        /// Text of a file with the ports and streams, without PRP, wildcards and other keys of the node.
        text: String,
    },
    /// To [`Request::StoredConfiguration`].
    StoredConfiguration {
        /// Text as of [`Response::Configuration`].
        text: String,
        /// Number of streams that are those of the node's file, which are the first.
        of_file: usize,
    },
    /// To [`Request::Streams`].
    Streams {
        /// The streams, in the order of the request.
        streams: Vec<StreamStatus>,
    },
    /// To [`Request::Summary`].
    Summary {
        /// The summary.
        summary: Box<NodeSummary>,
    },
    /// To [`Request::Paths`].
    Paths {
        /// The streams, in the order of the configuration.
        streams: Vec<StreamPaths>,
    },
    /// To [`Request::Nodes`].
    Nodes {
        /// The tables.
        nodes: Box<NodesStatus>,
    },
    /// To [`Request::Nodes`], of a node with wildcards.
    Wildcards {
        /// The tables.
        #[serde(flatten)]
        tables: Box<WildcardTables>,
    },
    /// To [`Request::Events`].
    Events {
        /// The events, in order.
        events: Vec<Event>,
        /// Number of requested events that are no longer stored.
        missed: u64,
        /// Number of the last event so far, requested or not.
        last: u64,
    },
    /// The request succeeded.
    Done {
        /// The result.
        message: String,
    },
    /// The request failed.
    Error {
        /// Cause and remedy.
        message: String,
    },
    /// Another client changed the configuration, or has its lock. The request may succeed later.
    Conflict {
        /// Cause and remedy.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_changes_of_its_datastore_by_others() {
        use Datastore::{Running, Startup};
        let of = |request: &str| {
            serde_json::from_str::<Request>(request).unwrap().changed_datastores().to_vec()
        };
        let set = |more: &str| {
            of(&format!(r#"{{"request":"set_streams","remove":[],"text":"","file":"a",{more}}}"#))
        };
        assert_eq!(set(r#""store":true"#), [Running, Startup]);
        assert_eq!(set(r#""store":false"#), [Running]);
        assert_eq!(set(r#""store":false,"has_lock":true"#), []);
        assert_eq!(of(r#"{"request":"store_streams","remove":true}"#), [Startup]);
        assert_eq!(of(r#"{"request":"store_streams","remove":true,"has_lock":true}"#), []);
        for changes in ["add_streams", "change_streams"] {
            let request = format!(r#"{{"request":"{changes}","text":"","file":"a"}}"#);
            assert_eq!(of(&request), [Running]);
        }
        assert_eq!(of(r#"{"request":"remove_streams","streams":[]}"#), [Running]);
        assert_eq!(of(r#"{"request":"reload"}"#), [Running]);
        for other in [r#""reset","stream":"a""#, r#""stop""#, r#""show""#, r#""configuration""#] {
            assert_eq!(of(&format!(r#"{{"request":{other}}}"#)), []);
        }
    }

    #[test]
    fn a_query_starts_at_a_number_a_time_or_a_prefix_of_a_time() {
        let since = EventStart::from_str;
        let time = |text: &str| Ok(EventStart::Time(text.to_owned()));
        assert_eq!(since("0"), Ok(EventStart::Number(0)));
        assert_eq!(since("4711"), Ok(EventStart::Number(4711)));
        assert_eq!(since("2025-01-31T12:30:00Z"), time("2025-01-31T12:30:00"));
        for text in ["2025-01", "2025-01-31", "2025-01-31T12:30", "2025-01-31T12:30:00.123456"] {
            assert_eq!(since(text), time(text));
        }
        for text in
            ["", "-1", "yesterday", "2025-1-31", "2025-01-31 12:30", "2025-01-31T12:30+01:00"]
        {
            assert!(since(text).is_err(), "{text}");
        }
    }
}

//! The control socket: one JSON request per line, one JSON response per line, in order.
//!
//! ```text
//! {"request":"reset","stream":"axis-1"}
//! {"response":"done","message":"stream \"axis-1\" is reset"}
//! ```
//!
//! A request for events with `wait` is answered when there is one, or after [`EVENT_WAIT`] with none: who
//! asks again, from the last number on, misses none, and is told where the node has kept too few.

mod client;
mod event;
mod server;
mod status;
mod table;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, DIRECTORY, discover};
pub use event::{Event, EventDetail};
pub(crate) use server::in_directory;
pub use server::{BindError, EVENT_WAIT, MAX_FOLLOWERS, Reply, Server};
pub use status::{
    EgressStatus, GenerationStatus, LinkState, MemberStatus, MemoryStatus, NodeStatus, PortMode,
    PortStatus, RecoveryStatus, StreamStatus, UnknownStream,
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
    /// What happened.
    Events {
        /// From when on; none: all that is kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<EventStart>,
        /// Whether to wait for an event where there is none.
        #[serde(default)]
        wait: bool,
    },
    /// Adds streams: all of the text, or none.
    AddStreams {
        /// `[[stream]]` tables.
        text: String,
        /// What faults of the text call it.
        file: String,
    },
    /// Puts streams in the place of those with their names.
    ChangeStreams {
        /// `[[stream]]` tables.
        text: String,
        /// What faults of the text call it.
        file: String,
    },
    /// Takes streams away: all of them, or none.
    RemoveStreams {
        /// Their names.
        streams: Vec<String>,
    },
    /// Reads the configuration file anew.
    Reload,
    /// Ends the daemon.
    Stop,
}

/// From when on events are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventStart {
    /// Those after the event of this number.
    Number(u64),
    /// Those from this time on: RFC 3339, UTC, or its beginning, such as `2025-01-31T12`.
    Time(String),
}

/// What of RFC 3339 is compared with: digits where these are.
const TIME: &str = "0000-00-00T00:00:00.000000Z";

/// A number, or a time or its beginning.
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
        Err("give the number of an event, or a time in UTC such as 2025-01-31T12:30:00Z")
    }
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
    /// To [`Request::Events`].
    Events {
        /// What happened, in order.
        events: Vec<Event>,
        /// How many there were that are asked for and no longer kept.
        missed: u64,
        /// Number of the last event so far, asked for or not.
        last: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_time_or_its_beginning() {
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

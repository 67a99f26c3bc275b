//! The readings of a node.

use std::time::{Instant, SystemTime};

use onbeat_node::control::{
    Client, ClientError, DetailedStream, Event, EventStart, NodeSummary, NodeTables, Request,
    Response, StreamPaths,
};
use onbeat_terminal::exit::Result;

use crate::node;

/// Maximum number of streams of a reading: a person reads fewer, and the node's work is bounded.
const LISTED: u32 = 500;
/// Maximum number of events that a first reading has.
const EVENTS: usize = 200;

/// What to read beyond sums and ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The text that names of streams contain; `*` and `?` are wildcards.
    pub(super) search: String,
    /// The stream whose paths are read.
    pub(super) paths_of: Option<String>,
    /// Whether the tables of PRP or of wildcards are read.
    pub(super) tables: bool,
}

/// The state of a node at an instant.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) at: Instant,
    /// RFC 3339, UTC.
    pub(super) time: String,
    pub(super) summary: NodeSummary,
    /// Events since the previous reading.
    pub(super) events: Vec<Event>,
    pub(super) paths: Option<StreamPaths>,
    /// The tables, or the reason for none.
    pub(super) tables: Option<std::result::Result<NodeTables, String>>,
}

/// A node, also after its restart.
pub(super) struct Source {
    node: Option<String>,
    client: Option<Client>,
    /// Number of the last event that was read.
    last: Option<u64>,
}

impl Source {
    /// Connects to the node, or to the only running one.
    pub(super) fn open(node: Option<String>) -> Result<Self> {
        let client = Some(node::connect(node.as_deref(), "onbeat top")?);
        Ok(Self { node, client, last: None })
    }

    /// Reads the node; connects again if its daemon has restarted.
    pub(super) fn read(&mut self, wanted: &Wanted) -> std::result::Result<Reading, ClientError> {
        let reading = match &mut self.client {
            Some(client) => read(client, self.last, wanted),
            None => self.read_anew(wanted),
        };
        let reading = match reading {
            // A connection that has been idle can lose its slot.
            Err(ClientError::Closed { .. } | ClientError::Io { .. }) => self.read_anew(wanted),
            reading => reading,
        };
        match reading {
            Ok((reading, last)) => {
                // Its name is known now: another node that starts is not meant.
                self.node.get_or_insert_with(|| reading.summary.node.clone());
                self.last = Some(last);
                Ok(reading)
            }
            Err(error) => {
                self.client = None;
                Err(error)
            }
        }
    }

    fn read_anew(&mut self, wanted: &Wanted) -> std::result::Result<(Reading, u64), ClientError> {
        let directory = std::path::Path::new(onbeat_node::control::DIRECTORY);
        let client = self.client.insert(Client::to_node(self.node.as_deref(), directory)?);
        read(client, self.last, wanted)
    }
}

/// The pattern of names that contain a text; `*` and `?` are wildcards.
pub(super) fn pattern(text: &str) -> String {
    format!("*{text}*")
}

/// Reads the node, and the number of its last event.
fn read(
    client: &mut Client,
    last: Option<u64>,
    wanted: &Wanted,
) -> std::result::Result<(Reading, u64), ClientError> {
    let mut summary = summary(client, vec![pattern(&wanted.search)])?;
    if is_trouble_hidden(&summary) {
        let troubled = self::summary(client, Vec::new())?.detailed;
        let is_listed = |stream: &DetailedStream| {
            troubled.iter().any(|other| other.status.name == stream.status.name)
        };
        summary.detailed.retain(|stream| !is_listed(stream));
        summary.detailed.extend(troubled);
    }
    let since = last.map(EventStart::Number);
    let (mut events, last) = match client.request(&Request::Events { since, wait: false })? {
        Response::Events { events, last, .. } => (events, last),
        _ => return Err(ClientError::Unexpected),
    };
    events.drain(..events.len().saturating_sub(EVENTS));
    let paths = match &wanted.paths_of {
        Some(stream) => match client.paths(Some(stream.clone())) {
            Ok(paths) => paths.into_iter().next(),
            // It was removed, or has no recovery.
            Err(ClientError::Refused(_)) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let tables = match wanted.tables.then(|| client.tables()) {
        Some(Err(ClientError::Refused(reason))) => Some(Err(reason)),
        Some(tables) => Some(Ok(tables?)),
        None => None,
    };
    let (at, time) = (Instant::now(), onbeat_report::rfc3339(SystemTime::now()));
    Ok((Reading { at, time, summary, events, paths, tables }, last))
}

fn summary(
    client: &mut Client,
    streams: Vec<String>,
) -> std::result::Result<NodeSummary, ClientError> {
    match client.request(&Request::Summary { streams, limit: LISTED })? {
        Response::Summary { summary } => Ok(*summary),
        _ => Err(ClientError::Unexpected),
    }
}

/// Whether streams without trouble leave no room for all that are in trouble.
fn is_trouble_hidden(summary: &NodeSummary) -> bool {
    let is_troubled = |stream: &&DetailedStream| !stream.troubles.is_empty();
    let listed = summary.detailed.iter().filter(is_troubled).count() as u64;
    let least = summary.in_trouble.values().copied().max().unwrap_or(0);
    summary.detailed.len() >= LISTED as usize && listed < least
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_node::control::StreamTrouble;

    #[test]
    fn streams_in_trouble_are_read_again_if_others_leave_no_room() {
        let mut summary = NodeSummary {
            in_trouble: [(StreamTrouble::PathLost, 2), (StreamTrouble::RogueFlood, 0)].into(),
            detailed: vec![DetailedStream::default(); LISTED as usize],
            ..NodeSummary::default()
        };
        assert!(is_trouble_hidden(&summary));
        for stream in &mut summary.detailed[..2] {
            stream.troubles.push(StreamTrouble::PathLost);
        }
        assert!(!is_trouble_hidden(&summary));
        summary.detailed.truncate(3);
        summary.detailed[0].troubles.clear();
        assert!(!is_trouble_hidden(&summary), "there was room");
    }
}

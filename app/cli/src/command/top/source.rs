//! The readings of a node.

use std::time::{Instant, SystemTime};

use onbeat_node::control::{
    Client, ClientError, Event, NodeSummary, NodeTables, StreamPaths, is_match,
};
use onbeat_terminal::exit::Result;

use crate::node;

/// Maximum number of streams of a reading: a person reads fewer, and the node's work is bounded.
const LISTED: u32 = 500;
/// Maximum number of events that a first reading has.
const EVENTS: usize = 200;

/// What to read beyond sums and ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Selection {
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
    /// When the summary was read.
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
    pub(super) fn read(
        &mut self,
        selection: &Selection,
    ) -> std::result::Result<Reading, ClientError> {
        let reading = match &mut self.client {
            Some(client) => read(client, self.last, selection),
            None => self.read_again(selection),
        };
        let reading = match reading {
            // A connection that has been idle can lose its slot.
            Err(ClientError::Closed { .. } | ClientError::Io { .. }) => self.read_again(selection),
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

    fn read_again(
        &mut self,
        selection: &Selection,
    ) -> std::result::Result<(Reading, u64), ClientError> {
        let directory = std::path::Path::new(onbeat_node::control::DIRECTORY);
        let client = self.client.insert(Client::to_node(self.node.as_deref(), directory)?);
        read(client, self.last, selection)
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
    selection: &Selection,
) -> std::result::Result<(Reading, u64), ClientError> {
    let pattern = pattern(&selection.search);
    let mut summary = client.summary(&pattern, LISTED)?;
    let at = Instant::now();
    // Others are in trouble.
    summary.detailed.retain(|stream| is_match(&pattern, &stream.status.name));
    let (mut events, last) = client.events_after(last)?;
    events.drain(..events.len().saturating_sub(EVENTS));
    let paths = match &selection.paths_of {
        Some(stream) => match client.paths(Some(stream.clone())) {
            Ok(paths) => paths.into_iter().next(),
            // It was removed, or has no recovery.
            Err(ClientError::Refused(_)) => None,
            Err(error) => return Err(error),
        },
        None => None,
    };
    let tables = match selection.tables.then(|| client.tables()) {
        Some(Err(ClientError::Refused(reason))) => Some(Err(reason)),
        Some(tables) => Some(Ok(tables?)),
        None => None,
    };
    let time = onbeat_report::rfc3339(SystemTime::now());
    Ok((Reading { at, time, summary, events, paths, tables }, last))
}

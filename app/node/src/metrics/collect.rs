//! Collects the summaries of all nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::control::{Client, ClientError, DIRECTORY, NodeSummary, READERS, discover};

/// Longest time for the response of a node.
const PATIENCE: Duration = Duration::from_secs(3);

/// Time after which no further node is read: less than the timeout of a scrape (10 s).
const LONGEST: Duration = Duration::from_secs(5);

/// A node, and its summary or why it has none.
pub type NodeReading = (String, Result<NodeSummary, ClientError>);

/// Reads nodes by their sockets for readers, or by others in one directory.
#[derive(Debug, Clone)]
pub struct Collector {
    directory: PathBuf,
    streams: Vec<String>,
    limit: u32,
}

impl Collector {
    /// Reads all nodes, with up to `limit` streams each: those that match a pattern of `streams`, then those in trouble.
    #[must_use]
    pub fn new(streams: Vec<String>, limit: u32) -> Self {
        Self { directory: READERS.into(), streams, limit }
    }

    /// Reads all nodes without their streams, by their control sockets if this user can list them.
    #[must_use]
    pub fn of_user() -> Self {
        let is_listed = fs::read_dir(DIRECTORY).is_ok();
        let directory = if is_listed { DIRECTORY } else { READERS };
        Self { directory: directory.into(), streams: Vec::new(), limit: 0 }
    }

    /// Reads the nodes, by name.
    #[must_use]
    pub fn collect(&self) -> Vec<NodeReading> {
        let end = Instant::now() + LONGEST;
        let read = |(name, path): (String, PathBuf)| {
            let summary = if Instant::now() < end {
                self.summary(&path)
            } else {
                Err(ClientError::Io { path, source: std::io::ErrorKind::TimedOut.into() })
            };
            // Nodes of one name can have different sockets, but no two series the same labels.
            let summary = summary.map(|summary| NodeSummary { node: name.clone(), ..summary });
            (name, summary)
        };
        discover(&self.directory).into_iter().map(read).collect()
    }

    fn summary(&self, path: &Path) -> Result<NodeSummary, ClientError> {
        Client::connect_with(path, PATIENCE)?.summary_of(self.streams.clone(), self.limit)
    }
}

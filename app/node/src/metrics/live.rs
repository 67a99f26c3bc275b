//! The live state of all nodes, for the page of people.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::control::{Client, ClientError, Event, NodeSummary, READERS, StreamPaths, discover};

/// Longest time for a response of a node.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time after which no further node, and no further path, is read: scrapes wait meanwhile.
const LONGEST: Duration = Duration::from_secs(2);
/// Number of streams of a node that are listed.
const LISTED: u32 = 50;
/// Number of these whose paths are read.
const WITH_PATHS: usize = 10;
/// Number of events of a node that are listed.
const EVENTS: usize = 30;
/// Number of streams from which on a node is read less often: each reading sums all streams.
const MANY: u64 = 10_000;

/// Reads nodes by their sockets for readers, with events since the page was first read.
#[derive(Debug)]
pub struct LiveCollector {
    directory: PathBuf,
    start: Instant,
    recent: BTreeMap<String, RecentEvents>,
}

/// The last events of a node.
#[derive(Debug, Default)]
struct RecentEvents {
    last: Option<u64>,
    events: VecDeque<LiveEvent>,
}

/// An event as `show --events` prints it.
#[derive(Debug, Clone, Serialize)]
struct LiveEvent {
    number: u64,
    time: String,
    text: String,
    bad: bool,
}

impl LiveEvent {
    fn of(event: &Event) -> Self {
        let (number, time) = (event.number, event.time.clone());
        Self { number, time, text: event.to_string(), bad: event.detail.is_bad() }
    }
}

#[derive(Serialize)]
struct LiveState {
    /// RFC 3339, UTC.
    time: String,
    nodes: Vec<LiveNode>,
}

/// A node, or why it is not read.
#[derive(Default, Serialize)]
struct LiveNode {
    node: String,
    /// Milliseconds by a clock that is never set, when the summary was read: rates are of two readings.
    at_ms: u64,
    error: Option<String>,
    summary: Option<NodeSummary>,
    paths: Vec<StreamPaths>,
    events: VecDeque<LiveEvent>,
}

impl Default for LiveCollector {
    fn default() -> Self {
        Self::new()
    }
}

impl LiveCollector {
    /// Creates a collector of all nodes.
    #[must_use]
    pub fn new() -> Self {
        Self { directory: READERS.into(), start: Instant::now(), recent: BTreeMap::new() }
    }

    /// Reads the nodes; returns a server-sent event with the time until the next request of the browser.
    pub fn event(&mut self) -> String {
        let sockets = discover(&self.directory);
        self.recent.retain(|name, _| sockets.iter().any(|(node, _)| node == name));
        let (mut nodes, end) = (Vec::new(), Instant::now() + LONGEST);
        for (name, path) in sockets {
            let recent = self.recent.entry(name.clone()).or_default();
            let node = read((&path, self.start), recent, end).unwrap_or_else(|error| LiveNode {
                error: Some(error.to_string()),
                ..LiveNode::default()
            });
            nodes.push(LiveNode { node: name, events: recent.events.clone(), ..node });
        }
        let streams = nodes.iter().filter_map(|node| Some(node.summary.as_ref()?.streams));
        let retry_ms = if streams.sum::<u64>() > MANY { 5000 } else { 1000 };
        let state = LiveState { time: onbeat_report::rfc3339(SystemTime::now()), nodes };
        // JSON has no line ends, which would end the event.
        let json = serde_json::to_string(&state).expect("numbers and texts");
        format!("retry: {retry_ms}\ndata: {json}\n\n")
    }
}

fn read(
    (path, start): (&Path, Instant),
    recent: &mut RecentEvents,
    end: Instant,
) -> Result<LiveNode, ClientError> {
    if Instant::now() >= end {
        let source = std::io::ErrorKind::TimedOut.into();
        return Err(ClientError::Io { path: path.into(), source });
    }
    let mut client = Client::connect_with(path, PATIENCE)?;
    let summary = client.summary("*", LISTED)?;
    let at_ms = start.elapsed().as_millis() as u64;
    let (events, last) = client.events_after(recent.last)?;
    if recent.last.is_some_and(|before| last < before) {
        // Of a new daemon, whose numbers start at 1.
        recent.events.clear();
    }
    recent.last = Some(last);
    recent.events.extend(events.iter().map(LiveEvent::of));
    recent.events.drain(..recent.events.len().saturating_sub(EVENTS));
    let mut paths = Vec::new();
    let recovered = summary.detailed.iter().filter(|stream| stream.status.recovery.is_some());
    for stream in recovered.take(WITH_PATHS).take_while(|_| Instant::now() < end) {
        match client.paths(Some(stream.status.name.clone())) {
            Ok(read) => paths.extend(read),
            // It was just removed.
            Err(ClientError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(LiveNode { at_ms, summary: Some(summary), paths, ..LiveNode::default() })
}

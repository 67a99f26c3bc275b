//! Client of the control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::{
    DetailedStream, Event, EventStart, MANAGER_GROUP, MANAGERS, NodeStatus, NodeSummary,
    NodeTables, READER_GROUP, READERS, Request, Response, StreamPaths, StreamStatus, orphan,
};

/// Default directory of control sockets.
pub const DIRECTORY: &str = onbeat_host::RUN;

/// Longest time for a response: a reload rebuilds the tables.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for a connection that only probes for a listener.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of a response in octets: about ten times that of 65,536 streams.
const ANSWER_LENGTH: u64 = 1 << 30;

/// A connection to a running node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

/// Error of a request to a node.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No node is running.
    #[error(
        "no node is running: no control socket in {directory:?}; start one with: onbeat run FILE"
    )]
    NoNode {
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// Data planes run without their daemons, which were stopped or killed.
    #[error("{}", without_daemon(nodes))]
    NoDaemon {
        /// The nodes, at least one.
        nodes: Vec<String>,
    },
    /// There are only sockets of terminated daemons.
    #[error(
        "no node is running; the daemons of these have terminated: {}; restart one with: onbeat run FILE, or \
         remove it with: onbeat down NODE",
        nodes.join(", ")
    )]
    OnlyDead {
        /// Their names.
        nodes: Vec<String>,
    },
    /// No node with this name is running.
    #[error("no node {name:?} is running; {}", running(nodes))]
    UnknownNode {
        /// The requested name.
        name: String,
        /// The running nodes.
        nodes: Vec<String>,
    },
    /// Several nodes are running.
    #[error("several nodes are running: {}; select one with --node", nodes.join(", "))]
    SeveralNodes {
        /// Their names.
        nodes: Vec<String>,
    },
    /// The socket exists, but no daemon listens.
    #[error(
        "no process listens on control socket {path:?}: its daemon has terminated; restart it with: \
         onbeat run FILE, or remove its node with: onbeat down NODE"
    )]
    Dead {
        /// The socket.
        path: PathBuf,
    },
    /// This user may not open the socket or the directory of sockets.
    #[error(
        "control socket {path:?}: permission denied; run the command as root, or, to read the state of a node, as a \
         member of group {READER_GROUP:?} (usermod -aG {READER_GROUP} USER, then log in again)"
    )]
    Forbidden {
        /// The socket or directory.
        path: PathBuf,
    },
    /// A node without a socket for managers, or this user may not open it.
    #[error(
        "node {node:?} has no socket for managers that this user can open ({path:?}: {source}); it must have been started \
         with managed-by under [node], and this user must be a member of group {MANAGER_GROUP:?}"
    )]
    NoManager {
        /// The node.
        node: String,
        /// The socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The connection failed.
    #[error("control socket {path:?}: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The response is invalid.
    #[error(
        "control socket {path:?}: unknown response: {source}; use the version of onbeat that the node runs"
    )]
    Answer {
        /// The socket.
        path: PathBuf,
        /// Cause.
        source: serde_json::Error,
    },
    /// A signal has stopped the daemon. Its programs in the kernel forward on.
    #[error(
        "control socket {path:?}: process {pid} is stopped by a signal and cannot respond; continue it with: \
         kill -CONT {pid}"
    )]
    Stopped {
        /// The socket.
        path: PathBuf,
        /// The process that listens.
        pid: u32,
    },
    /// The daemon has exited.
    #[error("control socket {path:?}: the node closed the connection without a response")]
    Closed {
        /// The socket.
        path: PathBuf,
    },
    /// The response does not match the request.
    #[error("unexpected response of the node; use the version of onbeat that the node runs")]
    Unexpected,
    /// The node refused the request.
    #[error("{0}")]
    Refused(String),
    /// The node refused the request because of another client.
    #[error("{0}")]
    Conflict(String),
}

fn running(nodes: &[String]) -> String {
    match nodes {
        [] => "no node is; start one with: onbeat run FILE".into(),
        _ => format!("running nodes: {}", nodes.join(", ")),
    }
}

fn without_daemon(nodes: &[String]) -> String {
    let (what, node) = match nodes {
        [node] => {
            (format!("the data plane of node {node:?} runs without its daemon"), node.as_str())
        }
        _ => (format!("data planes run without their daemons: {}", nodes.join(", ")), "NODE"),
    };
    format!("{what}; take it over with: onbeat run FILE, or remove it with: onbeat down {node}")
}

/// The control sockets in a directory, by name of the node.
pub fn discover(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".sock")?.to_owned();
        Some((name, path))
    };
    let mut nodes: Vec<_> = entries.filter_map(|entry| named(entry.path())).collect();
    nodes.sort();
    nodes
}

/// Connects; waits at most this time for a slot in the listener's queue.
fn connect_within(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let seconds = TimeVal::seconds(patience.as_secs() as i64);
    setsockopt(&fd, sockopt::SendTimeout, &seconds)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?).map_err(|errno| in_time(errno.into()))?;
    Ok(fd.into())
}

/// Whether no process listens on the socket.
fn is_dead(error: &ClientError) -> bool {
    matches!(error, ClientError::Dead { .. } | ClientError::NoNode { .. })
}

/// Adds the meaning of a timeout to an error.
fn in_time(error: io::Error) -> io::Error {
    if error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    let seconds = ANSWER_TIMEOUT.as_secs();
    let what = format!("no response within {seconds} s; the node may be stopped or blocked");
    io::Error::new(ErrorKind::TimedOut, what)
}

impl Client {
    /// Connects to the node with a name, to the socket with a path (a name with a `/`), or to the only
    /// running node.
    pub fn to_node(name: Option<&str>, directory: &Path) -> Result<Client, ClientError> {
        if fs::read_dir(directory).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
            && !name.is_some_and(|name| name.contains('/'))
        {
            // Readers have sockets of their own.
            if directory == Path::new(DIRECTORY) && !discover(Path::new(READERS)).is_empty() {
                return Client::to_node(name, Path::new(READERS));
            }
            return Err(ClientError::Forbidden { path: directory.into() });
        }
        let nodes = discover(directory);
        let named = |name: &str| nodes.iter().find(|node| node.0 == name);
        let path = match name {
            Some(path) if path.contains('/') => Some(Path::new(path)),
            name => name.and_then(named).map(|node| node.1.as_path()),
        };
        if let Some(path) = path {
            return Client::connect(path).map_err(|error| match orphan::node(path) {
                Some(node) if is_dead(&error) => ClientError::NoDaemon { nodes: vec![node] },
                _ => error,
            });
        }
        let (mut alive, mut dead) = (Vec::new(), Vec::new());
        for (name, path) in nodes {
            match Client::connect_in(&path, PROBE_TIMEOUT) {
                Err(error) if is_dead(&error) => dead.push(name),
                client => alive.push((name, path, client)),
            }
        }
        if let (None, 1) = (name, alive.len()) {
            let (_, path, client) = alive.remove(0);
            return client.or_else(|_| Client::connect(&path));
        }
        let nodes: Vec<String> = alive.into_iter().map(|(name, ..)| name).collect();
        let orphans = orphan::nodes(directory);
        Err(match name {
            Some(name) if orphans.iter().any(|orphan| orphan == name) => {
                ClientError::NoDaemon { nodes: vec![name.to_owned()] }
            }
            Some(name) => ClientError::UnknownNode { name: name.into(), nodes },
            None if !nodes.is_empty() => ClientError::SeveralNodes { nodes },
            None if !orphans.is_empty() => ClientError::NoDaemon { nodes: orphans },
            None if !dead.is_empty() => ClientError::OnlyDead { nodes: dead },
            None => ClientError::NoNode { directory: directory.into() },
        })
    }

    /// Connects to the socket for managers of a node.
    ///
    /// # Errors
    /// The node does not run, is not managed, or this user is no member of the group.
    pub fn to_managed(node: &str) -> Result<Client, ClientError> {
        let path = Path::new(MANAGERS).join(format!("{node}.sock"));
        Client::connect(&path).map_err(|error| {
            let source = match error {
                ClientError::NoNode { .. } => ErrorKind::NotFound.into(),
                ClientError::Forbidden { .. } => ErrorKind::PermissionDenied.into(),
                other => return other,
            };
            ClientError::NoManager { node: node.into(), path, source }
        })
    }

    /// Connects to a control socket.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        Client::connect_in(path, ANSWER_TIMEOUT)
    }

    /// Like [`Client::connect`], with a timeout of one second for each response.
    pub fn connect_briefly(path: &Path) -> Result<Client, ClientError> {
        Client::connect_with(path, PROBE_TIMEOUT)
    }

    /// Like [`Client::connect`], with this timeout of at least one second for each response.
    pub fn connect_with(path: &Path, timeout: Duration) -> Result<Client, ClientError> {
        let client = Client::connect_in(path, timeout)?;
        let stream = client.stream.get_ref();
        let timeouts = stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| stream.set_write_timeout(Some(timeout)));
        timeouts.map_err(|source| ClientError::Io { path: path.into(), source })?;
        Ok(client)
    }

    fn connect_in(path: &Path, patience: Duration) -> Result<Client, ClientError> {
        let owned = path.to_owned();
        let stream = connect_within(path, patience).map_err(|source| match source.kind() {
            ErrorKind::ConnectionRefused => ClientError::Dead { path: owned.clone() },
            ErrorKind::PermissionDenied => ClientError::Forbidden { path: owned.clone() },
            ErrorKind::NotFound => ClientError::NoNode { directory: owned.clone() },
            _ => ClientError::Io { path: owned.clone(), source },
        })?;
        let timeouts = stream
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_TIMEOUT)));
        timeouts.map_err(|source| ClientError::Io { path: owned.clone(), source })?;
        Ok(Client { stream: BufReader::new(stream), path: owned })
    }

    /// Its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// PID of the process that listens on the socket; `None` if it is in another PID namespace.
    pub fn listener(&self) -> Option<u32> {
        let peer = getsockopt(self.stream.get_ref(), sockopt::PeerCredentials).ok()?;
        u32::try_from(peer.pid()).ok().filter(|pid| *pid != 0)
    }

    /// Sends a request and waits for the response. [`Response::Error`] becomes [`ClientError::Refused`],
    /// [`Response::Conflict`] becomes [`ClientError::Conflict`].
    pub fn request(&mut self, request: &Request) -> Result<Response, ClientError> {
        if let Some(pid) = self.listener().filter(|pid| onbeat_host::is_stopped(*pid)) {
            return Err(ClientError::Stopped { path: self.path.clone(), pid });
        }
        let line = self.exchange(request).map_err(|source| {
            let path = self.path.clone();
            match source.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                    ClientError::Closed { path }
                }
                _ => ClientError::Io { path, source: in_time(source) },
            }
        })?;
        match serde_json::from_slice(&without_control_characters(line)) {
            Ok(Response::Error { message }) => Err(ClientError::Refused(message)),
            Ok(Response::Conflict { message }) => Err(ClientError::Conflict(message)),
            Ok(response) => Ok(response),
            Err(source) => Err(ClientError::Answer { path: self.path.clone(), source }),
        }
    }

    /// Queries the state of the node.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn status(&mut self) -> Result<NodeStatus, ClientError> {
        match self.request(&Request::Show)? {
            Response::Status { status } => Ok(*status),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries the sums of the node, and up to `limit` streams whose names match the pattern. Further ones follow if they are in
    /// trouble, at most `limit` again.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn summary(&mut self, pattern: &str, limit: u32) -> Result<NodeSummary, ClientError> {
        let mut summary = self.summary_of(vec![pattern.to_owned()], limit)?;
        if is_trouble_hidden(&summary, limit) {
            let troubled = self.summary_of(Vec::new(), limit)?.detailed;
            let is_listed = |stream: &DetailedStream| {
                troubled.iter().any(|other| other.status.name == stream.status.name)
            };
            summary.detailed.retain(|stream| !is_listed(stream));
            summary.detailed.extend(troubled);
        }
        Ok(summary)
    }

    /// Queries the sums of the node, and up to `limit` streams: those whose names match a pattern, then those in trouble.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn summary_of(
        &mut self,
        streams: Vec<String>,
        limit: u32,
    ) -> Result<NodeSummary, ClientError> {
        match self.request(&Request::Summary { streams, limit })? {
            Response::Summary { summary } => Ok(*summary),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries the stored events after a number, and the number of the last one.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn events_after(&mut self, last: Option<u64>) -> Result<(Vec<Event>, u64), ClientError> {
        let (events, _, last) = self.stored_events(last.map(EventStart::Number), false)?;
        Ok((events, last))
    }

    /// Events, the number of earlier ones that are no longer stored, and the number of the last one.
    fn stored_events(
        &mut self,
        since: Option<EventStart>,
        wait: bool,
    ) -> Result<(Vec<Event>, u64, u64), ClientError> {
        match self.request(&Request::Events { since, wait })? {
            Response::Events { events, missed, last } => Ok((events, missed, last)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries ports and streams as they run, as text of a configuration file.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn configuration(&mut self) -> Result<String, ClientError> {
        match self.request(&Request::Configuration)? {
            Response::Configuration { text } => Ok(text),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries ports and streams after a restart, and the number of streams that are those of the node's file.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn stored_configuration(&mut self) -> Result<(String, usize), ClientError> {
        match self.request(&Request::StoredConfiguration)? {
            Response::StoredConfiguration { text, of_file } => Ok((text, of_file)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries the state of the streams with these names, in their order.
    ///
    /// # Errors
    /// The node does not respond, or has no stream of a name.
    pub fn streams(&mut self, streams: Vec<String>) -> Result<Vec<StreamStatus>, ClientError> {
        match self.request(&Request::Streams { streams })? {
            Response::Streams { streams } => Ok(streams),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries the paths of streams with sequence recovery, or of one of them.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn paths(&mut self, stream: Option<String>) -> Result<Vec<StreamPaths>, ClientError> {
        match self.request(&Request::Paths { stream })? {
            Response::Paths { streams } => Ok(streams),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Queries the tables of a PRP node, or of a node with wildcards.
    ///
    /// # Errors
    /// The node does not respond, or has neither.
    pub fn tables(&mut self) -> Result<NodeTables, ClientError> {
        match self.request(&Request::Nodes)? {
            Response::Nodes { nodes } => Ok(NodeTables::Prp(nodes)),
            Response::Wildcards { tables } => Ok(NodeTables::Wildcards(tables)),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Sends a request that changes the node; returns the message of its response.
    ///
    /// # Errors
    /// The node does not respond, or refuses.
    pub fn order(&mut self, request: &Request) -> Result<String, ClientError> {
        match self.request(request)? {
            Response::Done { message } => Ok(message),
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Passes stored events to `print`, with the number of earlier events that are no longer stored, then new
    /// events until `print` breaks. Returns false if the node has exited.
    ///
    /// # Errors
    /// The node does not respond, or refuses; errors of `print`.
    pub fn events<E: From<ClientError>>(
        &mut self,
        mut since: Option<EventStart>,
        mut print: impl FnMut(&[Event], u64) -> Result<ControlFlow<()>, E>,
    ) -> Result<bool, E> {
        let mut wait = false;
        loop {
            let (events, missed, last) = match self.stored_events(since, wait) {
                // Events that were waited for no longer come.
                Err(ClientError::Closed { .. }) if wait => return Ok(false),
                answer => answer?,
            };
            if print(&events, missed)?.is_break() {
                return Ok(true);
            }
            (since, wait) = (Some(EventStart::Number(last)), true);
        }
    }

    fn exchange(&mut self, request: &Request) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line)?;
        line.clear();
        self.stream.by_ref().take(ANSWER_LENGTH).read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') { Ok(line) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }
}

/// Whether streams without trouble leave no room for all that are in trouble.
fn is_trouble_hidden(summary: &NodeSummary, limit: u32) -> bool {
    let listed = |kind| summary.detailed.iter().filter(|s| s.troubles.contains(kind)).count();
    let mut kinds = summary.in_trouble.iter();
    summary.detailed.len() >= limit as usize
        && kinds.any(|(kind, streams)| (listed(kind) as u64) < *streams)
}

/// Replaces control characters in the strings of a JSON line, except line ends and tabs, by their numbers, as in
/// `\u{1b}`. Responses are printed on terminals, and any program may listen on a path.
fn without_control_characters(line: Vec<u8>) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(&line) else { return line };
    let mut clean = String::with_capacity(line.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '\\' || c.is_control()) {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let (character, length) = first_character(rest);
        match character {
            Some(c) if c.is_control() && !['\n', '\t'].contains(&c) => {
                // Two backslashes are one of the string.
                clean.push_str(&format!("\\\\u{{{:x}}}", u32::from(c)));
            }
            _ => clean.push_str(&rest[..length]),
        }
        rest = &rest[length..];
    }
    clean.push_str(rest);
    clean.into_bytes()
}

/// The first character of a JSON text, if it does not depend on following text, and the length of its encoding in
/// octets.
fn first_character(text: &str) -> (Option<char>, usize) {
    let mut characters = text.chars();
    let first = characters.next();
    if first != Some('\\') {
        return (first, first.map_or(0, char::len_utf8));
    }
    match characters.next() {
        Some('b') => (Some('\u{8}'), 2),
        Some('f') => (Some('\u{c}'), 2),
        Some('r') => (Some('\r'), 2),
        Some('u') => match text.get(2..6).map(|digits| u32::from_str_radix(digits, 16)) {
            Some(Ok(code)) => (char::from_u32(code), 6),
            _ => (None, 2),
        },
        second => (None, 1 + second.map_or(0, char::len_utf8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::StreamTrouble;

    #[test]
    fn streams_in_trouble_are_read_again_if_others_leave_no_room() {
        const LIMIT: u32 = 5;
        let mut summary = NodeSummary {
            in_trouble: [(StreamTrouble::PathLost, 2), (StreamTrouble::RogueFlood, 0)].into(),
            detailed: vec![DetailedStream::default(); LIMIT as usize],
            ..NodeSummary::default()
        };
        assert!(is_trouble_hidden(&summary, LIMIT));
        for stream in &mut summary.detailed[..2] {
            stream.troubles.push(StreamTrouble::PathLost);
        }
        assert!(!is_trouble_hidden(&summary, LIMIT));
        // Of another kind, and not listed.
        summary.in_trouble.insert(StreamTrouble::RogueFlood, 1);
        assert!(is_trouble_hidden(&summary, LIMIT));
        summary.detailed.truncate(3);
        summary.detailed[0].troubles.clear();
        assert!(!is_trouble_hidden(&summary, LIMIT), "there was room");
    }

    #[test]
    fn control_characters_except_line_ends_and_tabs_are_replaced() {
        let of = |text: &str| {
            let clean = without_control_characters(text.as_bytes().to_vec());
            serde_json::from_slice::<String>(&clean).unwrap()
        };
        for (text, expected) in [
            (r#""\u001b[2J\u001B""#, r"\u{1b}[2J\u{1b}"),
            (r#""\b\f\r\u0000\u000d""#, r"\u{8}\u{c}\u{d}\u{0}\u{d}"),
            ("\"\u{7f}\u{9b}2J\\u009b\"", r"\u{7f}\u{9b}2J\u{9b}"),
            (r#""a\n\tb\u000a""#, "a\n\tb\n"),
            // Backslashes, quotation marks, characters beyond 16 bits.
            (r#""\\u001b \\\\r \" \/ \u00e9 \ud83d\ude00 ü😀""#, "\\u001b \\\\r \" / é 😀 ü😀"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        for text in ["", "\\", "\"\\u00", "\"\\uü", "\"\\ü"] {
            let clean = without_control_characters(text.as_bytes().to_vec());
            assert_eq!(clean, text.as_bytes(), "{text}");
        }
        assert_eq!(without_control_characters(b"\xff\x1b".to_vec()), b"\xff\x1b");
    }
}

//! The other side of the control socket.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Request, Response};

/// Where nodes have their control sockets unless their configuration says otherwise.
pub const DIRECTORY: &str = "/run/onbeat";

/// How long a node may take to answer: a reload builds its tables anew.
const PATIENCE: Duration = Duration::from_secs(30);

/// Octets of an answer at most: some ten times what 65,536 streams take.
const ANSWER_LENGTH: u64 = 1 << 30;

/// A connection to a running node.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

/// Why a node does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is none.
    #[error(
        "no node runs here: no control socket in {directory:?}; start one with: onbeat run FILE"
    )]
    NoNode {
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// There is none of this name.
    #[error("no node {name:?} runs here; {}", running(nodes))]
    UnknownNode {
        /// The name asked for.
        name: String,
        /// Those that run.
        nodes: Vec<String>,
    },
    /// There are several.
    #[error("several nodes run here: {}; say which with --node", nodes.join(", "))]
    SeveralNodes {
        /// Their names.
        nodes: Vec<String>,
    },
    /// The socket is there and its daemon is not.
    #[error(
        "nobody listens on control socket {path:?}: its node has died; start it again with: onbeat run FILE"
    )]
    Dead {
        /// The socket.
        path: PathBuf,
    },
    /// The socket, or the directory of all sockets, is not for this user.
    #[error("control socket {path:?} is not for this user; run the command as root")]
    Forbidden {
        /// The socket or directory.
        path: PathBuf,
    },
    /// The connection failed.
    #[error("control socket {path:?}: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The answer makes no sense.
    #[error(
        "control socket {path:?} gave an answer this version does not know: {source}; use the version of onbeat that the node runs"
    )]
    Answer {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The node said no.
    #[error("{0}")]
    Refused(String),
}

fn running(nodes: &[String]) -> String {
    match nodes {
        [] => "none does; start one with: onbeat run FILE".into(),
        _ => format!("these do: {}", nodes.join(", ")),
    }
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

impl Client {
    /// Connects to the node of a name, to the socket of a path (a name with a `/`), or to the
    /// only node there is.
    pub fn to_node(name: Option<&str>, directory: &Path) -> Result<Client, ClientError> {
        if fs::read_dir(directory).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
            && !name.is_some_and(|name| name.contains('/'))
        {
            return Err(ClientError::Forbidden { path: directory.into() });
        }
        let nodes = discover(directory);
        let names = |nodes: Vec<(String, PathBuf)>| nodes.into_iter().map(|node| node.0).collect();
        match (name, nodes.as_slice()) {
            (Some(path), _) if path.contains('/') => Client::connect(Path::new(path)),
            (Some(name), _) => match nodes.iter().find(|node| node.0 == name) {
                Some((_, path)) => Client::connect(path),
                None => Err(ClientError::UnknownNode { name: name.into(), nodes: names(nodes) }),
            },
            (None, []) => Err(ClientError::NoNode { directory: directory.into() }),
            (None, [(_, path)]) => Client::connect(path),
            (None, _) => Err(ClientError::SeveralNodes { nodes: names(nodes) }),
        }
    }

    /// Connects to a control socket.
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let owned = path.to_owned();
        let stream = UnixStream::connect(path).map_err(|source| match source.kind() {
            ErrorKind::ConnectionRefused => ClientError::Dead { path: owned.clone() },
            ErrorKind::PermissionDenied => ClientError::Forbidden { path: owned.clone() },
            ErrorKind::NotFound => ClientError::NoNode { directory: owned.clone() },
            _ => ClientError::Io { path: owned.clone(), source },
        })?;
        let timeouts = stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        timeouts.map_err(|source| ClientError::Io { path: owned.clone(), source })?;
        Ok(Client { stream: BufReader::new(stream), path: owned })
    }

    /// Asks, and waits for the answer. [`Response::Error`] is [`ClientError::Refused`].
    pub fn request(&mut self, request: &Request) -> Result<Response, ClientError> {
        let line = self.exchange(request).map_err(|source| {
            let source = match source.kind() {
                ErrorKind::WouldBlock => io::Error::new(
                    ErrorKind::TimedOut,
                    format!(
                        "no answer within {} s; is the node stopped or stuck?",
                        PATIENCE.as_secs()
                    ),
                ),
                ErrorKind::UnexpectedEof => io::Error::new(
                    source.kind(),
                    "the node closed the connection without an answer",
                ),
                _ => source,
            };
            ClientError::Io { path: self.path.clone(), source }
        })?;
        match serde_json::from_slice(&line) {
            Ok(Response::Error { message }) => Err(ClientError::Refused(message)),
            Ok(response) => Ok(response),
            Err(source) => Err(ClientError::Answer { path: self.path.clone(), source }),
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

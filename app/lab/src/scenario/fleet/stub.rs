//! Control sockets without nodes: they acknowledge each file, and count each probe.
//!
//! With them a roll-out takes the time of store, controller and agents alone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onbeat_node::control::{FileVersion, MANAGERS, MemberStatus, Request, Response, StreamStatus};
use onbeat_rollout::record::FileHash;

use super::network::{PlanOutput, name};
use crate::worker::Worker;
use crate::{Error, Result};

const POLL_MS: u16 = 20;
/// Packets that each member has counted: more than all probes.
const COUNTED: u64 = 1 << 32;
/// Members of a stream, at most.
const MEMBERS: usize = 8;

/// The sockets of all nodes.
pub(super) struct NodeStubs {
    _worker: Worker<()>,
}

struct Stub {
    name: String,
    listener: UnixListener,
    /// What the node would run.
    sha256: String,
}

impl NodeStubs {
    /// Creates sockets of nodes, which start without streams.
    pub(super) fn start(nodes: u32, plan: &PlanOutput) -> Result<Self> {
        let directory = || fs::create_dir_all(MANAGERS);
        directory().map_err(|error| Error::io(format!("create {MANAGERS}"), error))?;
        let mut stubs = Vec::new();
        for node in 0..nodes {
            let name = name(node);
            let file = plan.files.iter().find(|(of, _)| *of == name);
            let text =
                file.map_or("", |(_, text)| text).split("[[stream]]").next().unwrap_or_default();
            let path = Path::new(MANAGERS).join(format!("{name}.sock"));
            let listener = UnixListener::bind(&path)
                .map_err(|error| Error::io(format!("listen on {}", path.display()), error))?;
            stubs.push(Stub { name, listener, sha256: FileHash::of(text).to_string() });
        }
        Ok(Self { _worker: Worker::start("lab-stubs", move |stop| serve(&mut stubs, stop))? })
    }
}

fn serve(stubs: &mut [Stub], stop: &AtomicBool) {
    let mut clients: Vec<(usize, BufReader<UnixStream>)> = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let listening = stubs.iter().map(|stub| stub.listener.as_fd());
        let fds = listening.chain(clients.iter().map(|(_, client)| client.get_ref().as_fd()));
        let mut polled: Vec<PollFd<'_>> =
            fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // An interruption by a signal is harmless.
        let _ = poll(&mut polled, PollTimeout::from(POLL_MS));
        let ready: Vec<bool> = polled.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let (new, known) = ready.split_at(stubs.len());
        let mut is_ready = known.iter();
        clients.retain_mut(|(stub, client)| {
            !is_ready.next().is_some_and(|ready| *ready)
                || answer(&mut stubs[*stub], client).is_some()
        });
        for (number, stub) in stubs.iter().enumerate().filter(|(number, _)| new[*number]) {
            if let Ok((client, _)) = stub.listener.accept() {
                clients.push((number, BufReader::new(client)));
            }
        }
    }
}

/// Responds to a request; `None`: the client closed the connection.
fn answer(stub: &mut Stub, client: &mut BufReader<UnixStream>) -> Option<()> {
    let mut line = String::new();
    if client.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let response = match serde_json::from_str(&line) {
        Ok(request) => stub.respond(request),
        Err(error) => Response::Error { message: error.to_string() },
    };
    let mut text = serde_json::to_vec(&response).ok()?;
    text.push(b'\n');
    client.get_mut().write_all(&text).ok()
}

impl Stub {
    fn respond(&mut self, request: Request) -> Response {
        match request {
            Request::Ping => {
                let version = FileVersion { sha256: self.sha256.clone(), ..FileVersion::default() };
                let node = self.name.clone();
                Response::Pong { node, pid: std::process::id(), configuration: Some(version) }
            }
            Request::ReplaceFile { text } => {
                self.sha256 = FileHash::of(&text).to_string();
                Response::Done { message: String::new() }
            }
            Request::Prove { .. } => Response::Done { message: String::new() },
            Request::Streams { streams } => {
                let member = MemberStatus { input_packets: COUNTED, ..MemberStatus::default() };
                let status = |name| {
                    let members = vec![member.clone(); MEMBERS];
                    StreamStatus { name, members, ..StreamStatus::default() }
                };
                Response::Streams { streams: streams.into_iter().map(status).collect() }
            }
            other => Response::Error { message: format!("there is no node for {other:?}") },
        }
    }
}

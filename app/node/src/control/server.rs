//! Server of the control socket, without a thread: a poll loop calls [`Server::step`].

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen as start_listening,
    socket,
};
use nix::sys::stat::SFlag;
use onbeat_host::{Holder, Lock, PrivateDirectory, command_line};

use super::readers::{self, Audience, GroupError, GroupSocket};
use super::{Request, Response};
use crate::config::LONGEST;

/// Maximum length of a request in octets, with its line end: sufficient for streams with the longest masks.
const REQUEST_LENGTH: usize = 1 << 20;

/// Limits of control clients, which are root's.
const CONTROL: Limits = Limits {
    request_length: REQUEST_LENGTH,
    response_time: None,
    followers: MAX_FOLLOWERS,
    clients: MAX_COMMAND_CLIENTS,
    share: 1,
};

/// Limits of readers: any of them may be hostile.
const READER: Limits =
    Limits { request_length: 1 << 16, response_time: Some(RESPONSE_TIME), share: 4, ..CONTROL };

/// Limits of managers, which may be hostile, too. A request has the whole text of a file as a JSON string: few of them
/// are in memory at a time.
const MANAGER: Limits = Limits {
    request_length: 2 * LONGEST as usize,
    response_time: Some(RESPONSE_TIME),
    followers: 0,
    clients: 2,
    share: 2,
};

/// Longest time of reading a response for members of a group.
const RESPONSE_TIME: Duration = Duration::from_secs(5);

/// Time that members of a group may use at once.
const BURST: Duration = Duration::from_millis(5);

/// Number of octets above which a response to a member is long: one of them is in memory at a time.
const LONG_RESPONSE: usize = 1 << 20;

/// Maximum number of clients that wait for events.
pub const MAX_FOLLOWERS: usize = 32;

/// Maximum number of other clients; further ones wait in the kernel's queue. A new client replaces the one that
/// has been idle longest, if for at least [`REPLACEABLE`].
const MAX_COMMAND_CLIENTS: usize = 32;

/// Idle time after which a waiting client may replace another.
const REPLACEABLE: Duration = Duration::from_millis(250);

/// Longest time without a request and without reading a response.
const IDLE: Duration = Duration::from_secs(30);

/// Longest time until a request that waits for events is answered without events.
pub const EVENT_WAIT: Duration = Duration::from_secs(10);

/// The outcome of a request.
#[derive(Debug)]
pub enum Reply {
    /// Send this response.
    Now(Response),
    /// Repeat the request at every step; send this response after [`EVENT_WAIT`], or when the client sends
    /// another request or closes the connection.
    Later(Response),
}

/// A listening control socket.
#[derive(Debug)]
pub struct Server {
    control: Clients,
    path: PathBuf,
    directory: PrivateDirectory,
    name: String,
    /// Other users, who take no slot of a control client.
    groups: Vec<(Audience, GroupSocket, Clients)>,
    /// The process with the lock owns the path.
    _lock: Lock,
}

/// The clients of one socket.
#[derive(Debug)]
struct Clients {
    listener: UnixListener,
    connections: Vec<Connection>,
    /// Time at which a slot may be free, if all are in use.
    room_at: Option<Instant>,
    limits: Limits,
    /// Time that was used beyond the share of these clients; none: their time is not limited.
    debt: Option<Debt>,
}

/// Limits of a client.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Maximum length of a request in octets.
    request_length: usize,
    /// Longest time of reading a response.
    response_time: Option<Duration>,
    /// Maximum number of clients that wait for events.
    followers: usize,
    /// Maximum number of other clients.
    clients: usize,
    /// These clients together use at most one n-th of the daemon's time; 1: all of it.
    share: u32,
}

/// Time of the daemon that members of a group used. It decreases by their share of the time that passes.
#[derive(Debug, Clone, Copy)]
struct Debt {
    share: u32,
    used: Duration,
    at: Instant,
    /// End of a pause in which no request is read, if there is one.
    resumes_at: Option<Instant>,
    /// Received requests may wait in memory.
    interrupted: bool,
}

impl Debt {
    fn left(self, now: Instant) -> Duration {
        self.used.saturating_sub(now.saturating_duration_since(self.at) / self.share)
    }

    /// Adds time that was used until now. Beyond the time that may be used at once, a pause follows until all of it is
    /// repaid.
    fn add(&mut self, now: Instant, used: Duration) {
        (self.used, self.at) = (self.left(now) + used, now);
        self.resumes_at = (self.used >= BURST).then(|| now + self.used * self.share);
    }
}

/// Error of creating a control socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A daemon already listens there.
    #[error(
        "a node is already running on control socket {path:?}: {holder}; stop it first, or set another name or control path under [node]"
    )]
    Running {
        /// The socket.
        path: PathBuf,
        /// The other daemon.
        holder: Holder,
    },
    /// The path is not a socket, or is a socket of another program.
    #[error(
        "control path {path:?} exists and is not a socket, or another program listens there; remove \
         it, or set control under [node]"
    )]
    Occupied {
        /// The path.
        path: PathBuf,
    },
    /// A socket without a listener and without the lock of a node.
    #[error(
        "control socket {path:?} exists without a listener, and no killed node left it: another \
         program may be about to listen there; set another control under [node], or, if no program \
         uses it, rm {}",
        path.display()
    )]
    ForeignSocket {
        /// The socket.
        path: PathBuf,
    },
    /// A file with the name of the node's lock that is not a lock.
    #[error(
        "lock file {path:?} of the control socket has foreign content; remove it, or set control under \
         [node]"
    )]
    ForeignLock {
        /// The file.
        path: PathBuf,
    },
    /// A path without a file name.
    #[error("control path {path:?} does not end in a file name; add one, such as \"a.sock\"")]
    Name {
        /// The path.
        path: PathBuf,
    },
    /// Its directory, or its lock.
    #[error("control socket: {0}")]
    Host(#[from] onbeat_host::Error),
    /// A system call failed.
    #[error(
        "control socket {path:?} cannot be created: {source}; a directory with write permission is required"
    )]
    Io {
        /// The socket.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl Server {
    /// Listens on a path, accessible to its owner only. Replaces a socket that a terminated daemon left.
    pub fn bind(path: &Path) -> Result<Server, BindError> {
        let (directory, name) = in_directory(path)?;
        let directory = PrivateDirectory::create(directory)?;
        let running = |error| match error {
            BindError::Host(onbeat_host::Error::Locked { holder, .. }) => {
                BindError::Running { path: path.to_owned(), holder }
            }
            error => error,
        };
        let lock = take_lock(&directory, name).map_err(running)?;
        let former = former_lock(name);
        // Elsewhere another program may have such a file.
        let has_former = directory.path().starts_with(onbeat_host::RUN)
            && is_file_with(&directory, &former, is_former_record);
        if let Some(stat) = directory.stat(name)? {
            let path = path.to_owned();
            let is_socket = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFSOCK.bits();
            if !is_socket || !is_abandoned(&directory, name) {
                return Err(BindError::Occupied { path });
            }
            // A killed daemon leaves its lock, too.
            if !lock.is_inherited() && !has_former {
                return Err(BindError::ForeignSocket { path });
            }
            directory.remove(name)?;
        }
        if has_former {
            directory.remove(&former)?;
        }
        let (path, name) = (path.to_owned(), name.to_owned());
        let private = || Ok(directory.set_mode(&name, 0o600)?);
        let listener = listen::<BindError>(&directory, &name, private)?;
        let control = Clients::new(listener, CONTROL);
        Ok(Server { control, path, directory, name, groups: Vec::new(), _lock: lock })
    }

    /// Listens for members of `group` too, in `directory`.
    pub fn admit(
        &mut self,
        audience: Audience,
        directory: &Path,
        group: &str,
    ) -> Result<(), GroupError> {
        let bound = GroupSocket::bind(directory, &self.name, group);
        let (listener, socket) = bound.map_err(|cause| audience.failed(cause))?;
        let limits = match audience {
            Audience::Readers => READER,
            Audience::Managers => MANAGER,
        };
        self.groups.push((audience, socket, Clients::new(listener, limits)));
        Ok(())
    }

    /// The process that holds the lock of the node with this control socket, if any.
    pub fn holder(path: &Path) -> Result<Option<Holder>, BindError> {
        let (directory, name) = in_directory(path)?;
        let Some(directory) = PrivateDirectory::open(directory)? else { return Ok(None) };
        match check_locks(&directory, name) {
            Ok(own) => Ok(Lock::holder(&directory, &own)?),
            Err(BindError::Host(onbeat_host::Error::Locked { holder, .. })) => Ok(Some(holder)),
            Err(error) => Err(error),
        }
    }

    /// Whether a process was killed while it had the node with this control socket: it left its lock, and
    /// possibly the socket.
    pub fn is_left(path: &Path) -> Result<bool, BindError> {
        let (directory, name) = in_directory(path)?;
        let Some(directory) = PrivateDirectory::open(directory)? else { return Ok(false) };
        match check_locks(&directory, name) {
            Ok(own) => Ok(Lock::is_left(&directory, &own)?),
            Err(BindError::Host(onbeat_host::Error::Locked { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the socket for a group that a killed process of this node left in `directory`.
    pub fn forget(&self, audience: Audience, directory: &Path) -> Result<(), GroupError> {
        readers::forget(directory, &self.name).map_err(|cause| audience.failed(cause))
    }

    /// Path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Descriptors to poll before the next [`Server::step`].
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        self.all().flat_map(Clients::fds)
    }

    /// When to call [`Server::step`] without a ready descriptor: a client times out, or its wait ends.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.all().filter_map(Clients::next_deadline).min()
    }

    /// Accepts clients, reads requests and writes responses without blocking. Call it also when an event occurs
    /// that a client may wait for.
    pub fn step(&mut self, now: Instant, mut handle: impl FnMut(&Request) -> Reply) {
        self.control.step(now, &mut handle);
        for (audience, _, clients) in &mut self.groups {
            clients.step(now, |request| {
                let message = match audience {
                    Audience::Readers if !request.is_read_only() => {
                        "the socket for readers accepts no changes; run the command as root"
                    }
                    Audience::Managers if !request.is_for_managers() => {
                        "the socket for managers accepts ping, show, streams, prove and replace_file only; run the command \
                         as root"
                    }
                    _ => return handle(request),
                };
                Reply::Now(Response::Error { message: message.to_owned() })
            });
        }
    }

    /// Writes pending responses before the daemon exits.
    pub fn flush(&mut self, bound: Duration) {
        let end = Instant::now() + bound;
        // Their members may read slowly.
        self.groups.clear();
        self.control.flush(end);
    }

    fn all(&self) -> impl Iterator<Item = &Clients> {
        [&self.control].into_iter().chain(self.groups.iter().map(|(.., clients)| clients))
    }
}

impl Clients {
    fn new(listener: UnixListener, limits: Limits) -> Self {
        let debt = (limits.share > 1).then(|| Debt {
            share: limits.share,
            used: Duration::ZERO,
            at: Instant::now(),
            resumes_at: None,
            interrupted: false,
        });
        Self { listener, connections: Vec::new(), room_at: None, limits, debt }
    }

    /// Whether no request is read for now.
    fn pauses(&self) -> bool {
        self.debt.is_some_and(|debt| debt.resumes_at.is_some()) || self.has_long_response()
    }

    /// Whether a reader has to read a long response before another one is written.
    fn has_long_response(&self) -> bool {
        self.debt.is_some()
            && self.connections.iter().any(|client| client.pending() > LONG_RESPONSE)
    }

    fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let pauses = self.pauses();
        let listens = self.room_at.is_none() && !pauses;
        let listener = listens.then(|| (self.listener.as_fd(), PollFlags::POLLIN));
        let connections = self.connections.iter().filter(move |client| !pauses || client.owes());
        listener
            .into_iter()
            .chain(connections.map(|client| (client.stream.as_fd(), client.interest())))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let pauses = self.pauses();
        let connections = self.connections.iter().filter(|client| !pauses || client.owes());
        let room_at = self.room_at.filter(|_| !pauses);
        let resumes_at = self.debt.and_then(|debt| match debt.resumes_at {
            None if debt.interrupted && !pauses => Some(debt.at),
            resumes_at => resumes_at,
        });
        connections.map(Connection::deadline).chain(room_at).chain(resumes_at).min()
    }

    fn step(&mut self, now: Instant, handle: impl FnMut(&Request) -> Reply) {
        if self.debt.is_none() {
            self.accept(now);
            return self.serve(now, handle);
        }
        let started = Instant::now();
        let is_late = |client: &Connection| client.owes() && now >= client.deadline();
        self.connections.retain_mut(|client| client.write(now) && !is_late(client));
        if let Some(debt) = &mut self.debt {
            debt.resumes_at = debt.resumes_at.filter(|end| now < *end);
        }
        if !self.pauses() {
            // First: a client whose request waited for the end of a pause is not replaced.
            self.serve(now, handle);
            self.accept(now);
        }
        if let Some(debt) = &mut self.debt {
            let used = started.elapsed();
            debt.add(now + used, used);
        }
    }

    fn accept(&mut self, now: Instant) {
        self.room_at = None;
        while self.make_room(now) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.connections.extend(Connection::new(stream, now, self.limits));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No client waits, or the process is out of descriptors: the others are served.
                Err(_) => break,
            }
        }
    }

    /// Serves the connections in turn, readers until their time is used.
    fn serve(&mut self, now: Instant, mut handle: impl FnMut(&Request) -> Reply) {
        let end = self.debt.map(|debt| Instant::now() + BURST.saturating_sub(debt.left(now)));
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        let mut followers = self.connections.iter().filter(|client| client.follows).count();
        self.set_interrupted(false);
        let mut number = 0;
        while let Some(client) = self.connections.get_mut(number) {
            if client.step(now, &mut followers, &mut handle, &is_over) {
                number += 1;
            } else {
                self.connections.remove(number);
            }
            if is_over() || self.has_long_response() {
                // The next ones are first in the next turn.
                self.connections.rotate_left(number);
                return self.set_interrupted(true);
            }
        }
    }

    fn set_interrupted(&mut self, interrupted: bool) {
        if let Some(debt) = &mut self.debt {
            debt.interrupted = interrupted;
        }
    }

    /// Returns whether there is a slot for another client. If not, records when one is free.
    fn make_room(&mut self, now: Instant) -> bool {
        let commands = || self.connections.iter().enumerate().filter(|(_, client)| !client.follows);
        if commands().count() < self.limits.clients {
            return true;
        }
        let Some((oldest, client)) = commands().min_by_key(|(_, client)| client.active) else {
            return true;
        };
        if self.debt.is_some_and(|debt| debt.interrupted) {
            return false;
        }
        let replaceable = client.active + REPLACEABLE;
        if replaceable > now {
            self.room_at = Some(replaceable);
            return false;
        }
        self.connections.remove(oldest);
        true
    }

    fn flush(&mut self, end: Instant) {
        loop {
            self.connections.retain_mut(|client| client.write(Instant::now()) && client.owes());
            let left = end.saturating_duration_since(Instant::now());
            if self.connections.is_empty() || left.is_zero() {
                return;
            }
            let mut fds: Vec<PollFd<'_>> = self
                .connections
                .iter()
                .map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLOUT))
                .collect();
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            if poll(&mut fds, timeout).is_err() {
                return;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // While the lock is held the path is this server's own.
        let _ = self.directory.remove(&self.name);
    }
}

fn own_lock(name: &str) -> String {
    format!("{name}.node-lock")
}

/// The former version locked a file that other users could open, and so hold.
fn former_lock(name: &str) -> String {
    format!("{name}.lock")
}

/// Takes the lock of the node with this control socket. A file of another program is not changed.
fn take_lock(directory: &PrivateDirectory, name: &str) -> Result<Lock, BindError> {
    let own = check_locks(directory, name)?;
    Ok(Lock::take(directory, &own, &command_line())?)
}

/// The name of the lock of the node with this control socket, after a check that an existing file is a lock.
/// Fails while a process holds the lock of the former version.
fn check_locks(directory: &PrivateDirectory, name: &str) -> Result<String, BindError> {
    Lock::refuse_former(directory, Some(&former_lock(name)))?;
    let own = own_lock(name);
    let is_foreign = || is_file_with(directory, &own, |content| !is_record(content));
    // The process that has the lock may be writing into it.
    if is_foreign() && Lock::holder(directory, &own)?.is_none() && is_foreign() {
        return Err(BindError::ForeignLock { path: directory.file(&own) });
    }
    Ok(own)
}

/// Whether a lock has this content.
fn is_record(content: &[u8]) -> bool {
    let record: serde_json::Value = serde_json::from_slice(content).unwrap_or_default();
    ["pid", "boot", "what"].iter().all(|key| record.get(key).is_some())
}

/// Like [`is_record`], for the former version: a PID.
fn is_former_record(content: &[u8]) -> bool {
    !content.is_empty() && content.iter().all(u8::is_ascii_digit)
}

/// Whether there is a regular file of this name with such content.
fn is_file_with(directory: &PrivateDirectory, name: &str, is: impl Fn(&[u8]) -> bool) -> bool {
    /// Maximum length of a lock file in octets.
    const LONGEST: u64 = 1 << 20;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
    let Ok(file) = options.open(directory.through_descriptor(name)) else { return false };
    let mut content = Vec::new();
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && file.take(LONGEST).read_to_end(&mut content).is_ok() && is(&content)
}

/// Whether no program uses the socket with this name, as after `kill -9`. This node's lock is free, so a program
/// that listens there is another one.
pub(super) fn is_abandoned(directory: &PrivateDirectory, name: &str) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let connected = socket(AddressFamily::Unix, SockType::Stream, flags, None).and_then(|fd| {
        let path = directory.through_descriptor(name);
        connect(std::os::fd::AsRawFd::as_raw_fd(&fd), &UnixAddr::new(&path)?)
    });
    connected == Err(Errno::ECONNREFUSED)
}

/// Listens on a new socket. No process can connect before `prepare` has set its owner and mode.
pub(super) fn listen<E: From<BindError>>(
    directory: &PrivateDirectory,
    name: &str,
    prepare: impl FnOnce() -> Result<(), E>,
) -> Result<UnixListener, E> {
    let failed = |source| BindError::Io { path: directory.file(name), source };
    let bound = || -> io::Result<OwnedFd> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        // By its descriptor: the path may lead elsewhere by now.
        let path = directory.through_descriptor(name);
        bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &UnixAddr::new(&path)?)?;
        Ok(fd)
    };
    let fd = bound().map_err(failed)?;
    let listening = || -> Result<(), E> {
        prepare()?;
        let listening = Backlog::new(16).and_then(|backlog| start_listening(&fd, backlog));
        Ok(listening.map_err(|errno| failed(errno.into()))?)
    };
    if let Err(error) = listening() {
        // Without the lock it would be taken for another program's.
        let _ = directory.remove(name);
        return Err(error);
    }
    Ok(UnixListener::from(fd))
}

/// The directory and the name of a control socket.
pub(crate) fn in_directory(path: &Path) -> Result<(&Path, &str), BindError> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(directory), Some(name)) => Ok((directory, name)),
        _ => Err(BindError::Name { path: path.to_owned() }),
    }
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    /// Received octets of requests not yet answered.
    input: Vec<u8>,
    /// Number of its octets without a line end.
    searched: usize,
    /// A waiting request, and its response after the timeout.
    waiting: Option<(Request, Response)>,
    /// Its last request waits for events: it keeps its slot between events.
    follows: bool,
    /// The response, and the number of octets written.
    output: Vec<u8>,
    written: usize,
    /// Time of the connection, of the last complete request, or of the last response octets written.
    active: Instant,
    /// The client closed its side, or a request is too long: close after the response.
    ending: bool,
    /// Time at which the last response was read completely.
    settled: Instant,
    limits: Limits,
}

impl Connection {
    fn new(stream: UnixStream, now: Instant, limits: Limits) -> Option<Connection> {
        stream.set_nonblocking(true).ok()?;
        Some(Connection {
            stream,
            input: Vec::new(),
            searched: 0,
            waiting: None,
            follows: false,
            output: Vec::new(),
            written: 0,
            active: now,
            ending: false,
            settled: now,
            limits,
        })
    }

    fn deadline(&self) -> Instant {
        let idle = self.active + if self.waiting.is_some() { EVENT_WAIT } else { IDLE };
        match self.limits.response_time {
            Some(time) if self.owes() => idle.min(self.settled + time),
            _ => idle,
        }
    }

    fn owes(&self) -> bool {
        self.pending() > 0
    }

    /// Number of octets of the response that are not written.
    fn pending(&self) -> usize {
        self.output.len() - self.written
    }

    /// Requests are read only after the previous response is written.
    fn interest(&self) -> PollFlags {
        if self.owes() { PollFlags::POLLOUT } else { PollFlags::POLLIN }
    }

    /// Returns whether the client stays connected. Updates the number of `followers`.
    fn step(
        &mut self,
        now: Instant,
        followers: &mut usize,
        handle: &mut impl FnMut(&Request) -> Reply,
        is_over: &impl Fn() -> bool,
    ) -> bool {
        let stays = self.serve(now, followers, handle, is_over);
        if !stays && self.follows {
            *followers -= 1;
        }
        stays
    }

    fn serve(
        &mut self,
        now: Instant,
        followers: &mut usize,
        handle: &mut impl FnMut(&Request) -> Reply,
        is_over: &impl Fn() -> bool,
    ) -> bool {
        loop {
            if !self.write(now) {
                return false;
            }
            if self.owes() {
                break;
            }
            self.settled = now;
            if is_over() {
                break;
            }
            if let Some((request, otherwise)) = self.waiting.take() {
                let more = self.ending || self.line_end().is_some();
                match handle(&request) {
                    Reply::Now(response) => self.reply(&response),
                    Reply::Later(_) if more || now >= self.active + EVENT_WAIT => {
                        self.reply(&otherwise)
                    }
                    Reply::Later(otherwise) => {
                        self.waiting = Some((request, otherwise));
                        if !self.read() {
                            return true;
                        }
                    }
                }
            } else if let Some(line) = self.line() {
                self.active = now;
                self.answer(&line, followers, handle);
            } else if self.ending {
                return false;
            } else if !self.read() {
                break;
            }
        }
        now < self.deadline()
    }

    fn line_end(&mut self) -> Option<usize> {
        let end = self.input[self.searched..].iter().position(|&octet| octet == b'\n');
        match end {
            Some(end) => Some(self.searched + end),
            None => {
                self.searched = self.input.len();
                None
            }
        }
    }

    /// Removes a complete line from the input.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.line_end()?;
        self.searched = 0;
        Some(self.input.drain(..=end).collect())
    }

    fn answer(
        &mut self,
        line: &[u8],
        followers: &mut usize,
        handle: &mut impl FnMut(&Request) -> Reply,
    ) {
        let request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                let message =
                    format!("not a request: {error}; send a line such as {{\"request\":\"show\"}}");
                return self.reply(&Response::Error { message });
            }
        };
        let follows = matches!(request, Request::Events { wait: true, .. });
        if follows && !self.follows && *followers >= self.limits.followers {
            let message = format!(
                "{} clients already follow the events of this node; stop one of them, or \
                 read the events without waiting",
                self.limits.followers
            );
            return self.reply(&Response::Error { message });
        }
        if follows != self.follows {
            *followers = if follows { *followers + 1 } else { *followers - 1 };
            self.follows = follows;
        }
        match handle(&request) {
            Reply::Now(response) => self.reply(&response),
            Reply::Later(otherwise) => {
                self.waiting = Some((request, otherwise));
            }
        }
    }

    fn reply(&mut self, response: &Response) {
        // Plain data with text keys always has a JSON form.
        if serde_json::to_writer(&mut self.output, response).is_ok() {
            self.output.push(b'\n');
        }
    }

    /// Returns whether input was received, or the end of it.
    fn read(&mut self) -> bool {
        let mut chunk = [0; 16384];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.ending = true,
            Ok(length) => {
                self.input.extend_from_slice(&chunk[..length]);
                if self.input.len() >= self.limits.request_length && self.line_end().is_none() {
                    let message =
                        format!("request longer than {} octets", self.limits.request_length);
                    self.reply(&Response::Error { message });
                    self.input.clear();
                    self.searched = 0;
                    self.ending = true;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.ending = true,
        }
        true
    }

    /// Writes the response; returns whether the client can still be written to.
    fn write(&mut self, now: Instant) -> bool {
        while self.owes() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return false,
                Ok(length) => {
                    self.active = now;
                    self.written += length;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        if !self.owes() {
            // A long response keeps no memory.
            (self.output, self.written) = (Vec::new(), 0);
        }
        true
    }
}

//! Removal of a node by another process than its daemon.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onbeat_frer_xdp::PinDirectory;
use onbeat_host::{Holder, PrivateDirectory, trust};
use onbeat_netdev::Handle;

use super::assembly::{NodeRemoval, Removal, is_pinned, pin_owner};
use super::error::{Error, Result};
use super::journal::Journal;
use crate::config::{Config, NodeConfig, PortConfig, default_pin, is_name};
use crate::control::{
    Audience, BindError, Client, ClientError, DIRECTORY, MANAGERS, READERS, Request, Response,
    Server, in_directory,
};

/// Longest time for a daemon to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Removes a node, whether its daemon runs or not: programs, tables, and changes of interfaces.
/// `node` is the path of a configuration file if it has a `/` or the extension `.toml`, otherwise a
/// name, independent of the current directory. With `forget`, a damaged journal and the settings that
/// cannot be restored are discarded.
///
/// # Errors
/// `node` is neither a file nor a valid name; another user could have written the file; there is no
/// such node; another process listens on its control socket, or another node has its pin directory;
/// something cannot be removed.
pub fn down(node: &str, forget: bool) -> Result<Removal> {
    down_within(node, forget, EXIT_TIMEOUT)
}

/// The control socket of a node whose file names none.
fn default_control(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.sock"))
}

/// Whether a node without a daemon changed interfaces of this network namespace; `None`: it changed none, or its journal
/// is unusable.
pub(crate) fn changed_interfaces_of(handle: &Handle, name: &str) -> Option<bool> {
    let control = default_control(name);
    Journal::open(&control, name).ok()?.is_of(handle)
}

/// Returns the nodes without a daemon that changed an interface of this network namespace. Unusable journals are left out.
pub(crate) fn stopped_nodes_of(handle: &Handle, interface: &str) -> Vec<String> {
    let is_stopped = |name: &&str| {
        let control = default_control(name);
        let Ok(journal) = Journal::open(&control, name) else { return false };
        journal.is_of(handle) == Some(true)
            && journal.interfaces().contains(interface)
            && matches!(Server::holder(&control), Ok(None))
    };
    let Ok(Some(directory)) = PrivateDirectory::open(Path::new(DIRECTORY)) else {
        return Vec::new();
    };
    let names = directory.names().unwrap_or_default();
    let nodes = names.iter().filter_map(|name| name.strip_suffix(".sock.node-journal"));
    nodes.filter(is_stopped).map(str::to_owned).collect()
}

/// Returns the interfaces that a node created, and those whose MTU it changed.
pub(crate) fn interfaces_to_restore(name: &str) -> (Vec<String>, Vec<String>) {
    let control = default_control(name);
    Journal::open(&control, name).map(|journal| journal.created_and_resized()).unwrap_or_default()
}

/// A node to remove.
struct Target {
    name: String,
    control: PathBuf,
    pin: PathBuf,
    /// Those of its file.
    ports: Option<Vec<PortConfig>>,
}

impl Target {
    /// `node`: as for [`down`].
    fn of(node: &str) -> Result<Self> {
        let is_file = node.contains('/') || node.ends_with(".toml");
        if is_file && Path::new(node).is_file() {
            let Config { node, ports, .. } = trust::load(Path::new(node), Config::load)?;
            let NodeConfig { name, control, pin, .. } = node;
            return Ok(Self { name, control, pin, ports: Some(ports) });
        }
        // The name is part of removed paths: it must not refer to other directories.
        if is_file || !is_name(node) {
            return Err(Error::NoNode { node: node.to_string() });
        }
        let control = default_control(node);
        Ok(Self { name: node.to_string(), control, pin: default_pin(node), ports: None })
    }
}

/// Returns the name of the node that [`down`] would remove.
///
/// # Errors
/// `node` is neither a file nor a valid name; another user could have written the file.
pub fn name_of(node: &str) -> Result<String> {
    Ok(Target::of(node)?.name)
}

fn down_within(node: &str, forget: bool, patience: Duration) -> Result<Removal> {
    let Target { name, control, pin, ports } = Target::of(node)?;
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::Permission);
    }
    // Both are checked before anything is removed, and before the control socket is used.
    let pins = PinDirectory::open(&pin)?;
    let directory = PrivateDirectory::open(in_directory(&control)?.0)?;
    let pinned = is_pinned(pins.as_ref())?;
    if let (Some(pins), true) = (&pins, pinned) {
        let journal = directory.is_some() && Journal::exists(&control)?;
        pins.check_owner(&pin_owner(&name, &pin, &control, journal))?;
    }
    let end = Instant::now() + patience;
    let stopped = directory.is_some() && stop(&name, &control, end)?;
    // A damaged journal, too, shows that there was such a node. A process that was killed at the end of
    // a removal leaves no more than the lock and the socket.
    let is_left = || Ok::<_, Error>(Journal::exists(&control)? || Server::is_left(&control)?);
    let known = stopped || pinned || directory.is_some() && is_left()?;
    if !known {
        return Err(Error::UnknownNode { name, pin, control });
    }
    // With the lock no process starts the node or changes the journal meanwhile. The socket that a
    // killed process left is removed as well.
    let server = bind(&control, end)?;
    for (audience, directory) in [(Audience::Readers, READERS), (Audience::Managers, MANAGERS)] {
        if let Err(error) = server.forget(audience, Path::new(directory)) {
            tracing::warn!("{error}");
        }
    }
    // Left if a process was killed while ptp4l ran.
    let _ = std::fs::remove_file(super::ptp::own_socket(&control));
    if forget {
        Journal::discard_damaged(&control, node)?;
    }
    Journal::adopt_former(&control, node, ports.as_deref())?;
    let argument = node.to_owned();
    let removal = NodeRemoval { name, pin, control, argument, forget };
    let pins = removal.claim_pins()?;
    if pins.is_none() && removal.forwards()? {
        return Ok(Removal::DataPlaneLeft);
    }
    removal.remove(pins)
}

/// Makes the daemon of a node remove it and exit. Returns whether one ran. Nothing is sent to a
/// process that does not hold the lock of the control socket, and only a ping to the daemon of
/// another node.
fn stop(name: &str, control: &Path, end: Instant) -> Result<bool> {
    let mut ran = false;
    while let Some(holder) = Server::holder(control)? {
        match request_stop(name, control, &holder) {
            // The daemon is starting, or exits: it closes the socket before it releases the lock.
            Err(Error::Client(
                ClientError::Dead { .. } | ClientError::NoNode { .. } | ClientError::Closed { .. },
            )) => ran = true,
            requested => return requested.map(|()| true),
        }
        if Instant::now() >= end {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(ran)
}

fn request_stop(name: &str, control: &Path, holder: &Holder) -> Result<()> {
    let mut client = Client::connect(control)?;
    let refused = |cause: String| Err(Error::OtherDaemon { control: control.to_owned(), cause });
    let listener = client.listener();
    if listener != holder.pid {
        let listener = listener.map_or("another process".into(), |pid| format!("process {pid}"));
        return refused(format!(
            "{listener} listens there, but {holder} holds the lock of the node"
        ));
    }
    match client.request(&Request::Ping)? {
        Response::Pong { node, .. } if node == name => {}
        Response::Pong { node, .. } => return refused(format!("it belongs to node {node:?}")),
        _ => return refused(format!("{holder} is not a node")),
    }
    if let Response::Done { message } = client.request(&Request::Stop)? {
        tracing::info!("{message}");
    }
    Ok(())
}

/// Binds the control socket. A daemon that exits releases it last.
fn bind(control: &Path, end: Instant) -> Result<Server> {
    loop {
        match Server::bind(control) {
            Err(BindError::Running { .. }) if Instant::now() < end => std::thread::sleep(PAUSE),
            bound => return Ok(bound?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};

    use nix::poll::{PollFd, PollTimeout, poll};
    use onbeat_host::Lock;
    use onbeat_testing::{Feature, TemporaryDirectory, require_all};

    use super::*;
    use crate::control::Reply;

    /// A daemon holds the lock and does not answer: its journal is not discarded.
    #[test]
    fn a_journal_is_discarded_only_with_the_lock_of_its_node() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-down");
        let (control, file) = (directory.file("a.sock"), directory.file("a.toml"));
        let text = format!(
            "[node]\nname = \"nh-down\"\ncontrol = {control:?}\n[[port]]\nname = \"p\"\n\
             interface = \"nh0\"\n"
        );
        fs::write(&file, text).unwrap();
        let journal = directory.file("a.sock.node-journal");
        let former = directory.file("a.journal.json");
        for damaged in [&journal, &former] {
            fs::write(damaged, "damaged").unwrap();
        }
        let private = PrivateDirectory::create(in_directory(&control).unwrap().0).unwrap();
        let lock = Lock::take(&private, "a.sock.node-lock", "node \"nh-down\"").unwrap();
        let file = file.to_str().unwrap();
        let error = down_within(file, true, Duration::ZERO).unwrap_err();
        assert!(matches!(error, Error::Control(BindError::Running { .. })), "{error}");
        for damaged in [&journal, &former] {
            assert_eq!(fs::read_to_string(damaged).unwrap(), "damaged");
        }

        drop(lock);
        let error = down(file, false).unwrap_err().to_string();
        assert!(error.contains("--forget"), "{error}");
        assert_eq!(down(file, true).unwrap(), Removal::Complete);
        assert!(!journal.exists() && !former.exists());
        let error = down(file, true).unwrap_err().to_string();
        assert!(error.contains("no node "), "{error}");
    }

    /// A node with this control socket, of which a journal is left; the argument of `down`.
    fn left_behind(directory: &TemporaryDirectory, control: &Path) -> String {
        let file = directory.file("a.toml");
        let text = format!(
            "[node]\nname = \"nx-down\"\ncontrol = {control:?}\n[[port]]\nname = \"p\"\n\
             interface = \"nx0\"\n"
        );
        fs::write(&file, text).unwrap();
        fs::write(directory.file("a.sock.node-journal"), "damaged").unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The process that listens has not the lock of the node: nothing is sent to it, and its socket
    /// stays.
    #[test]
    fn a_program_that_is_not_the_daemon_is_not_stopped() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-foreign");
        let control = directory.file("a.sock");
        let file = left_behind(&directory, &control);
        let listener = UnixListener::bind(&control).unwrap();
        listener.set_nonblocking(true).unwrap();
        let nothing_sent = || {
            while let Ok((mut client, _)) = listener.accept() {
                let mut sent = Vec::new();
                client.read_to_end(&mut sent).unwrap();
                assert!(sent.is_empty(), "{sent:?}");
            }
            assert!(control.exists());
        };
        let error = down(&file, false).unwrap_err();
        assert!(matches!(error, Error::Control(BindError::Occupied { .. })), "{error}");
        nothing_sent();

        // Another process has the lock.
        let lock = directory.file("a.sock.node-lock");
        let mut holder = Command::new("flock");
        holder.arg("--no-fork").arg(&lock).args(["sh", "-c", "echo; exec sleep 60"]);
        holder.stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        holder.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let error = down(&file, false).unwrap_err();
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(matches!(error, Error::OtherDaemon { .. }), "{error}");
        nothing_sent();
        assert!(directory.file("a.sock.node-journal").exists());
    }

    /// A `down` before this one was killed after its request: the daemon exits and answers no request.
    #[test]
    fn a_daemon_that_exits_without_a_response_is_waited_for() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-exits");
        let control = directory.file("a.sock");
        let file = left_behind(&directory, &control);
        for closes_first in [false, true] {
            let mut server = Server::bind(&control).unwrap();
            let removal = std::thread::scope(|scope| {
                let down = scope.spawn(|| down(&file, true));
                let fds = server.fds().map(|(fd, flags)| PollFd::new(fd, flags));
                let bound = PollTimeout::try_from(EXIT_TIMEOUT).unwrap();
                assert_ne!(poll(&mut fds.collect::<Vec<_>>(), bound).unwrap(), 0, "no request");
                if closes_first {
                    // It accepts the connection, and removes the node before it answers.
                    server.step(Instant::now(), |_| {
                        Reply::Later(Response::Done { message: "".into() })
                    });
                }
                drop(server);
                down.join().unwrap()
            });
            assert_eq!(removal.unwrap(), Removal::Complete);
            assert!(!control.exists());
        }
    }

    /// A `down` was killed when nothing but its socket and lock was left.
    #[test]
    fn a_socket_whose_lock_a_killed_process_left_is_removed() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-left");
        let control = directory.file("a.sock");
        let file = left_behind(&directory, &control);
        let (journal, lock) =
            (directory.file("a.sock.node-journal"), directory.file("a.sock.node-lock"));
        fs::remove_file(journal).unwrap();
        // Of a boot before.
        let dead = r#"{"pid":1,"start":1,"boot":"","what":"onbeat down a.toml"}"#;
        for has_socket in [true, false] {
            drop(has_socket.then(|| UnixListener::bind(&control).unwrap()));
            fs::write(&lock, dead).unwrap();
            assert_eq!(down(&file, false).unwrap(), Removal::Complete);
            assert!(!control.exists() && !lock.exists());
        }
        // Files of other programs stay.
        let listener = UnixListener::bind(&control).unwrap();
        fs::write(&lock, dead).unwrap();
        let error = down(&file, false).unwrap_err();
        assert!(matches!(error, Error::Control(BindError::Occupied { .. })), "{error}");
        drop(listener);
        fs::remove_file(&control).unwrap();
        let target = directory.file("target");
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &control).unwrap();
        fs::write(&lock, dead).unwrap();
        let error = down(&file, false).unwrap_err();
        assert!(matches!(error, Error::Control(BindError::Occupied { .. })), "{error}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        assert!(control.is_symlink());
        fs::remove_file(&control).unwrap();
        drop(UnixListener::bind(&control).unwrap());
        let error = down(&file, false).unwrap_err().to_string();
        assert!(error.contains("no node "), "no lock was left: {error}");
        assert!(control.exists());
    }

    #[test]
    fn the_daemon_of_another_node_is_not_stopped() {
        if !require_all(&[Feature::Root, Feature::BpfFilesystem]) {
            return;
        }
        let directory = TemporaryDirectory::new("run-other");
        let control = directory.file("a.sock");
        let file = left_behind(&directory, &control);
        let mut server = Server::bind(&control).unwrap();
        let error = std::thread::scope(|scope| {
            let down = scope.spawn(|| down(&file, false).unwrap_err());
            let mut answered = false;
            while !answered {
                let fds = server.fds().map(|(fd, flags)| PollFd::new(fd, flags));
                let bound = PollTimeout::try_from(EXIT_TIMEOUT).unwrap();
                assert_ne!(poll(&mut fds.collect::<Vec<_>>(), bound).unwrap(), 0, "no request");
                server.step(Instant::now(), |request| {
                    assert_eq!(*request, Request::Ping);
                    answered = true;
                    let (node, pid) = ("other".into(), std::process::id());
                    Reply::Now(Response::Pong { node, pid, configuration: None })
                });
            }
            server.flush(EXIT_TIMEOUT);
            down.join().unwrap()
        });
        assert!(error.to_string().contains("it belongs to node \"other\""), "{error}");
    }

    #[test]
    fn an_invalid_node_name_is_refused() {
        for node in ["", ".", "..", "/", "/sys", "../a", "a/b", "missing/a.toml", "-a", "a\0"] {
            let error = down(node, false).unwrap_err();
            assert!(matches!(&error, Error::NoNode { node: named } if named == node), "{error}");
        }
    }

    #[test]
    fn the_error_of_an_unknown_node_names_its_paths() {
        let error = down("no-node-has-this-name", false).unwrap_err().to_string();
        assert!(error.contains("/sys/fs/bpf/onbeat/no-node-has-this-name"), "{error}");
    }
}

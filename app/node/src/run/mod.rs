//! The daemon of a node: one thread with one poll loop, which forwards no frames.
//!
//! The data plane is in the kernel and does not require this process: when the daemon is killed, stopped or
//! upgraded, programs and tables stay, and the next start takes them over. Only SIGINT (Ctrl-C) and [`down`] remove
//! them.

mod adapt;
mod assembly;
mod attach;
mod bpffs;
mod change;
mod clock;
mod devices;
mod down;
mod error;
mod events;
mod guard;
mod interfaces;
mod journal;
mod journald;
mod latent;
mod losses;
mod master;
mod mode;
mod mtu;
mod output;
mod paths;
mod peers;
mod port;
mod port_counters;
mod prove;
mod prp;
mod ptp;
mod restart;
mod setup;
mod status;
mod summary;
mod udev;
mod upkeep;
mod watch;
mod wildcards;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use onbeat_irq_guard::Background;
use onbeat_netdev::{Handle, Monitor};
use onbeat_report::format::count;

use crate::config::{
    Backend, Config, InterfaceKind, NodeConfig, StreamOperation, Warnings, configuration_text,
};
use crate::control::{
    Audience, DIRECTORY, LinkState, MANAGER_GROUP, MANAGERS, READER_GROUP, READERS, Reply, Request,
    Response, Server, WildcardTables,
};
use crate::notify::Notifier;
use crate::service::MissingDropIns;
use assembly::Node;
pub use assembly::Removal;
pub(crate) use down::{changed_interfaces_of, interfaces_to_restore, stopped_nodes_of};
pub use down::{down, name_of};
pub use error::{Error, Result};
pub use interfaces::absent_interfaces;
pub(crate) use prp::{MAX_MTU as MAX_PRP_MTU, backend as redundancy_backend};
pub use restart::{Restart, restart};

/// MTU that the kernel gives to a new veth pair, in octets.
const NEW_VETH_MTU: u32 = 1500;

/// Options of running a node.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Replace XDP programs of other processes on the node's interfaces.
    pub replace: bool,
    /// Data plane that overrides the file.
    pub backend: Option<Backend>,
}

/// Checks a configuration against the host: its ports have different interfaces, the MTUs of those that exist are
/// sufficient, and its pin directory can be used. As root, also that a start can take over the data plane there.
/// Returns the warnings of the configuration.
///
/// # Errors
/// Two ports have one interface; the MTU of a path is too small; the pin directory cannot be used, or has tables of
/// another version or size.
pub fn check(config: &Config) -> Result<Warnings> {
    let handle = Handle::open()?;
    let mut config = config.clone();
    interfaces::resolve(&handle, &mut config.ports)?;
    prp::fit_hosts(&handle, &mut config)?;
    let warnings = config.check(|port| match handle.link(&port.attached_interface()) {
        Ok(link) => Some(link.mtu),
        // The MTU of a new pair; an interface may be of another machine.
        Err(_) => port.create.map(|InterfaceKind::Veth| NEW_VETH_MTU),
    })?;
    restart::check_pinned(&config)?;
    Ok(warnings)
}

/// Action on exit of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExitAction {
    /// The daemon exits and keeps the data plane.
    KeepDataPlane,
    /// The daemon removes the node and exits.
    Remove,
}

/// Runs the node that `file` describes until a signal or a request stops it: SIGTERM stops the
/// daemon and leaves the data plane, SIGINT and a stop request remove everything, SIGHUP reloads.
///
/// Returns whether all changes of the host that were to be undone are undone; the log names the others.
///
/// # Errors
/// The node cannot start, or the daemon cannot wait for events.
pub fn run(file: &Path, options: Options) -> Result<bool> {
    let mut config = Config::load_with_stored(file)?;
    if let Some(backend) = options.backend {
        config.set_backend(backend)?;
    }
    let missing = MissingDropIns::of_service(&config, file);
    let started = Daemon::start(file, config, options).map_err(|error| match missing {
        Some(missing) => Error::DropIns { source: Box::new(error), missing },
        None => error,
    });
    started?.run()
}

/// A running node, and the event sources of its loop.
struct Daemon {
    node: Node,
    server: Server,
    signals: SignalFd,
    monitor: Monitor,
    notifier: Notifier,
    guard: Option<Background>,
}

impl Daemon {
    fn start(file: &Path, config: Config, options: Options) -> Result<Self> {
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::Permission);
        }
        let mut server = Server::bind(&config.node.control)?;
        admit_groups(&mut server, &config.node);
        let signals = signals()?;
        if !config.node.backend.is_user_space() {
            bpffs::require(&config.node.pin)?;
        }
        // Before interfaces are read, so that no change in between is missed.
        let monitor = Monitor::open()?;
        // First, so that a node whose guard cannot start changes nothing.
        let guard = config.node.guard.clone().map(guard::start).transpose()?;
        let (guard, guard_state) = guard.unzip();
        let notifier = Notifier::from_env().map_err(system("reach the service manager"))?;
        let mut node = Node::start(file, config, options)?;
        node.guard = guard_state;
        Ok(Self { node, server, signals, monitor, notifier, guard })
    }

    fn run(mut self) -> Result<bool> {
        // Changes of a stream before its first reading cause no event: the first streams are read before
        // readiness is notified.
        poll_streams(&mut self.node);
        let ready = running(&self.node);
        tracing::info!("node {:?} is running: {ready}", self.node.setup.node.name);
        log_failure(self.notifier.ready(&ready));
        let lasts = self.node.plane.pins_last() != Some(false);
        if !lasts {
            tracing::warn!(
                "{} is in a BPF file system of this mount namespace only: the data plane stops with the \
                 last process in it; to keep it, run the node in the host's mount namespace (nsenter \
                 --net=/run/netns/NAME instead of ip netns exec)",
                self.node.setup.node.pin.display()
            );
        }

        let Self { node, server, signals, monitor, notifier, .. } = &mut self;
        let end = serve(node, server, signals, monitor, notifier)?;
        log_failure(notifier.stopping());
        if end == ExitAction::Remove || !self.node.plane.is_in_kernel() {
            self.node.plane.leave().unwrap_or_else(|error| tracing::error!("{error}"));
        }
        let restored = self.guard.is_none_or(guard::stop);
        self.server.flush(Duration::from_secs(1));
        match end {
            ExitAction::KeepDataPlane => {
                log_leave(&self.node, lasts);
                Ok(restored)
            }
            ExitAction::Remove => Ok(self.node.remove()? == Removal::Complete && restored),
        }
    }
}

/// Listens for readers, and for managers of a managed node, where it has the control socket of its name or names a group.
fn admit_groups(server: &mut Server, node: &NodeConfig) {
    let is_usual = node.control.parent() == Some(Path::new(DIRECTORY));
    let managers = node.managed_by.as_ref().map(|_| &node.managers);
    let groups = [
        (Audience::Readers, Some(&node.readers), READER_GROUP, READERS),
        (Audience::Managers, managers, MANAGER_GROUP, MANAGERS),
    ];
    for (audience, named, usual, directory) in groups {
        let group = match named {
            Some(Some(group)) => group,
            Some(None) if is_usual => usual,
            _ => continue,
        };
        let is_named = named.is_some_and(Option::is_some);
        match server.admit(audience, Path::new(directory), group) {
            Ok(()) => {}
            Err(error) if error.is_without_group() && !is_named => {}
            Err(error) => tracing::warn!("{error}"),
        }
    }
}

/// Logs whether the data plane continues without the daemon.
fn log_leave(node: &Node, lasts: bool) {
    match (node.plane.is_in_kernel(), lasts) {
        (false, _) => {}
        (true, true) => {
            let name = &node.setup.node.name;
            tracing::info!("the data plane keeps running; onbeat down {name} removes it");
        }
        (true, false) => {
            tracing::warn!(
                "the data plane stops now, unless another process is in this mount namespace"
            );
        }
    }
}

/// Summary of the running node, in one line.
fn running(node: &Node) -> String {
    let missing = node.ports_with(LinkState::Missing);
    let ports: Vec<_> = node
        .plane
        .ports()
        .iter()
        .filter(|port| !missing.contains(&port.name.as_str()))
        .map(|port| format!("{} ({})", port.name, port.attachment.name()))
        .collect();
    let mut line =
        format!("{} on {}", count(node.setup.streams.len() as u64, "stream"), ports.join(", "));
    for (state, what) in [(LinkState::Down, "carrier"), (LinkState::Missing, "interface")] {
        let waiting = node.ports_with(state);
        if !waiting.is_empty() {
            line += &format!("; waiting for {what}: {}", waiting.join(", "));
        }
    }
    line
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { what, source }
}

/// Logs a failed notification; the node runs without a service manager as well.
fn log_failure(sent: std::io::Result<()>) {
    if let Err(error) = sent {
        tracing::debug!("service manager: {error}");
    }
}

fn signals() -> Result<SignalFd> {
    let set: SigSet = [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGINT].into_iter().collect();
    let open = || {
        set.thread_block()?;
        SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
    };
    open().map_err(|errno: Errno| Error::System { what: "receive signals", source: errno.into() })
}

/// Deadlines of periodic tasks.
struct Timers {
    sweep: Option<Instant>,
    watchdog: Option<Instant>,
}

fn serve(
    node: &mut Node,
    server: &mut Server,
    signals: &SignalFd,
    monitor: &mut Monitor,
    notifier: &Notifier,
) -> Result<ExitAction> {
    let now = Instant::now();
    let mut timers = Timers {
        sweep: node.sweep.map(|interval| now + interval),
        watchdog: notifier.watchdog().map(|interval| now + interval),
    };
    let mut shown = running(node);
    loop {
        wait(node, server, signals, monitor, &timers)?;
        let mut reload = false;
        while let Ok(Some(signal)) = signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGHUP) => reload = true,
                Ok(Signal::SIGINT) => return Ok(ExitAction::Remove),
                _ => return Ok(ExitAction::KeepDataPlane),
            }
        }
        if reload {
            log_failure(notifier.reloading());
            let unlocked = || node.refuse_if_locked(&Request::Reload { force: false });
            let outcome = match node.refuse_if_managed().and_then(|()| unlocked()) {
                Ok(()) => do_reload(node),
                Err(error) => {
                    tracing::error!("SIGHUP is refused: {error}");
                    Err(error.to_string())
                }
            };
            log_failure(notifier.ready(&outcome.unwrap_or_else(|error| error)));
        }
        while let Some(event) = monitor.next_event()? {
            node.device_event(&event);
        }
        let now_running = running(node);
        if now_running != shown {
            log_failure(notifier.status(&now_running));
            shown = now_running;
        }
        housekeeping(node, &mut timers, notifier);
        if let Some(end) = serve_clients(node, server) {
            return Ok(end);
        }
    }
}

fn poll_streams(node: &mut Node) {
    node.poll_streams().unwrap_or_else(|error| tracing::error!("streams cannot be read: {error}"));
}

/// Serves clients; repeats it while requests cause events that other clients wait for.
fn serve_clients(node: &mut Node, server: &mut Server) -> Option<ExitAction> {
    let mut end = None;
    let mut served = None;
    while end.is_none() && served != Some(node.events.last()) {
        served = Some(node.events.last());
        server.step(Instant::now(), |request| answer(node, request, &mut end));
    }
    end
}

/// Waits until an event or deadline.
fn wait(
    node: &Node,
    server: &Server,
    signals: &SignalFd,
    monitor: &Monitor,
    timers: &Timers,
) -> Result<()> {
    let mut fds = vec![
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        PollFd::new(monitor.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(server.fds().map(|(fd, flags)| PollFd::new(fd, flags)));
    let now = Instant::now();
    let clock_ns = clock::monotonic_ns();
    let look = node.watcher.next_deadline_ns();
    let look = look.map(|due| now + Duration::from_nanos(due.saturating_sub(clock_ns)));
    let due = look
        .into_iter()
        .chain(timers.sweep)
        .chain(timers.watchdog)
        .chain(node.next_upkeep())
        .chain(server.next_deadline())
        .min();
    let timeout = due.map_or(PollTimeout::NONE, |due| {
        // Rounded up: an early wake-up would cause a second one.
        let ms = due.saturating_duration_since(now).as_micros().div_ceil(1000);
        PollTimeout::try_from(i32::try_from(ms).unwrap_or(i32::MAX)).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(Error::System { what: "wait for events", source: errno.into() }),
    }
}

fn housekeeping(node: &mut Node, timers: &mut Timers, notifier: &Notifier) {
    let now = Instant::now();
    if timers.sweep.is_none_or(|due| due <= now) {
        // A reload may have added the first timeout or removed the last.
        timers.sweep = node.sweep.map(|interval| now + interval);
        if timers.sweep.is_some() {
            node.plane.expire().unwrap_or_else(|error| tracing::error!("timeouts: {error}"));
        }
    }
    if timers.watchdog.is_some_and(|due| due <= now) {
        log_failure(notifier.alive());
        timers.watchdog = notifier.watchdog().map(|interval| now + interval);
    }
    node.upkeep(now);
    poll_streams(node);
}

fn do_reload(node: &mut Node) -> std::result::Result<String, String> {
    match node.reload() {
        Ok(()) => Ok(running(node)),
        Err(error) => {
            tracing::error!("reload failed, the node keeps its configuration: {error}");
            Err(error.to_string())
        }
    }
}

fn answer(node: &mut Node, request: &Request, end: &mut Option<ExitAction>) -> Reply {
    let done = |message| Response::Done { message };
    let failed = |error: Error| match &error {
        Error::Changed { .. } | Error::Locked { .. } => {
            Response::Conflict { message: error.to_string() }
        }
        _ => Response::Error { message: error.to_string() },
    };
    if let Err(error) = node.refuse_if_locked(request) {
        return Reply::Now(failed(error));
    }
    if let (true, Err(error)) = (request.is_unforced_change(), node.refuse_if_managed()) {
        return Reply::Now(failed(error));
    }
    Reply::Now(match request {
        Request::Ping => Response::Pong {
            node: node.setup.node.name.clone(),
            pid: std::process::id(),
            configuration: Some(node.setup.version(&node.file)),
        },
        Request::Streams { streams } => match status::read_streams(node, streams) {
            Ok(streams) => Response::Streams { streams },
            Err(error) => failed(error),
        },
        Request::Show => {
            node.refresh_peers();
            node.read_output();
            match status::read(node) {
                Ok(status) => Response::Status { status: Box::new(status) },
                Err(error) => failed(error),
            }
        }
        Request::Configuration => Response::Configuration { text: node.configuration_text() },
        Request::StoredConfiguration => match node.stored() {
            Ok(config) => {
                let of_file = config.streams_of_file();
                let keys = |name: &str| config.keys(name);
                let text = configuration_text(&config.node, &config.ports, &config.streams, keys);
                Response::StoredConfiguration { text, of_file }
            }
            Err(error) => failed(error),
        },
        Request::Summary { streams, limit } => match summary::read(node, streams, *limit) {
            Ok(summary) => Response::Summary { summary: Box::new(summary) },
            Err(error) => failed(error),
        },
        Request::Paths { stream } => match paths::read(node, stream.as_deref()) {
            Ok(streams) => Response::Paths { streams },
            Err(error) => failed(error),
        },
        Request::Nodes => match node.nodes() {
            Ok(Some(nodes)) => Response::Nodes { nodes: Box::new(nodes) },
            Ok(None) if !node.setup.wildcards.is_empty() => match node.wildcard_status() {
                Ok(wildcards) => {
                    let tables = WildcardTables { node: node.setup.node.name.clone(), wildcards };
                    Response::Wildcards { tables: Box::new(tables) }
                }
                Err(error) => failed(error),
            },
            Ok(None) => failed(Error::NotPrp { node: node.setup.node.name.clone() }),
            Err(error) => failed(error),
        },
        Request::Events { since, wait } => {
            let (events, missed) = node.events.since(since.as_ref());
            let nothing = events.is_empty() && missed == 0;
            let response = Response::Events { events, missed, last: node.events.last() };
            if *wait && nothing {
                return Reply::Later(response);
            }
            response
        }
        Request::Reset { stream, .. } => match node.reset(stream) {
            Ok(true) => done(format!("stream {stream:?} is reset")),
            Ok(false) => {
                let names: Vec<_> =
                    node.setup.streams.iter().take(8).map(|s| s.name.as_str()).collect();
                let message = format!("no stream {stream:?}; streams: {}", names.join(", "));
                Response::Error { message }
            }
            Err(error) => failed(error),
        },
        Request::SetNumber { stream, number, .. } => match node.set_number(stream, *number) {
            Ok(()) => done(format!("stream {stream:?}: the next packet has number {number}")),
            Err(error) => failed(error),
        },
        Request::Prove { streams, text, file } => {
            let text = text.as_deref().map(|text| (text, file.as_str()));
            prove::prove(node, streams, text).map_or_else(failed, done)
        }
        Request::AddStreams { text, file, .. } => node
            .put_streams(StreamOperation::Add, text, file)
            .map_or_else(failed, |made| done(made.to_string())),
        Request::ChangeStreams { text, file, .. } => node
            .put_streams(StreamOperation::Change, text, file)
            .map_or_else(failed, |made| done(made.to_string())),
        Request::RemoveStreams { streams, .. } => {
            node.remove_streams(streams).map_or_else(failed, |made| done(made.to_string()))
        }
        Request::SetStreams { remove, text, file, store, base, .. } => node
            .refuse_if_changed(base.as_deref())
            .and_then(|()| node.set_streams(remove, (text, file), *store))
            .map_or_else(failed, |made| done(made.to_string())),
        Request::StoreStreams { remove: false, .. } => match node.store_streams() {
            Ok(_) => done("streams are stored".to_owned()),
            Err(error) => failed(error),
        },
        Request::StoreStreams { remove: true, .. } => match node.setup.node.store_text(None) {
            Ok(()) => done("stored streams are removed".to_owned()),
            Err(error) => failed(error.into()),
        },
        Request::ReplaceFile { text } => match node.replace_file(text) {
            Ok(()) => done(running(node)),
            Err(error) => failed(error),
        },
        Request::Reload { .. } => match do_reload(node) {
            Ok(message) => done(message),
            Err(message) => Response::Error { message },
        },
        Request::Stop => {
            *end = Some(ExitAction::Remove);
            done(format!("node {:?} is being removed", node.setup.node.name))
        }
    })
}

//! A running node: interfaces, programs, streams.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use onbeat_frer::dataplane::{AttachedPort, DataPlane};
use onbeat_frer::prp::Parameters;
use onbeat_frer::spec::Stream;
use onbeat_frer::wildcard::Wildcard;
use onbeat_frer_user::{Options as UserOptions, PollMode, UserPlane};
use onbeat_frer_xdp::{
    Error as PlaneError, Options as PlaneOptions, PinDirectory, PinOwner, Plane,
};
use onbeat_netdev::udev::has_yet_to_name;
use onbeat_netdev::{Link, LinkEvent, Namespace};
use onbeat_realtime::Profile;

use super::Options;
use super::attach::EgressPorts;
use super::clock::monotonic_ns;
use super::devices::Devices;
use super::error::{Error, Result};
use super::events::{EventSubject, Events};
use super::guard::GuardState;
use super::interfaces;
use super::journal::Journal;
use super::master::Masters;
use super::mtu::Mtus;
use super::port_counters::FormerCounters;
use super::setup::{Layout, Setup, names};
use super::udev;
use super::upkeep::Upkeep;
use super::watch::{StreamReporter, Watcher};
use crate::config::{
    Backend, Config, LinkConfig, NodeConfig, PortConfig, StreamSet, Warnings, default_pin,
};
use crate::control::{EventDetail, LinkState};

/// Longest interval of polling reset timers of recovery functions.
const SLOWEST_SWEEP: Duration = Duration::from_millis(250);

/// Shortest interval: a tenth of the shortest timeout.
const FASTEST_SWEEP: Duration = Duration::from_millis(10);

/// A running node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) file: PathBuf,
    pub(super) setup: Setup,
    /// Whether the data plane has the streams of `setup`: not after a reload that failed half-way.
    pub(super) is_applied: bool,
    pub(super) plane: Box<dyn DataPlane<Error>>,
    pub(super) devices: Devices,
    pub(super) events: Events,
    pub(super) watcher: Watcher,
    pub(super) started: Instant,
    /// Start of its counters: of this daemon, or of an earlier one whose tables it has.
    pub(super) counted_since: SystemTime,
    /// Interval of polling reset timers of recovery functions.
    pub(super) sweep: Option<Duration>,
    /// By port: last known state of its link.
    presence: BTreeMap<String, LinkState>,
    pub(super) mtus: Mtus,
    pub(super) masters: Masters,
    /// By port with mode "auto" that is not in native mode: cause and remedy.
    pub(super) not_native: BTreeMap<String, String>,
    /// By port whose driver refused native mode: index and MTU of the interface.
    pub(super) refused: BTreeMap<String, (u32, u32)>,
    /// By port whose frames are lost: cause and remedy.
    pub(super) frames_lost: BTreeMap<String, String>,
    pub(super) upkeep: Upkeep,
    pub(super) former_counters: FormerCounters,
    pub(super) guard: Option<GuardState>,
    /// The data plane requested at the start, which overrides the file.
    backend_override: Option<Backend>,
    pub(super) journal: Journal,
    /// The entity of a PRP node, as set last.
    pub(super) lre: Option<Parameters>,
    /// The wildcards, as set last.
    pub(super) wildcards: Vec<Wildcard>,
}

impl Node {
    /// Starts the node with `config`: takes over the state of an earlier daemon, or creates it. A failed first start
    /// is undone completely.
    pub(super) fn start(file: &Path, mut config: Config, options: Options) -> Result<Self> {
        let node = config.node.clone();
        let devices = Devices::open(&node.name)?;
        let has_pins = is_pinned(PinDirectory::open(&node.pin)?.as_ref())?;
        udev::wait(&devices.handle, &config.ports, !has_pins && !Journal::exists(&node.control)?);
        interfaces::resolve(&devices.handle, &mut config.ports)?;
        super::prp::fit_hosts(&devices.handle, &mut config)?;
        let directory = PinDirectory::open(&node.pin)?;
        if let (Some(directory), false) = (&directory, node.backend.is_user_space()) {
            directory.require_own()?;
        }
        let argument = file.to_string_lossy();
        Journal::adopt_former(&node.control, &argument, Some(&config.ports))?;
        let journal = Journal::open(&node.control, &argument)?;
        let known = journal.interfaces();
        let pinned = is_pinned(directory.as_ref())?;
        let owner = pin_owner(&node.name, &node.pin, &node.control, !journal.is_empty());
        let pins = match directory {
            _ if !node.backend.is_user_space() => Some(PinDirectory::create(&node.pin, &owner)?),
            Some(directory) if pinned => Some(directory.claim(&owner)?),
            _ => None,
        };
        let fresh = !pinned && journal.is_empty();
        let started = Self::bring_up(file, config, options, (devices, journal), pins, !pinned);
        if started.is_err() {
            let removal = NodeRemoval::of(&node, &argument);
            let undone =
                if fresh { removal.remove_own().map(drop) } else { removal.restore_others(&known) };
            undone.unwrap_or_else(|error| tracing::warn!("{error}"));
        }
        started
    }

    fn bring_up(
        file: &Path,
        config: Config,
        options: Options,
        (mut devices, mut journal): (Devices, Journal),
        pins: Option<PinDirectory>,
        first: bool,
    ) -> Result<Self> {
        let missing = prepare_present(&mut devices, &config, &mut journal)?;
        check(&devices, &config)?;
        let tables = pins.as_ref().filter(|_| !config.node.backend.is_user_space());
        let tables_since = tables.and_then(PinDirectory::tables_since);
        let plane = open(&config, pins)?;
        let layout = Layout::new(&config.node, &config.ports, config.links(), &config.streams);
        let mut events = Events::new(&config.node.name, config.node.events.keep);
        events.record(&EventSubject::default(), EventDetail::Started);
        let (streams, prp) = (config.streams.clone(), config.prp.clone());
        let wildcards = config.wildcards.clone();
        let mut node = Self {
            file: file.to_path_buf(),
            watcher: Watcher::new(config.node.events),
            events,
            started: Instant::now(),
            counted_since: tables_since.unwrap_or_else(SystemTime::now),
            sweep: None,
            presence: BTreeMap::new(),
            mtus: Mtus::new(),
            masters: Masters::new(),
            not_native: BTreeMap::new(),
            refused: BTreeMap::new(),
            frames_lost: BTreeMap::new(),
            upkeep: Upkeep::new(Instant::now(), &config.node),
            former_counters: FormerCounters::default(),
            guard: None,
            setup: Setup::from(config),
            is_applied: true,
            plane,
            devices,
            backend_override: options.backend,
            journal,
            lre: None,
            wildcards: Vec::new(),
        };
        node.find_peers(&layout.ports, Instant::now());
        // First: those of a former process keep their slots.
        for &index in &missing {
            node.plane.reserve(&layout.ports[index].name)?;
        }
        for index in (0..layout.ports.len()).filter(|index| !missing.contains(index)) {
            node.attach(&layout, index, options.replace, true)?;
        }
        if first {
            node.leave_native_mode(&layout)?;
        }
        node.apply(&layout.ports, &streams)?;
        node.set_lre(&layout.ports, prp.as_ref())?;
        node.set_wildcards(&layout.ports, &wildcards)?;
        node.watch_all(&StreamSet::default());
        node.drop_former_ports()?;
        node.report_frame_loss(&layout, EgressPorts::All)?;
        node.read_peers();
        if let Some(gap) = node.plane.output_gap() {
            tracing::warn!("the output of ports counts frames that are lost: {gap}");
        }
        node.account_output(None)?;
        Ok(node)
    }

    fn apply(&mut self, ports: &[PortConfig], streams: &[Stream]) -> Result<()> {
        let changes = self.plane.apply(&names(ports), streams)?;
        tracing::info!(
            "streams: {} added, {} changed, {} removed, {} kept",
            changes.added,
            changes.changed,
            changes.removed,
            changes.kept
        );
        Ok(())
    }

    /// Monitors the present ports and streams, whose previous streams were `before`.
    fn watch_all(&mut self, before: &StreamSet) {
        let config = self.setup.node.events;
        self.events.set_keep(config.keep);
        self.watcher.update(config, before, &self.setup.streams);
        self.sweep = self.setup.streams.iter().filter_map(sweep_interval).min();
        self.read_mtus();
        self.read_masters();
        let ports = &self.setup.ports;
        self.presence.retain(|name, _| ports.iter().any(|port| port.name == *name));
        for index in 0..self.setup.ports.len() {
            if self.presence.contains_key(&self.setup.ports[index].name) {
                continue;
            }
            let is_unnamed = self.waits_for_name(index);
            let port = &self.setup.ports[index];
            let link = self.devices.presence(port);
            if is_unnamed || link == LinkState::Missing {
                self.report_away(index, LinkState::Missing, None);
                continue;
            }
            self.presence.insert(port.name.clone(), link);
            if link == LinkState::Down {
                let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
                let interface = port.attached_interface();
                self.events.record(&subject, EventDetail::PortWaiting { interface });
            }
        }
    }

    /// Detaches ports of an earlier configuration, and restores their interfaces.
    fn drop_former_ports(&mut self) -> Result<()> {
        for name in self.plane.known_ports()? {
            if !self.setup.ports.iter().any(|port| port.name == name) {
                self.plane.detach(&name)?;
            }
        }
        let mut others = self.journal.interfaces();
        for port in &self.setup.ports {
            others.remove(&port.interface);
            others.remove(&port.attached_interface());
        }
        let failures = self.journal.restore(&mut self.devices, &others)?;
        failures.iter().for_each(|failure| tracing::warn!("{failure}"));
        self.devices.release_others(&self.setup.ports);
        let is_port = |name: &String| self.setup.ports.iter().any(|port| port.name == *name);
        self.not_native.retain(|port, _| is_port(port));
        self.refused.retain(|port, _| is_port(port));
        self.frames_lost.retain(|port, _| is_port(port));
        self.upkeep.retain_ports(is_port);
        self.former_counters.retain_ports(is_port);
        Ok(())
    }

    /// Reloads the file. Frames of unchanged streams are not affected.
    ///
    /// # Errors
    /// The file cannot be used; the node keeps its configuration.
    pub(super) fn reload(&mut self) -> Result<()> {
        self.change_configuration(Config::load_with_stored(&self.file)?)
    }

    /// Changes to a configuration, completely or not at all.
    pub(super) fn change_configuration(&mut self, mut new: Config) -> Result<()> {
        self.keep_adapted(&mut new.streams);
        if let Some(backend) = self.backend_override {
            new.set_backend(backend)?;
        }
        let needs_restart = |key, old: &dyn std::fmt::Display, new: &dyn std::fmt::Display| {
            Err(Error::NeedsRestart {
                key,
                old: old.to_string(),
                new: new.to_string(),
                node: self.setup.node.name.clone(),
            })
        };
        interfaces::resolve(&self.devices.handle, &mut new.ports)?;
        super::prp::fit_hosts(&self.devices.handle, &mut new)?;
        let (old, now) = (&self.setup.node, &new.node);
        if old.name != now.name {
            return needs_restart("name", &old.name, &now.name);
        }
        if old.protocol != now.protocol {
            return needs_restart("protocol", &old.protocol, &now.protocol);
        }
        // Ports in user space are reopened with their new back end.
        if old.backend.is_user_space() != now.backend.is_user_space() {
            return needs_restart("backend", &old.backend, &now.backend);
        }
        if old.poll != now.poll {
            let name = |poll| if poll == PollMode::Busy { "busy" } else { "epoll" };
            return needs_restart("poll", &name(old.poll), &name(now.poll));
        }
        if old.realtime != now.realtime {
            let name = |profile: &Profile| format!("{profile:?}");
            return needs_restart("realtime", &name(&old.realtime), &name(&now.realtime));
        }
        if old.guard != now.guard {
            let name = |guard: &Option<onbeat_irq_guard::Config>| format!("{guard:?}");
            return needs_restart("guard", &name(&old.guard), &name(&now.guard));
        }
        if old.max_streams != now.max_streams {
            return needs_restart("max-streams", &old.max_streams, &now.max_streams);
        }
        if old.pin != now.pin {
            return needs_restart("pin", &old.pin.display(), &now.pin.display());
        }
        if old.control != now.control {
            return needs_restart("control", &old.control.display(), &now.control.display());
        }
        self.plane.check_max_nodes(max_nodes(&new))?;
        let changed = self.change_to(new);
        if changed.is_err() {
            // Undo preparations and attachments for the new file.
            for index in 0..self.setup.ports.len() {
                self.follow(index).unwrap_or_else(|error| tracing::error!("{error}"));
            }
            self.drop_former_ports().unwrap_or_else(|error| tracing::warn!("{error}"));
        }
        changed
    }

    fn change_to(&mut self, new: Config) -> Result<()> {
        let changed = (0..new.ports.len()).filter(|&index| {
            let port = &new.ports[index];
            !self.setup.ports.contains(port) || !self.plane.runs(&port.name)
        });
        let (missing, fresh): (Vec<usize>, Vec<usize>) =
            changed.partition(|&index| self.waits_for_interface(&new.ports[index]));
        for &index in &missing {
            self.plane.reserve(&new.ports[index].name)?;
        }
        let mut prepared = Vec::new();
        for index in fresh {
            let port = &new.ports[index];
            match self.devices.prepare(port, &mut self.journal) {
                // As before the reload.
                Err(error) if error.is_away() && self.is_known(port) => {
                    self.plane.reserve(&port.name)?;
                }
                Err(error) => return Err(error),
                Ok(_) => prepared.push(index),
            }
        }
        check(&self.devices, &new)?;
        let layout = Layout::new(&new.node, &new.ports, new.links(), &new.streams);
        self.find_peers(&layout.ports, Instant::now());
        for &index in &prepared {
            self.attach(&layout, index, false, true)?;
        }
        self.report_frame_loss(&layout, EgressPorts::All)?;
        // Nothing is applied of a file that is refused.
        new.links().try_for_each(|link| self.refuse_generic_veth(&new.ports, link))?;
        let counted = self.read_changing_shares(&new)?;
        let counted_by_wildcards = self.wildcard_shares()?;
        self.is_applied = false;
        self.apply(&new.ports, &new.streams)?;
        self.set_lre(&new.ports, new.prp.as_ref())?;
        self.set_wildcards(&new.ports, &new.wildcards)?;
        let before = std::mem::replace(&mut self.setup, Setup::from(new));
        self.is_applied = true;
        self.keep_counters(counted);
        self.keep_wildcard_counters(counted_by_wildcards);
        self.watch_all(&before.streams);
        self.upkeep.ptp.update(&self.setup.node);
        self.read_peers();
        self.account_output(None)?;
        self.drop_former_ports()
    }

    /// Resets a stream's functions; returns whether the stream exists.
    pub(super) fn reset(&mut self, name: &str) -> Result<bool> {
        let Some(stream) = self.setup.streams.get(name) else { return Ok(false) };
        let before = self.plane.read_stream(name)?;
        if !self.plane.reset(name)? {
            return Ok(false);
        }
        if let (Some(before), Some(after)) = (before, self.plane.read_stream(name)?) {
            let (events, ports) = (&mut self.events, &self.setup.ports);
            let mut reporter = StreamReporter { events, ports, stream };
            self.watcher.reset(monotonic_ns(), [&before, &after], &mut reporter);
        }
        Ok(true)
    }

    /// Sets the number of a stream's next packet.
    ///
    /// # Errors
    /// There is no such stream, or it numbers no packets.
    pub(super) fn set_number(&mut self, name: &str, number: u16) -> Result<()> {
        if self.setup.streams.get(name).is_none() {
            return Err(Error::NoStream { stream: name.to_owned() });
        }
        if !self.plane.set_number(name, number)? {
            return Err(Error::NoNumbers { stream: name.to_owned() });
        }
        let subject = EventSubject { stream: Some(name), ..EventSubject::default() };
        self.events.record(&subject, EventDetail::NumberSet { next: number });
        Ok(())
    }

    /// Polls the streams that are due.
    pub(super) fn poll_streams(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        let polled = self.watcher.poll(now_ns, &*self.plane, &self.setup, &mut self.events);
        polled.and(self.adapt_recoveries(now_ns))
    }

    /// Handles an added, changed or removed interface.
    pub(super) fn device_event(&mut self, event: &LinkEvent) {
        if matches!(event, LinkEvent::Removed { .. } | LinkEvent::Lost) {
            self.devices.release_gone();
        }
        let ports: Vec<usize> = match event {
            LinkEvent::Removed { name, .. } => {
                let port = self.port_of(name);
                // Even if another interface has the name by now.
                port.iter().for_each(|port| self.report_away(*port, LinkState::Missing, None));
                port.into_iter().collect()
            }
            LinkEvent::Added(link) | LinkEvent::Changed(link) => {
                self.resolve_missing();
                self.report_renamed(link);
                self.port_of(&link.name).into_iter().collect()
            }
            LinkEvent::Lost => (0..self.setup.ports.len()).collect(),
        };
        self.follow_all(ports);
        if let LinkEvent::Changed(link) = event
            && let Some(port) = self.port_made_as(&link.name)
        {
            self.report_mtu(port);
        }
        self.update_lre();
        self.update_wildcards();
    }

    /// Handles changes of the interfaces of these ports.
    fn follow_all(&mut self, ports: Vec<usize>) {
        for port in ports {
            if self.waits_for_name(port) {
                let PortConfig { name, interface, .. } = &self.setup.ports[port];
                if self.presence.get(name) != Some(&LinkState::Missing) {
                    tracing::warn!(
                        "port {name:?} waits until udev has named interface {interface:?}"
                    );
                }
                self.report_away(port, LinkState::Missing, None);
                continue;
            }
            self.upkeep.peers.reset(Instant::now(), &self.setup.ports[port].name);
            let why = self.follow(port).err().map(|error| error.to_string());
            let name = &self.setup.ports[port].name;
            self.upkeep.follow_failures.log(name, why.as_ref());
            let link = self.devices.presence(&self.setup.ports[port]);
            if link != LinkState::Up {
                self.upkeep.output.note_down(&self.setup.ports[port].name);
            }
            self.report_link(port, link, why);
            self.report_mtu(port);
            self.report_master(port);
        }
    }

    /// Follows alternative names of interfaces that were missing.
    fn resolve_missing(&mut self) {
        for index in 0..self.setup.ports.len() {
            let PortConfig { name, interface, create, .. } = &self.setup.ports[index];
            if create.is_some() || self.presence.get(name) != Some(&LinkState::Missing) {
                continue;
            }
            let Ok(link) = self.devices.handle.link(interface) else { continue };
            if self.port_of(&link.name).is_none() && !has_yet_to_name(&link) {
                self.setup.ports[index].interface = link.name;
            }
        }
    }

    /// Whether the interface of a port does not exist, and the node waits for it already. A reload refuses other names of
    /// interfaces that do not exist: they may be wrong.
    fn waits_for_interface(&self, port: &PortConfig) -> bool {
        let is_missing = |port: &PortConfig| {
            let link = self.devices.handle.link(&port.interface);
            port.create.is_none() && link.is_err_and(|error| error.is_not_found())
        };
        is_missing(port) && self.is_known(port)
    }

    /// Whether the node has a port of this name at this interface.
    fn is_known(&self, port: &PortConfig) -> bool {
        let is_same =
            |known: &PortConfig| known.name == port.name && known.interface == port.interface;
        self.setup.ports.iter().any(is_same)
    }

    /// Records that an interface of a port has another name than the file.
    fn report_renamed(&mut self, link: &Link) {
        let of_interface = |port: &AttachedPort| port.ifindex == link.index;
        let attached = self.plane.ports().into_iter().find(of_interface);
        let Some(AttachedPort { name, .. }) = attached else { return };
        let renamed = |port: &PortConfig| {
            // A name that another interface has by now is followed.
            port.name == name
                && port.attached_interface() != link.name
                && self.devices.presence(port) == LinkState::Missing
        };
        if let Some(port) = self.setup.ports.iter().position(renamed) {
            self.report_away(port, LinkState::Missing, Some(link.name.clone()));
        }
    }

    /// Records an event if frames cannot go through port number `index` any more.
    fn report_away(&mut self, index: usize, link: LinkState, renamed: Option<String>) {
        let port = &self.setup.ports[index];
        if self.presence.insert(port.name.clone(), link) != Some(link) {
            let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
            let interface = port.attached_interface();
            self.events.record(&subject, EventDetail::PortAway { link, interface, renamed });
        }
    }

    /// Records an event if the link of port number `index` changed. `why`: the cause why the port cannot use it.
    fn report_link(&mut self, index: usize, link: LinkState, why: Option<String>) {
        if link != LinkState::Up {
            return self.report_away(index, link, None);
        }
        let port = &self.setup.ports[index];
        if self.presence.insert(port.name.clone(), link) == Some(link) {
            return;
        }
        let is_host = |prp: &LinkConfig| usize::from(prp.host.0) == index;
        if self.setup.prp.as_ref().is_some_and(is_host) {
            self.plane.listen().unwrap_or_else(|error| tracing::error!("{error}"));
        }
        let interface = port.attached_interface();
        let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
        self.events.record(&subject, EventDetail::PortBack { interface, why });
    }

    /// Updates port number `index` after a change of its interface: a new interface gets the program again.
    fn follow(&mut self, index: usize) -> Result<()> {
        let port = &self.setup.ports[index];
        let Ok(link) = self.devices.handle.link(&port.attached_interface()) else { return Ok(()) };
        let attached = self.plane.ports().into_iter().find(|known| known.name == port.name);
        // Moved to another namespace and back, it keeps its index, and has lost programs and sockets.
        let was_missing = self.presence.get(&port.name) == Some(&LinkState::Missing);
        let is_same = attached.is_some_and(|attached| attached.ifindex == link.index);
        if is_same && !was_missing {
            self.plane.set_up(&port.name, link.up)
        } else {
            self.attach_port(index)
        }
    }

    /// Whether another interface has the name of port number `index`, until udev has named it. Requests the next reading.
    fn waits_for_name(&mut self, index: usize) -> bool {
        let port = &self.setup.ports[index];
        let attached = self.plane.ports().into_iter().find(|known| known.name == port.name);
        let is_new = |link: &Link| attached.is_none_or(|attached| attached.ifindex != link.index);
        let link = self.devices.handle.link(&port.attached_interface());
        let waits =
            port.create.is_none() && link.is_ok_and(|link| is_new(&link) && has_yet_to_name(&link));
        self.upkeep.note_unnamed(&port.name, waits);
        waits
    }

    /// Handles interfaces that udev was to name.
    pub(super) fn read_unnamed(&mut self) {
        let ports = self.setup.ports.iter().enumerate();
        let unnamed = ports.filter(|(_, port)| self.upkeep.is_unnamed(&port.name));
        let ports: Vec<usize> = unnamed.map(|(index, _)| index).collect();
        self.follow_all(ports);
    }

    /// Sets up the interface of port number `index`, and attaches the data plane to it: the interface
    /// was removed and added, or another process detached the program.
    pub(super) fn attach_port(&mut self, index: usize) -> Result<()> {
        let mut layout = self.setup.layout();
        interfaces::resolve(&self.devices.handle, &mut layout.ports)?;
        self.devices.prepare(&layout.ports[index], &mut self.journal)?;
        self.find_peers(&layout.ports, Instant::now());
        self.attach(&layout, index, false, true)?;
        self.report_frame_loss(&layout, EgressPorts::All)?;
        self.read_peers();
        self.account_output(None)
    }

    /// Names of ports whose links have this state.
    pub(super) fn ports_with(&self, state: LinkState) -> Vec<&str> {
        let ports = self.setup.ports.iter().map(|port| port.name.as_str());
        ports.filter(|name| self.presence.get(*name) == Some(&state)).collect()
    }

    /// Number of the port with this interface.
    fn port_of(&self, interface: &str) -> Option<usize> {
        self.setup.ports.iter().position(|port| port.attached_interface() == interface)
    }

    /// Number of the port that the node made this interface of the host for.
    fn port_made_as(&self, interface: &str) -> Option<usize> {
        let made = |port: &PortConfig| port.create.is_some() && port.interface == interface;
        self.setup.ports.iter().position(made)
    }

    /// Removes programs and tables, and undoes changes of interfaces.
    pub(super) fn remove(self) -> Result<Removal> {
        let removal = NodeRemoval::of(&self.setup.node, &self.file.to_string_lossy());
        drop(self);
        removal.remove_own()
    }
}

/// Polling interval of this stream's reset timers, if it has any.
pub(super) fn sweep_interval(stream: &Stream) -> Option<Duration> {
    let individual = stream.members.iter().filter_map(|member| member.individual);
    let timeouts = individual.chain(stream.recover).map(|recover| recover.reset_timeout_ms);
    let shortest = timeouts.filter(|&timeout| timeout > 0).min()?;
    let tenth = Duration::from_millis(u64::from(shortest)) / 10;
    Some(tenth.clamp(FASTEST_SWEEP, SLOWEST_SWEEP))
}

/// Returns the entries of the NodesTables of a PRP node, or of all wildcards together.
pub(super) fn max_nodes(config: &Config) -> u32 {
    config.links().map(|link| u32::from(link.max_nodes)).sum()
}

/// Opens the data plane of the configuration.
fn open(config: &Config, pins: Option<PinDirectory>) -> Result<Box<dyn DataPlane<Error>>> {
    let ports = config.ports.len() as u32;
    let &NodeConfig { backend, max_streams, poll, .. } = &config.node;
    if backend == Backend::Xdp {
        let directory = pins.map(Arc::new);
        let options =
            PlaneOptions { directory, max_streams, test_clock: false, count_output: true };
        return Ok(Box::new(Plane::open(&options)?));
    }
    // A data plane of an earlier daemon would forward each frame again.
    pins.map_or(Ok(()), remove_pins)?;
    let realtime = config.node.realtime.clone();
    let prepare = move || {
        let entered = realtime.enter().map_err(std::io::Error::other)?;
        if realtime != Profile::default() {
            tracing::info!("forwarding thread: {entered}");
        }
        Ok(entered)
    };
    Ok(Box::new(UserPlane::start(UserOptions { max_streams, poll, ports }, prepare)?))
}

/// The removal of a node, of this daemon or an earlier one.
#[derive(Debug)]
pub(super) struct NodeRemoval {
    pub(super) name: String,
    pub(super) pin: PathBuf,
    pub(super) control: PathBuf,
    /// The argument of `onbeat down` for the node.
    pub(super) argument: String,
    /// Discard the settings that cannot be restored.
    pub(super) forget: bool,
}

impl NodeRemoval {
    fn of(node: &NodeConfig, argument: &str) -> Self {
        let (name, pin, control) = (node.name.clone(), node.pin.clone(), node.control.clone());
        Self { name, pin, control, argument: argument.to_owned(), forget: false }
    }

    /// Like [`NodeRemoval::remove`], by the daemon itself: a pin directory of another node is kept.
    fn remove_own(&self) -> Result<Removal> {
        let pins = match self.claim_pins() {
            Err(Error::Plane(
                error @ (PlaneError::PinOwner { .. } | PlaneError::PinLocked { .. }),
            )) => {
                tracing::warn!("{error}");
                None
            }
            pins => pins?,
        };
        self.remove(pins)
    }

    /// The node's pin directory, locked; `None` if nothing is pinned.
    pub(super) fn claim_pins(&self) -> Result<Option<PinDirectory>> {
        let directory = PinDirectory::open(&self.pin)?;
        let pinned = is_pinned(directory.as_ref())?;
        let journal = Journal::exists(&self.control)?;
        let owner = pin_owner(&self.name, &self.pin, &self.control, journal);
        let claimed = directory.filter(|_| pinned).map(|directory| directory.claim(&owner));
        Ok(claimed.transpose()?)
    }

    /// After a failed start, undoes changes of interfaces that were not `known` before.
    fn restore_others(&self, known: &BTreeSet<String>) -> Result<()> {
        let mut journal = Journal::open(&self.control, &self.argument)?;
        let others = &journal.interfaces() - known;
        let failures = journal.restore(&mut Devices::open(&self.name)?, &others)?;
        failures.iter().for_each(|failure| tracing::warn!("{failure}"));
        Ok(())
    }

    /// Removes pinned objects, and undoes changes of interfaces.
    pub(super) fn remove(&self, pins: Option<PinDirectory>) -> Result<Removal> {
        // A journal that cannot be used is an error before anything is removed.
        let mut journal = Journal::open(&self.control, &self.argument)?;
        let mut devices = Devices::open(&self.name)?;
        pins.map_or(Ok(()), remove_pins)?;
        let failures = journal.restore_all(&mut devices)?;
        failures.iter().for_each(|failure| tracing::warn!("{failure}"));
        if self.forget {
            journal.discard()?;
            return Ok(Removal::Complete);
        }
        if failures.is_empty() {
            return Ok(Removal::Complete);
        }
        let argument = &self.argument;
        tracing::warn!(
            "settings not restored stay in the journal; try again with: onbeat down {argument}, or \
             discard them with: onbeat down {argument} --forget"
        );
        Ok(Removal::SettingsLeft)
    }

    /// Whether interfaces of the journal run a data plane, which requires their changes. Logs the interfaces and
    /// the remedy.
    pub(super) fn forwards(&self) -> Result<bool> {
        let devices = Devices::open(&self.name)?;
        let journal = Journal::open(&self.control, &self.argument)?;
        let forwarding = devices.forwarding(&journal.interfaces());
        if forwarding.is_empty() {
            return Ok(false);
        }
        let namespace = Namespace::named_path(devices.handle.namespace().inode());
        let enter = namespace.map_or("NAMESPACE".into(), |path| path.display().to_string());
        tracing::warn!(
            "the data plane still runs on {}: its pins are not in the BPF file system that this \
             process can read; nothing was removed or restored; run in the mount namespace of the \
             host: nsenter --net={enter} onbeat down {}",
            forwarding.join(", "),
            self.argument
        );
        Ok(true)
    }
}

/// Result of removing a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Removed completely.
    Complete,
    /// Settings of interfaces could not be restored, and stay in the journal.
    SettingsLeft,
    /// Its data plane forwards frames: its pins cannot be reached.
    DataPlaneLeft,
}

/// Whether a node left its data plane in its pin directory.
pub(super) fn is_pinned(directory: Option<&PinDirectory>) -> Result<bool> {
    Ok(directory.map(PinDirectory::is_of_node).transpose()?.unwrap_or(false))
}

/// The owner of a node's pin directory. The former version recorded none: the directory with the
/// node's name is the node's, and any other where the node has a journal.
pub(super) fn pin_owner(name: &str, pin: &Path, control: &Path, journal: bool) -> PinOwner {
    PinOwner::new(control, *pin == default_pin(name) || journal)
}

/// Removes the pins of a node, and logs other files in its directory.
fn remove_pins(pins: PinDirectory) -> Result<()> {
    for foreign in pins.remove()? {
        tracing::warn!("{foreign:?} does not belong to a node: not removed");
    }
    Ok(())
}

/// Prepares the interfaces of ports. Returns the numbers of ports whose interface is missing, has yet to be named, or cannot
/// be set up.
///
/// # Errors
/// None of the interfaces of the host is there; one of a station without redundancy is missing; one cannot be used.
fn prepare_present(
    devices: &mut Devices,
    config: &Config,
    journal: &mut Journal,
) -> Result<BTreeSet<usize>> {
    let ports = &config.ports;
    let links = config.prp.iter().chain(config.wildcards.iter().map(|wildcard| &wildcard.link));
    let stations: BTreeSet<usize> = links.map(|link| usize::from(link.host.0)).collect();
    let mut missing = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let may_be_missing = port.create.is_none() && !stations.contains(&index);
        match devices.prepare(port, journal) {
            Err(error) if may_be_missing && error.is_away() => {
                missing.push((index, error));
            }
            prepared => drop(prepared?),
        }
    }
    let is_of_host = |port: &&PortConfig| port.create.is_none();
    if ports.iter().filter(is_of_host).count() == missing.len() && !missing.is_empty() {
        return Err(missing.swap_remove(0).1);
    }
    for (_, error) in &missing {
        let then = match error.is_missing() {
            true => "attaches it as soon as it appears",
            false => "tries again",
        };
        tracing::warn!("{error}; the node starts without it, and {then}");
    }
    Ok(missing.into_iter().map(|(index, _)| index).collect())
}

/// Checks the configuration against the interfaces, and logs its warnings.
fn check(devices: &Devices, config: &Config) -> Result<()> {
    let warnings = config.check(|port| devices.mtu(port))?;
    log_warnings(&warnings);
    Ok(())
}

/// Logs warnings of a configuration.
pub(super) fn log_warnings(warnings: &Warnings) {
    /// Maximum number of logged warnings: a generated file may have thousands of one kind.
    const LOGGED: usize = 16;
    warnings.lines().take(LOGGED).for_each(|warning| tracing::warn!("{warning}"));
    if let more @ 1.. = warnings.count().saturating_sub(LOGGED) {
        tracing::warn!("{more} more warnings; onbeat run --check prints all");
    }
}

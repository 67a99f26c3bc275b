//! A configuration made to run: interfaces, programs, streams.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onbeat_frer_user::Poll;
use onbeat_frer_xdp::{Options as PlaneOptions, Plane};
use onbeat_netdev::LinkEvent;
use onbeat_realtime::Profile;

use super::Options;
use super::engine::{Engine, UserPlane};
use super::error::{Error, Result};
use super::journal::Journal;
use super::latent::Detection;
use super::port::Devices;
use crate::config::{Backend, Config, PortConfig};

/// Longest between two looks for recovery functions whose time ran out.
const SLOWEST_SWEEP: Duration = Duration::from_millis(250);

/// Shortest; a reset that is late by this is late by a tenth of the shortest time-out.
const FASTEST_SWEEP: Duration = Duration::from_millis(10);

/// A node that runs.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) file: PathBuf,
    pub(super) config: Config,
    pub(super) plane: Engine,
    pub(super) devices: Devices,
    pub(super) latent: BTreeMap<String, Detection>,
    pub(super) started: Instant,
    /// By port that could not be native though that was left open: why, and the way out.
    pub(super) not_native: BTreeMap<String, String>,
    /// The data plane asked for when the node was started, whatever the file says.
    asked: Option<Backend>,
    journal: Journal,
}

impl Node {
    /// Makes `config` run: takes over what an earlier daemon left, or begins. A beginning that
    /// fails leaves nothing behind.
    pub(super) fn start(file: &Path, mut config: Config, options: Options) -> Result<Self> {
        if let Some(backend) = options.backend {
            config.set_backend(backend);
        }
        let (pin, control) = (config.node.pin.clone(), config.node.control.clone());
        let fresh = !pin.exists() && Journal::open(&control)?.changes.is_empty();
        let started = Self::bring_up(file, config, options);
        if started.is_err() && fresh {
            take_away(&pin, &control).unwrap_or_else(|error| tracing::warn!("{error}"));
        }
        started
    }

    fn bring_up(file: &Path, config: Config, options: Options) -> Result<Self> {
        let devices = Devices::open()?;
        let mut journal = Journal::open(&config.node.control)?;
        for port in &config.ports {
            devices.prepare(port, &mut journal)?;
        }
        check(&devices, &config)?;
        let first = !config.node.pin.exists();
        let plane = open(&config)?;
        let mut node = Self {
            file: file.to_path_buf(),
            latent: BTreeMap::new(),
            started: Instant::now(),
            not_native: BTreeMap::new(),
            config,
            plane,
            devices,
            asked: options.backend,
            journal,
        };
        let config = node.config.clone();
        for index in 0..config.ports.len() {
            node.attach(&config, index, options.replace, true)?;
        }
        if first {
            node.settle(&config)?;
        }
        node.apply(&config)?;
        node.drop_ports_of_others()?;
        Ok(node)
    }

    fn apply(&mut self, config: &Config) -> Result<()> {
        let names: Vec<_> = config.ports.iter().map(|port| port.name.clone()).collect();
        let changes = self.plane.apply(&names, &config.streams)?;
        let mut latent = std::mem::take(&mut self.latent);
        for stream in &config.streams {
            let Some(wanted) = stream.recover.and_then(|recover| recover.latent) else { continue };
            let detection = match latent.remove(&stream.name) {
                Some(detection) if detection.config == wanted => Some(detection),
                _ => Detection::start(&self.plane, &stream.name, wanted)?,
            };
            self.latent.extend(detection.map(|detection| (stream.name.clone(), detection)));
        }
        tracing::info!(
            "streams: {} added, {} changed, {} removed, {} kept",
            changes.added,
            changes.changed,
            changes.removed,
            changes.kept
        );
        Ok(())
    }

    /// Detaches ports that the configuration does not name, and gives back what was changed on
    /// their interfaces: those of an earlier one.
    fn drop_ports_of_others(&mut self) -> Result<()> {
        for name in self.plane.known_ports() {
            if !self.config.ports.iter().any(|port| port.name == name) {
                self.plane.detach(&name)?;
            }
        }
        let mut others = self.journal.interfaces();
        for port in &self.config.ports {
            others.remove(&port.interface);
            others.remove(&port.attached_interface());
        }
        for interface in &others {
            self.journal.restore(&self.devices.handle, &self.devices.ethtool, interface);
        }
        if others.is_empty() { Ok(()) } else { self.journal.save() }
    }

    /// Reads the file anew and makes it so; frames of streams that stay are not disturbed.
    ///
    /// # Errors
    /// A file that cannot be used: the node goes on as it was.
    pub(super) fn reload(&mut self) -> Result<()> {
        let mut new = Config::load(&self.file)?;
        if let Some(backend) = self.asked {
            new.set_backend(backend);
        }
        let needs_restart = |key, old: &dyn std::fmt::Display, new: &dyn std::fmt::Display| {
            Err(Error::NeedsRestart {
                key,
                old: old.to_string(),
                new: new.to_string(),
                node: self.config.node.name.clone(),
            })
        };
        let (old, now) = (&self.config.node, &new.node);
        if old.name != now.name {
            return needs_restart("name", &old.name, &now.name);
        }
        // Ports in user space are opened anew with what they have then.
        if old.backend.is_user_space() != now.backend.is_user_space() {
            return needs_restart("backend", &old.backend, &now.backend);
        }
        if old.poll != now.poll {
            let name = |poll| if poll == Poll::Busy { "busy" } else { "epoll" };
            return needs_restart("poll", &name(old.poll), &name(now.poll));
        }
        if old.realtime != now.realtime {
            let name = |profile: &Profile| format!("{profile:?}");
            return needs_restart("realtime", &name(&old.realtime), &name(&now.realtime));
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
        let fresh: Vec<usize> = (0..new.ports.len())
            .filter(|&index| !self.config.ports.contains(&new.ports[index]))
            .collect();
        for &index in &fresh {
            self.devices.prepare(&new.ports[index], &mut self.journal)?;
        }
        check(&self.devices, &new)?;
        for &index in &fresh {
            self.attach(&new, index, false, true)?;
        }
        self.tell_disappointed(&new)?;
        self.apply(&new)?;
        self.config = new;
        self.drop_ports_of_others()
    }

    /// An interface came, changed or went.
    pub(super) fn device_event(&mut self, event: &LinkEvent) {
        match event {
            LinkEvent::Removed { name, .. } => {
                if let Some(port) = self.port_of(name) {
                    let port = &self.config.ports[port].name;
                    tracing::warn!("port {port:?}: interface {name} is gone");
                }
            }
            LinkEvent::Added(link) | LinkEvent::Changed(link) => {
                if let Some(port) = self.port_of(&link.name) {
                    self.follow(port);
                }
            }
            LinkEvent::Lost => (0..self.config.ports.len()).for_each(|port| self.follow(port)),
        }
    }

    /// Does for port number `index` what its interface asks for now: one that came back gets its
    /// program again.
    fn follow(&mut self, index: usize) {
        let port = &self.config.ports[index];
        let Ok(link) = self.devices.handle.link(&port.attached_interface()) else { return };
        let attached = self.plane.ports().into_iter().find(|(name, ..)| *name == port.name);
        let followed = if attached.is_some_and(|(_, ifindex, _)| ifindex == link.index) {
            self.plane.set_up(&port.name, link.up)
        } else {
            self.come_back(index)
        };
        if let Err(error) = followed {
            tracing::error!("{error}");
        }
    }

    /// Gives the interface of port number `index`, which was away, what it had.
    fn come_back(&mut self, index: usize) -> Result<()> {
        let config = self.config.clone();
        let port = &config.ports[index];
        let link = self.devices.prepare(port, &mut self.journal)?;
        self.attach(&config, index, false, true)?;
        self.tell_disappointed(&config)?;
        tracing::info!("port {:?}: interface {} is back", port.name, link.name);
        Ok(())
    }

    /// Number of the port with this interface.
    fn port_of(&self, interface: &str) -> Option<usize> {
        self.config.ports.iter().position(|port| port.attached_interface() == interface)
    }

    /// How often to look for recovery functions whose time ran out.
    pub(super) fn sweep_interval(&self) -> Option<Duration> {
        let streams = self.config.streams.iter();
        let timeouts = streams.flat_map(|stream| {
            let individual = stream.members.iter().filter_map(|member| member.individual);
            individual.chain(stream.recover).map(|recover| recover.reset_timeout_ms)
        });
        let shortest = timeouts.filter(|&timeout| timeout > 0).min()?;
        let tenth = Duration::from_millis(u64::from(shortest)) / 10;
        Some(tenth.clamp(FASTEST_SWEEP, SLOWEST_SWEEP))
    }

    /// Takes everything away: programs, tables, what was made and set on interfaces.
    pub(super) fn remove(self) -> Result<()> {
        let (pin, control) = (self.config.node.pin.clone(), self.config.node.control.clone());
        drop(self);
        take_away(&pin, &control)
    }
}

/// Opens the data plane that the configuration asks for.
fn open(config: &Config) -> Result<Engine> {
    let ports = config.ports.len();
    let config = &config.node;
    Ok(match config.backend {
        Backend::Xdp => Engine::Xdp(Box::new(Plane::open(&PlaneOptions {
            directory: Some(config.pin.clone()),
            max_streams: config.max_streams,
            test_clock: false,
        })?)),
        Backend::Packet | Backend::Xsk => {
            // Of an earlier daemon, which would forward each frame once more.
            Plane::remove(&config.pin)?;
            Engine::User(UserPlane::start(config, ports)?)
        }
    })
}

/// Removes what is pinned, and gives back what was changed on interfaces, of whichever daemon.
pub(super) fn take_away(pin: &Path, control: &Path) -> Result<()> {
    Plane::remove(pin)?;
    let devices = Devices::open()?;
    Journal::open(control)?.restore_all(&devices.handle, &devices.ethtool)
}

/// Checks what only shows on the interfaces, and logs the traps that the configuration steps into.
fn check(devices: &Devices, config: &Config) -> Result<()> {
    /// Warnings logged at most: a file that was generated may have thousands of one kind.
    const LOGGED: usize = 16;
    let mtu = |port: &PortConfig| Some(devices.handle.link(&port.attached_interface()).ok()?.mtu);
    let warnings = config.check(mtu)?;
    warnings.lines().take(LOGGED).for_each(|warning| tracing::warn!("{warning}"));
    if let more @ 1.. = warnings.count().saturating_sub(LOGGED) {
        tracing::warn!("{more} warnings more; onbeat run --check tells all");
    }
    Ok(())
}

//! Two pairs of hosts that differ only in the scheduling of packet reception.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onbeat_host::settings::RestoreOutcome;
use onbeat_irq::names::Stat;
use onbeat_irq_guard::{Background, Config, Event};
use onbeat_netdev::{Ethtool, Namespace, napi};

use crate::{Error, Result, Topology, World, cpus};

/// Scheduling of packet reception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// By the kernel: in softirq, on the time of the running process.
    Stock,
    /// By the guard: in threads whose priority follows the waiting process.
    Guarded,
    /// On the sender's CPU, where the server runs as well: jobs that are late here are late by the machine.
    Control,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Stock, Side::Guarded];
    pub(super) const ALL: [Side; 3] = [Side::Stock, Side::Guarded, Side::Control];

    /// Name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Stock => "stock",
            Side::Guarded => "guard",
            Side::Control => "control",
        }
    }

    fn client(self) -> String {
        match self {
            Side::Control => Side::Stock.client(),
            _ => format!("client-{}", self.name()),
        }
    }

    fn server(self) -> String {
        match self {
            Side::Control => self.client(),
            _ => format!("server-{}", self.name()),
        }
    }
}

/// A link: the storm's, or that of the stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StormLink {
    Storm,
    Stamps,
}

impl StormLink {
    pub(super) const INTERFACES: [&'static str; 2] = ["eth0", "eth1"];

    fn interface(self) -> &'static str {
        Self::INTERFACES[self as usize]
    }

    /// A network for documentation (RFC 5737) per link.
    fn address(self, host: u8) -> IpAddr {
        match self {
            StormLink::Storm => Ipv4Addr::new(192, 0, 2, host).into(),
            StormLink::Stamps => Ipv4Addr::new(198, 51, 100, host).into(),
        }
    }
}

/// The network of one pair.
pub(super) fn network() -> Topology {
    let mut network = Topology::default();
    pair(&mut network, "client", "server", "");
    network
}

fn pair(network: &mut Topology, client: &str, server: &str, suffix: &str) {
    let row = network.hosts.len() as u16;
    network.host(client, 0, row).host(server, 1, row);
    for (name, way) in [("storm", StormLink::Storm), ("stamps", StormLink::Stamps)] {
        let end = |station: &str| format!("{station}:{}", way.interface());
        network.link(format!("{name}{suffix}").as_str(), &end(client), &end(server));
    }
}

/// Both pairs, ready for measurements.
pub(super) struct Rig {
    // Dropped before its interfaces.
    guard: Option<Background>,
    events: Arc<Mutex<Vec<Event>>>,
    world: World,
}

impl Rig {
    /// Builds both pairs; `cpu` receives the packets. `rps`: RPS is on at the guarded server as well, until the guard
    /// starts.
    pub(super) fn build(cpu: u16, rps: bool) -> Result<Self> {
        let mut network = Topology::default();
        for side in Side::BOTH {
            pair(&mut network, &side.client(), &side.server(), &format!("-{}", side.name()));
        }
        let rig = Self { guard: None, events: Arc::default(), world: World::build(&network)? };
        for side in Side::BOTH {
            for way in [StormLink::Storm, StormLink::Stamps] {
                for (station, host) in [(side.client(), 1), (side.server(), 2)] {
                    let handle = rig.world.handle(&station)?;
                    handle.add_address(way.interface(), way.address(host), 24)?;
                }
            }
        }
        for side in Side::BOTH {
            if side == Side::Stock || rps {
                let cpus = [cpu].into_iter().collect();
                cpus::steer(rig.server(side)?, &StormLink::INTERFACES, &cpus)?;
            }
        }
        let ethtool = Ethtool::in_namespace(rig.server(Side::Guarded)?)?;
        for interface in StormLink::INTERFACES {
            // A veth has NAPI only with GRO.
            ethtool.set_features(interface, &[("rx-gro", true)])?;
        }
        rig.guarded(cpu)
    }

    fn guarded(mut self, cpu: u16) -> Result<Self> {
        let interfaces = StormLink::INTERFACES.map(str::to_owned).to_vec();
        let cpus = Some([cpu].into_iter().collect());
        let interval = Duration::from_millis(20);
        let config = Config { cpus, interval, ..Config::of(interfaces) };
        let events = Arc::clone(&self.events);
        let log_events = move |news: &[Event], _: &[_]| {
            news.iter().for_each(|event| tracing::debug!("guard: {event}"));
            if let Ok(mut events) = events.lock() {
                events.extend_from_slice(news);
            }
        };
        // In the lab's own /run.
        let directory = PathBuf::from("/run/onbeat/guard");
        let start = || Background::start(config, directory, log_events);
        let guard = self.server(Side::Guarded)?.run(start)??;
        self.guard = Some(guard);
        Ok(self)
    }

    /// Stops the guard; returns the number of settings that it could not restore.
    pub(super) fn end_guard(&mut self) -> Result<u64> {
        let restored = self.guard.take().map(Background::stop).transpose()?.unwrap_or_default();
        Ok(restored.iter().filter(|one| one.outcome == RestoreOutcome::Failed).count() as u64)
    }

    /// Settings that the guard could not apply.
    pub(super) fn refused(&self) -> Vec<String> {
        let events = self.events.lock().map(|events| events.clone()).unwrap_or_default();
        let failed = |event: &Event| matches!(event, Event::SettingFailed { .. });
        events.iter().filter(|event| failed(event)).map(ToString::to_string).collect()
    }

    pub(super) fn server(&self, side: Side) -> Result<&Namespace> {
        self.world.namespace(&side.server())
    }

    /// Number of NAPI threads at the server.
    pub(super) fn threads(&self, side: Side) -> Result<u64> {
        Ok(self.napi_threads(side, &StormLink::INTERFACES)?.len() as u64)
    }

    /// The real-time priority of the threads that receive packets of a link; 0: none.
    pub(super) fn priority(&self, side: Side, way: StormLink) -> Result<u64> {
        let threads = self.napi_threads(side, &[way.interface()])?;
        let priority = |tid: &u32| Some(Stat::of_number(*tid)?.realtime_priority.into());
        Ok(threads.iter().filter_map(priority).min().unwrap_or(0))
    }

    fn napi_threads(&self, side: Side, interfaces: &[&str]) -> Result<Vec<u32>> {
        let handle = self.world.handle(&side.server())?;
        let mut threads = Vec::new();
        for interface in interfaces {
            let instances = napi::instances(handle, interface)?.unwrap_or_default();
            threads.extend(instances.iter().filter_map(|instance| instance.pid));
        }
        Ok(threads)
    }

    /// A socket of the server, and a connected one of the client.
    pub(super) fn sockets(&self, side: Side, way: StormLink) -> Result<(UdpSocket, UdpSocket)> {
        let failed = |error| Error::io("open sockets for the storm", error);
        let bind = |host| move || UdpSocket::bind((way.address(host), 0));
        let host = if side == Side::Control { 1 } else { 2 };
        let server = self.server(side)?.run(bind(host))?.map_err(failed)?;
        let client = self.world.namespace(&side.client())?.run(bind(1))?.map_err(failed)?;
        client.connect(server.local_addr().map_err(failed)?).map_err(failed)?;
        Ok((server, client))
    }
}

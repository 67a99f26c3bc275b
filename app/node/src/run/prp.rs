//! The link redundancy entity of a PRP node, and what wildcards have in common with it: parameters by the interfaces,
//! supervision, events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use onbeat_frer::counters::PortCounters;
use onbeat_frer::dataplane::{AttachedPort, Attachment, Mode};
use onbeat_frer::prp::{Lan, LanPort, Observer, Parameters, PrpEvent, Reading};
use onbeat_frer::spec::PortId;
use onbeat_netdev::Handle;
use onbeat_wire::MacAddress;
use onbeat_wire::hsr::MAX_LSDU_SIZE;

use super::assembly::Node;
use super::clock::monotonic_ns;
use super::devices::Devices;
use super::error::{Error, Result};
use super::events::EventSubject;
use super::setup::names;
use crate::config::{Backend, Config, LinkConfig, Mode as WantedMode, PortConfig, TRAILER};
use crate::control::{EventDetail, LanStatus, NodesStatus};
use crate::doctor::version_of;

/// The longest frames of the host whose LSDU size a trailer can state: 4,095 octets with the trailer.
pub(crate) const MAX_MTU: u32 = MAX_LSDU_SIZE as u32 - TRAILER;

/// Interval of reading the tables for events.
const OBSERVATION: Duration = Duration::from_secs(1);

/// Supervision of the LANs, and events.
#[derive(Debug)]
pub(super) struct PrpUpkeep {
    supervision_at: Instant,
    observation_at: Instant,
    observer: Observer,
    /// By wildcard.
    pub(super) observers: BTreeMap<String, Observer>,
}

impl PrpUpkeep {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            supervision_at: now,
            observation_at: now,
            observer: Observer::default(),
            observers: BTreeMap::new(),
        }
    }
}

/// Sets the MTU of the host's interface, of a PRP node or of wildcards, if the node makes it and the file has none: a frame
/// with its trailer or R-TAG fits into the MTU of both networks. Sets its address, that of the file or the same one at each start
/// with the same interfaces. Checks the MTUs of other interfaces. A missing interface is not checked, and changes no interface that exists.
///
/// # Errors
/// The MTU of a network is too small.
pub(super) fn fit_hosts(handle: &Handle, config: &mut Config) -> Result<()> {
    if let Some(prp) = &config.prp {
        let (host, paths, name) = (prp.host, [prp.a, prp.b], config.node.name.clone());
        fit_host(handle, config, host, &paths, &name, MAX_MTU)?;
    }
    let mut hosts: BTreeMap<PortId, Vec<PortId>> = BTreeMap::new();
    for wildcard in &config.wildcards {
        hosts.entry(wildcard.link.host).or_default().extend([wildcard.link.a, wildcard.link.b]);
    }
    for (host, paths) in hosts {
        // Several host ports can have the same paths.
        let name = config.port(host).interface.clone();
        fit_host(handle, config, host, &paths, &name, u32::MAX)?;
    }
    Ok(())
}

/// Fits a host port into its paths. `name` distinguishes the addresses of hosts with the same paths.
fn fit_host(
    handle: &Handle,
    config: &mut Config,
    host: PortId,
    paths: &[PortId],
    name: &str,
    most: u32,
) -> Result<()> {
    let link = |port: PortId| handle.link(&config.port(port).attached_interface()).ok();
    let mtu = |port: PortId| config.port(port).mtu.or_else(|| Some(link(port)?.mtu));
    let address = |port: PortId| link(port).and_then(|link| link.mac);
    let rooms = paths.iter().filter_map(|port| Some((mtu(*port)?, *port)));
    let Some((room, narrow)) = rooms.min() else { return Ok(()) };
    let is_missing = paths.iter().any(|port| link(*port).is_none());
    let existing = link(host).filter(|_| config.port(host).create.is_some());
    // That of a pair that exists stays, also if a path was missing when it was made.
    let own = existing.is_some().then(|| handle.link(&config.port(host).interface).ok()?.mac);
    let made = existing.filter(|_| is_missing);
    let of_paths = || {
        let [a, b] = [paths[0], paths[1]].map(address);
        // Without any, hosts with nodes of the same name would get the same one.
        a.or(b)?;
        Some(host_address(name, a.unwrap_or_default(), b.unwrap_or_default()))
    };
    let mac = own.flatten().or_else(of_paths);
    let host_mtu = mtu(host);
    let host = usize::from(host.0);
    config.ports[host].mac = config.ports[host].mac.or(mac);
    if config.ports[host].create.is_some() && config.ports[host].mtu.is_none() {
        let most = made.map_or(most, |made| made.mtu.min(most));
        config.ports[host].mtu = Some(room.saturating_sub(TRAILER).min(most));
        return Ok(());
    }
    let Some(host_mtu) = host_mtu else { return Ok(()) };
    if host_mtu > most {
        let port = config.ports[host].name.clone();
        return Err(Error::LongFrames { port, mtu: host_mtu, most });
    }
    let needed = host_mtu + TRAILER;
    if room >= needed {
        return Ok(());
    }
    Err(Error::NarrowLan {
        port: config.port(narrow).name.clone(),
        interface: config.port(narrow).attached_interface(),
        host: config.ports[host].name.clone(),
        room,
        needed,
    })
}

/// Returns the address of the host's interface: locally administered, and different where a LAN's interface or the name
/// of the node is.
fn host_address(node: &str, a: MacAddress, b: MacAddress) -> MacAddress {
    // Exchanged names of interfaces are a remedy for crossed cables: peers keep the address.
    let [first, second] = if a < b { [a, b] } else { [b, a] };
    // FNV-1a: the same in every version, unlike the hashers of the standard library.
    let octets = node.bytes().chain(first.0).chain(second.0);
    let hash = octets.fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    let [first, second, third, fourth, fifth, sixth, ..] = hash.to_be_bytes();
    MacAddress([first & 0xfc | 2, second, third, fourth, fifth, sixth])
}

/// Returns the LAN that an event concerns.
pub(super) fn lan_of(event: &PrpEvent) -> Option<Lan> {
    match *event {
        PrpEvent::LanLost(_, lan)
        | PrpEvent::LanRestored(_, lan)
        | PrpEvent::WrongLan(_, lan)
        | PrpEvent::WrongLanEnded(_, lan)
        | PrpEvent::LanLoses(_, lan, ..)
        | PrpEvent::TrailersRemoved(_, lan)
        | PrpEvent::OtherProtocol(lan, _)
        | PrpEvent::InvalidFrames(lan)
        | PrpEvent::SupervisionFlood(lan)
        | PrpEvent::OwnFramesReturn(lan, _) => Some(lan),
        PrpEvent::NodeAppeared(..)
        | PrpEvent::NodeGone(_)
        | PrpEvent::FurtherNodes(_)
        | PrpEvent::HostPortBlocked(_)
        | PrpEvent::HostPortForwards
        | PrpEvent::TableFull
        | PrpEvent::ProxiesFull => None,
    }
}

/// Returns the contributions of an entity to the counters of its ports.
pub(super) fn shares(
    link: &LinkConfig,
    reading: &Reading,
) -> impl Iterator<Item = (PortId, PortCounters)> + use<> {
    let sent = reading.host.numbered + reading.supervised;
    let delivered = reading.lans.iter().map(|counters| counters.accepted + counters.untagged).sum();
    let [a, b] = reading.lans.map(|counters| PortCounters {
        input_packets: counters.received,
        output_packets: sent,
        passed: counters.accepted,
        discard: counters.duplicates,
    });
    let host = PortCounters {
        input_packets: reading.host.received,
        output_packets: delivered,
        ..PortCounters::default()
    };
    [(link.a, a), (link.b, b), (link.host, host)].into_iter()
}

/// Returns the data plane of a redundant interface over these interfaces: XDP if all their drivers receive and send by native programs.
/// Frames of virtual interfaces can have checksums that were left to hardware, which packet sockets complete.
///
/// # Errors
/// The kernel does not report the abilities of a driver.
pub(crate) fn backend<'a>(
    mut interfaces: impl Iterator<Item = &'a str>,
    is_prp: bool,
) -> Result<Backend> {
    // With PRP, programs at the tc ingress share broadcasts with the interfaces' own stacks.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if is_prp && version_of(&kernel).is_none_or(|version| version < (6, 6)) {
        return Ok(Backend::Packet);
    }
    let devices = Devices::open("")?;
    let is_native = interfaces.try_fold(true, |others, interface| {
        let ability = devices.ability(interface)?;
        let is_virtual = ["veth", "tun"].contains(&ability.driver.as_str());
        let is_native = ability.programs && ability.redirect && !is_virtual;
        Ok::<_, Error>(others && is_native)
    });
    Ok(if is_native? { Backend::Xdp } else { Backend::Packet })
}

impl Node {
    /// Sets the entity's parameters by the present addresses of the interfaces. An interface that is missing keeps its
    /// former address.
    pub(super) fn set_lre(&mut self, ports: &[PortConfig], prp: Option<&LinkConfig>) -> Result<()> {
        let lre = prp.map(|prp| self.parameters(ports, prp, self.lre.as_ref()));
        let are_other_ports = names(ports) != names(&self.setup.ports);
        // An earlier process may have left an entity.
        if lre.is_none() || are_other_ports || lre != self.lre {
            // After a failure the former one is set again.
            self.lre = None;
            prp.map_or(Ok(()), |prp| self.refuse_generic_veth(ports, prp))?;
            self.plane.set_lre(&names(ports), lre.as_ref())?;
            self.lre = lre;
        }
        Ok(())
    }

    /// Refuses a LAN over a veth in generic mode, unless its port requests that mode: the kernel's generic XDP skips frames
    /// that a program of the same machine redirected, as the other end's copies are in generic mode.
    pub(super) fn refuse_generic_veth(&self, ports: &[PortConfig], prp: &LinkConfig) -> Result<()> {
        let attached = self.plane.ports();
        for port in [prp.a, prp.b].map(|port| &ports[usize::from(port.0)]) {
            let is_generic = |attached: &AttachedPort| {
                attached.name == port.name && attached.attachment == Attachment::Xdp(Mode::Generic)
            };
            let interface = port.attached_interface();
            let is_veth = self.devices.ability(&interface).is_ok_and(|of| of.driver == "veth");
            let is_requested = port.mode == WantedMode::Generic;
            if is_veth && !is_requested && attached.iter().any(is_generic) {
                return Err(Error::GenericVethLan { port: port.name.clone(), interface });
            }
        }
        Ok(())
    }

    /// Follows addresses of interfaces.
    pub(super) fn update_lre(&mut self) {
        let (ports, prp) = (self.setup.ports.clone(), self.setup.prp.clone());
        if prp.is_some() {
            self.set_lre(&ports, prp.as_ref()).unwrap_or_else(|error| tracing::error!("{error}"));
        }
    }

    /// Returns parameters by the present addresses of the interfaces, or those `before`.
    pub(super) fn parameters(
        &self,
        ports: &[PortConfig],
        prp: &LinkConfig,
        before: Option<&Parameters>,
    ) -> Parameters {
        let mac = |interface: &str| self.devices.handle.link(interface).ok()?.mac;
        let of = |port: PortId| &ports[usize::from(port.0)];
        let lan = |port: PortId, before: Option<MacAddress>| LanPort {
            port,
            mac: mac(&of(port).attached_interface()).or(before).unwrap_or_default(),
        };
        let host = of(prp.host);
        Parameters {
            a: lan(prp.a, before.map(|before| before.a.mac)),
            b: lan(prp.b, before.map(|before| before.b.mac)),
            host: prp.host,
            // The end that the host uses.
            mac: mac(&host.interface).or(before.map(|before| before.mac)).unwrap_or_default(),
            is_segment: host.create.is_none(),
            entry_forget_ms: prp.entry_forget_ms,
            node_forget_ms: prp.node_forget_ms,
            max_nodes: prp.max_nodes,
        }
    }

    /// When [`Node::supervise`] is due.
    pub(super) fn next_supervision(&self) -> Option<Instant> {
        let upkeep = &self.upkeep.prp;
        self.has_tables().then(|| upkeep.supervision_at.min(upkeep.observation_at))
    }

    /// Whether the node has tables of nodes.
    fn has_tables(&self) -> bool {
        self.lre.is_some() || !self.wildcards.is_empty()
    }

    /// Sends supervision frames, removes expired entries and records events, if that is due.
    pub(super) fn supervise(&mut self, now: Instant) {
        if !self.has_tables() {
            return;
        }
        if self.upkeep.prp.supervision_at <= now {
            let next_ms = match self.plane.supervise() {
                Ok(next_ms) => next_ms.unwrap_or(onbeat_frer::prp::LIFE_CHECK_MS),
                Err(error) => {
                    tracing::error!("supervision: {error}");
                    onbeat_frer::prp::LIFE_CHECK_MS
                }
            };
            self.upkeep.prp.supervision_at = now + Duration::from_millis(next_ms.into());
        }
        if self.upkeep.prp.observation_at <= now {
            self.upkeep.prp.observation_at = now + OBSERVATION;
            match self.plane.read_lre() {
                Ok(Some(reading)) => self.observe(&reading),
                Ok(None) => {}
                Err(error) => tracing::error!("{error}"),
            }
            self.observe_wildcards();
        }
    }

    fn observe(&mut self, reading: &Reading) {
        for event in self.upkeep.prp.observer.observe(monotonic_ns(), reading) {
            let lan = lan_of(&event);
            let port = self.setup.ports.iter().find(|port| lan.is_some() && port.lan == lan);
            let port = port.map(|port| port.name.clone());
            let subject = EventSubject { port: port.as_deref(), ..EventSubject::default() };
            self.events.record(&subject, EventDetail::of_prp(event));
        }
    }

    /// Adds the frames of a PRP node to the sums by port.
    pub(super) fn add_redundant(&self, sums: &mut [PortCounters]) -> Result<()> {
        let (Some(prp), Some(reading)) = (&self.setup.prp, self.plane.read_lre()?) else {
            return Ok(());
        };
        shares(prp, &reading).for_each(|(port, share)| sums[usize::from(port.0)] += share);
        Ok(())
    }

    /// The NodesTable, the ProxyNodeTable and the counters; `None`: not a PRP node.
    pub(super) fn nodes(&self) -> Result<Option<NodesStatus>> {
        let (Some(prp), Some(reading)) = (&self.setup.prp, self.plane.read_lre()?) else {
            return Ok(None);
        };
        let port = |port: PortId| self.setup.port(port).name.clone();
        let lans = [prp.a, prp.b].into_iter().zip(reading.lans);
        let lans = lans.map(|(lan, counters)| LanStatus { port: port(lan), counters });
        Ok(Some(NodesStatus::new(
            monotonic_ns(),
            &self.setup.node.name,
            lans.collect(),
            port(prp.host),
            &reading,
        )))
    }
}

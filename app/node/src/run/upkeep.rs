//! Polling of port states that cause no link event: programs that other processes detach, and peers
//! that cannot receive frames or leave checksums unfinished.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use onbeat_frer::dataplane::{AttachedPort, Attachment};
use onbeat_netdev::{Link, VethPeer};

use super::assembly::Node;
use super::attach::EgressPorts;
use super::error::Result;
use super::events::EventSubject;
use super::losses::LossMonitor;
use super::output::OutputAccounts;
use super::peers::PeerCache;
use super::port;
use super::prp::PrpUpkeep;
use super::ptp::PtpMonitor;
use super::udev;
use crate::config::{Backend, NodeConfig, PortConfig};
use crate::control::{EventDetail, LinkState};

/// Interval of reading peers while something is wrong with one; a reading is valid for as long.
const PEER_INTERVAL: Duration = Duration::from_secs(2);

/// First delay before a program that was detached repeatedly is attached again; it doubles each time.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(64);

/// A program that ran for this time is attached again at once.
const QUIET: Duration = Duration::from_secs(120);

/// Port states from polling.
#[derive(Debug)]
pub(super) struct Upkeep {
    programs_at: Instant,
    peers_at: Instant,
    abilities_at: Instant,
    detached: BTreeMap<String, DetachedProgram>,
    pub(super) peers: PeerCache,
    /// By port: why checksums of received frames are, or may be, unfinished.
    checksums: BTreeMap<String, UnfinishedChecksums>,
    /// By port: index and number of receive queues of the interface that the program was attached to.
    pub(super) queues: BTreeMap<String, (u32, u32)>,
    /// Why receive queues of ports, and their interfaces, could not be followed.
    queue_failures: Failures,
    pub(super) follow_failures: Failures,
    /// Ports whose interface udev has yet to name, and when to read that.
    unnamed: BTreeSet<String>,
    unnamed_at: Instant,
    pub(super) losses: LossMonitor,
    pub(super) output: OutputAccounts,
    pub(super) prp: PrpUpkeep,
    pub(super) ptp: PtpMonitor,
}

/// The program of a port that another process detached, at least once.
#[derive(Debug)]
struct DetachedProgram {
    /// When to attach it next; `None`: it runs.
    retry_at: Option<Instant>,
    attached_at: Instant,
    delay: Duration,
    /// Why it could not be attached.
    why: Option<String>,
}

/// Time after which the same failure of a port is logged again.
const FAILURE_INTERVAL: Duration = Duration::from_secs(60);

/// The last failure of each port, and when it was logged.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<String, (String, Instant)>);

impl Failures {
    /// Logs a failure; the same one of a port once a minute at most: an interface may change many times per second.
    pub(super) fn log(&mut self, port: &str, failure: Option<&String>) {
        let Some(why) = failure else { return };
        let now = Instant::now();
        let is_known =
            |(before, at): &(String, Instant)| before == why && now - *at < FAILURE_INTERVAL;
        if !self.0.get(port).is_some_and(is_known) {
            tracing::error!("{why}");
            self.0.insert(port.to_owned(), (why.clone(), now));
        }
    }
}

/// A peer whose checksums are, or may be, unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnfinishedChecksums {
    /// Whether that was read from the peer.
    known: bool,
    why: String,
}

impl Upkeep {
    /// Creates the states of a node.
    pub(super) fn new(now: Instant, node: &NodeConfig) -> Self {
        Self {
            programs_at: now,
            peers_at: now,
            abilities_at: now + PEER_INTERVAL,
            detached: BTreeMap::new(),
            peers: PeerCache::default(),
            checksums: BTreeMap::new(),
            queues: BTreeMap::new(),
            queue_failures: Failures::default(),
            follow_failures: Failures::default(),
            unnamed: BTreeSet::new(),
            unnamed_at: now,
            losses: LossMonitor::new(now),
            output: OutputAccounts::new(now),
            prp: PrpUpkeep::new(now),
            ptp: PtpMonitor::new(now, node),
        }
    }

    /// Why checksums of frames that a port receives are, or may be, unfinished, and the remedy.
    pub(super) fn unfinished_checksums(&self, port: &str) -> Option<&str> {
        self.checksums.get(port).map(|checksums| checksums.why.as_str())
    }

    /// Why a port whose interface exists is not attached.
    pub(super) fn not_attached(&self, port: &str) -> Option<&str> {
        let detached = self.detached.get(port).filter(|detached| detached.retry_at.is_some());
        detached?.why.as_deref()
    }

    /// Sets whether udev has yet to name the interface of a port.
    pub(super) fn note_unnamed(&mut self, port: &str, is_unnamed: bool) {
        if is_unnamed {
            self.unnamed.insert(port.to_owned());
            self.unnamed_at = Instant::now() + udev::INTERVAL;
        } else {
            self.unnamed.remove(port);
        }
    }

    pub(super) fn is_unnamed(&self, port: &str) -> bool {
        self.unnamed.contains(port)
    }

    /// Removes the states of other ports.
    pub(super) fn retain_ports(&mut self, is_port: impl Fn(&String) -> bool) {
        self.detached.retain(|port, _| is_port(port));
        self.checksums.retain(|port, _| is_port(port));
        self.queues.retain(|port, _| is_port(port));
        self.queue_failures.0.retain(|port, _| is_port(port));
        self.follow_failures.0.retain(|port, _| is_port(port));
        self.unnamed.retain(&is_port);
        self.losses.retain_ports(&is_port);
        self.output.retain_ports(is_port);
    }
}

impl DetachedProgram {
    fn new(now: Instant) -> Self {
        Self { retry_at: None, attached_at: now, delay: Duration::ZERO, why: None }
    }

    /// Records that the program was detached, or could not be attached. Returns the delay of the next attempt.
    fn fail(&mut self, now: Instant) -> Duration {
        let delay = if self.is_quiet(now) { Duration::ZERO } else { self.delay };
        self.delay = (2 * delay).clamp(FIRST_DELAY, LONGEST_DELAY);
        self.retry_at = Some(now + delay);
        delay
    }

    /// Whether the program ran long enough to reset the delay.
    fn is_quiet(&self, now: Instant) -> bool {
        self.retry_at.is_none() && now.duration_since(self.attached_at) >= QUIET
    }
}

impl Node {
    /// When [`Node::upkeep`] is due.
    pub(super) fn next_upkeep(&self) -> Option<Instant> {
        let programs = self.has_attachments_to_poll().then_some(self.upkeep.programs_at);
        let output = self.accounts_output().then(|| self.upkeep.output.due());
        let abilities = self.plane.is_in_kernel().then_some(self.upkeep.abilities_at);
        let output = output.into_iter().chain(abilities);
        let losses = self.upkeep.losses.due();
        let supervision = self.next_supervision();
        let peers = self.next_peers().into_iter().chain(supervision);
        let unnamed = (!self.upkeep.unnamed.is_empty()).then_some(self.upkeep.unnamed_at);
        let peers = peers.chain(unnamed);
        let always = [losses, self.upkeep.ptp.due()];
        programs.into_iter().chain(peers).chain(output).chain(always).min()
    }

    /// When peers are due to be read: soon where one is known to lose frames or to leave checksums
    /// unfinished, else when one is due by itself.
    fn next_peers(&self) -> Option<Instant> {
        let mut checksums = self.upkeep.checksums.values();
        if !self.frames_lost.is_empty() || checksums.any(|checksums| checksums.known) {
            return Some(self.upkeep.peers_at);
        }
        self.upkeep.peers.next_due().map(|due| due.max(self.upkeep.peers_at))
    }

    /// Performs polls that are due.
    pub(super) fn upkeep(&mut self, now: Instant) {
        if self.upkeep.unnamed_at <= now {
            self.read_unnamed();
        }
        if self.has_attachments_to_poll() && self.upkeep.programs_at <= now {
            self.upkeep.programs_at = now + self.setup.node.events.interval;
            self.attach_detached(now);
            self.read_queues();
        }
        if self.next_peers().is_some_and(|due| due <= now) {
            self.read_peers();
        }
        if self.plane.is_in_kernel() && self.upkeep.abilities_at <= now {
            self.read_abilities(now);
        }
        self.account_output(Some(now)).unwrap_or_else(|error| tracing::error!("{error}"));
        if self.upkeep.losses.due() <= now {
            self.read_losses(now);
        }
        self.supervise(now);
        self.upkeep.ptp.poll(now);
    }

    /// Whether a port has a program, which another process can detach, or is not attached.
    fn has_attachments_to_poll(&self) -> bool {
        let ports = &self.setup.ports;
        let has_programs = ports.iter().any(|port| port.backend != Backend::Packet);
        has_programs || ports.iter().any(|port| !self.plane.runs(&port.name))
    }

    /// Reads the peers, unless the last reading is still valid.
    pub(super) fn refresh_peers(&mut self) {
        if self.upkeep.peers_at <= Instant::now() {
            self.read_peers();
        }
    }

    /// Reads whether peers can receive frames and leave checksums unfinished.
    pub(super) fn read_peers(&mut self) {
        let now = Instant::now();
        self.upkeep.peers_at = now + PEER_INTERVAL;
        let layout = self.setup.layout();
        self.find_peers(&layout.ports, now);
        if !self.frames_lost.is_empty() {
            self.report_frame_loss(&layout, EgressPorts::WithCarrier)
                .unwrap_or_else(|error| tracing::error!("{error}"));
        }
        self.read_checksums();
    }

    /// Reads whether drivers transmit frames of native programs: reports ports that lose frames, and attaches those
    /// natively that can run so by now.
    fn read_abilities(&mut self, now: Instant) {
        self.upkeep.abilities_at = now + PEER_INTERVAL;
        let layout = self.setup.layout();
        let attached = self.attach_natively(&layout);
        let reported = self.report_frame_loss(&layout, EgressPorts::WithCarrier);
        attached.and(reported).unwrap_or_else(|error| tracing::error!("{error}"));
    }

    /// Follows the numbers of receive queues of all ports.
    fn read_queues(&mut self) {
        for attached in self.plane.ports() {
            let failure = self.read_queues_of(&attached).err().map(|error| error.to_string());
            self.upkeep.queue_failures.log(&attached.name, failure.as_ref());
        }
    }

    /// Reads whether the interface of a port has another number of receive queues than when it was attached. Programs that
    /// assume a single one do not depend on this being known at once; a queue without a program or socket loses frames.
    fn read_queues_of(&mut self, attached: &AttachedPort) -> Result<()> {
        let port = self.setup.ports.iter().find(|port| port.name == attached.name);
        let mode = match attached.attachment {
            Attachment::Xdp(mode) | Attachment::Xsk { mode, .. } => Some(mode),
            Attachment::Packet => None,
        };
        let (Some(port), Some(mode)) = (port, mode) else { return Ok(()) };
        // Without its interface a port has other problems, which are reported as such.
        let Ok(link) = self.devices.handle.link(&port.attached_interface()) else { return Ok(()) };
        if link.index != attached.ifindex {
            return Ok(());
        }
        let count = self.devices.ethtool.receive_queues(&link);
        if self.upkeep.queues.get(&attached.name) == Some(&(link.index, count)) {
            return Ok(());
        }
        let queues = self.devices.receive_queues(&link, mode);
        let spec = port::spec(port, &link, mode, queues);
        self.plane.follow_queues(&spec)?;
        self.plane.set_up(&spec.name, link.up)?;
        self.upkeep.queues.insert(spec.name, (link.index, count));
        Ok(())
    }

    /// Reads the other ends of these ports' veth pairs.
    pub(super) fn find_peers(&mut self, ports: &[PortConfig], now: Instant) {
        let handle = &self.devices.handle;
        // Without its interface a port has other problems, which are reported as such.
        let link = |port: &PortConfig| handle.link(&port.attached_interface()).ok();
        let links: Vec<(&str, Link)> =
            ports.iter().filter_map(|port| Some((port.name.as_str(), link(port)?))).collect();
        self.upkeep.peers.read(handle, now, &links);
    }

    /// Ports that receive frames which no other node has forwarded yet.
    fn ingress_ports(&self) -> BTreeSet<usize> {
        let streams = self.setup.streams.iter().filter(|stream| stream.recover.is_none());
        let of_streams = streams.flat_map(|stream| &stream.members).map(|member| member.port);
        // Programs add a number to frames of hosts, whose checksums must be complete.
        let hosts = self.setup.links().map(|link| link.host);
        of_streams.chain(hosts).map(|port| port.0.into()).collect()
    }

    fn read_checksums(&mut self) {
        let mut checksums = BTreeMap::new();
        for index in self.ingress_ports() {
            let port = &self.setup.ports[index];
            // Packet sockets complete them.
            let peer =
                (port.backend != Backend::Packet).then(|| self.upkeep.peers.peer(&port.name));
            let peer = peer.flatten();
            let peer = peer.and_then(|peer| unfinished(&port.attached_interface(), peer));
            checksums.extend(peer.map(|peer| (port.name.clone(), peer)));
        }
        let before = std::mem::replace(&mut self.upkeep.checksums, checksums);
        let known = |all: &BTreeMap<String, UnfinishedChecksums>, port: &str| {
            all.get(port).filter(|checksums| checksums.known).map(|checksums| checksums.why.clone())
        };
        for port in &self.setup.ports {
            let why = known(&self.upkeep.checksums, &port.name);
            if why != known(&before, &port.name) {
                let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
                self.events.record(&subject, EventDetail::UnfinishedChecksums { why });
            }
            let unknown = self.upkeep.checksums.get(&port.name).filter(|now| !now.known);
            if let Some(unknown) = unknown.filter(|now| before.get(&port.name) != Some(*now)) {
                tracing::info!("port {:?}: {}", port.name, unknown.why);
            }
        }
    }

    /// Attaches programs that another process detached.
    fn attach_detached(&mut self, now: Instant) {
        self.upkeep.detached.retain(|_, detached| !detached.is_quiet(now));
        for index in 0..self.setup.ports.len() {
            let name = self.setup.ports[index].name.clone();
            if !self.plane.runs(&name) && self.is_there(index) {
                let detached = self.upkeep.detached.entry(name.clone());
                let detached = detached.or_insert_with(|| DetachedProgram::new(now));
                if detached.retry_at.is_none() {
                    let retry_s = detached.fail(now).as_secs();
                    // A reserved one was reported when it could not be attached.
                    if self.attached_index(&name).is_some() {
                        self.report_detached(index, None, retry_s);
                    }
                }
                if self.upkeep.detached[&name].retry_at.is_some_and(|retry_at| retry_at <= now) {
                    self.attach_again(index, now);
                }
            }
            // Attached here or by a reload.
            if self.plane.runs(&name) {
                self.note_running(index, now);
            }
        }
    }

    fn note_running(&mut self, index: usize, now: Instant) {
        let port = &self.setup.ports[index];
        let Some(detached) = self.upkeep.detached.get_mut(&port.name) else { return };
        if detached.retry_at.is_some() {
            (detached.retry_at, detached.attached_at, detached.why) = (None, now, None);
            let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
            let interface = port.attached_interface();
            self.events.record(&subject, EventDetail::ProgramAttached { interface });
        }
    }

    /// Whether a port's interface is the one that its program was attached to, or one that appeared and could not be attached.
    fn is_there(&self, index: usize) -> bool {
        let port = &self.setup.ports[index];
        let is_known = !self.ports_with(LinkState::Missing).contains(&port.name.as_str());
        let Ok(link) = self.devices.handle.link(&port.attached_interface()) else { return false };
        let Some(attached) = self.attached_index(&port.name) else { return is_known };
        // Or a new one, which could not be attached when it appeared.
        attached == link.index
            || self.devices.handle.link_by_index(attached).is_err_and(|error| error.is_not_found())
    }

    /// The index of the interface to which a port is attached, or was until another process detached it.
    fn attached_index(&self, name: &str) -> Option<u32> {
        let known = self.plane.ports().into_iter().find(|known| known.name == name);
        known.map(|known| known.ifindex)
    }

    fn attach_again(&mut self, index: usize, now: Instant) {
        let Err(error) = self.attach_port(index) else { return };
        let name = &self.setup.ports[index].name;
        let Some(detached) = self.upkeep.detached.get_mut(name) else { return };
        let why = error.to_string();
        let retry_s = detached.fail(now).as_secs();
        // Once, and not at every attempt.
        if detached.why.replace(why.clone()).as_ref() != Some(&why) {
            self.report_detached(index, Some(why), retry_s);
        }
    }

    fn report_detached(&mut self, index: usize, why: Option<String>, retry_s: u64) {
        let port = &self.setup.ports[index];
        let subject = EventSubject { port: Some(&port.name), ..EventSubject::default() };
        let interface = port.attached_interface();
        self.events.record(&subject, EventDetail::ProgramDetached { interface, why, retry_s });
    }
}

/// Why checksums of a peer are, or may be, unfinished.
fn unfinished(interface: &str, peer: &VethPeer) -> Option<UnfinishedChecksums> {
    let leaves = "offloads checksums of TCP and UDP, which frames of streams then lack";
    let of = |known, why| Some(UnfinishedChecksums { known, why });
    match (peer.checksum_offload(), peer.finish_checksums()) {
        (Some(false), _) => None,
        (Some(true), Some(command)) => {
            of(true, format!("the other end of {interface} {leaves}; run: {command}"))
        }
        _ => of(
            false,
            format!(
                "it is unknown whether the other end of {interface} (interface {} of a namespace \
                 that was not found) {leaves}; make sure in its namespace: ethtool -K PEER tx off",
                peer.index
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_zero_then_doubles_until_the_program_stays() {
        let mut now = Instant::now();
        let mut detached = DetachedProgram::new(now);
        let mut delays = Vec::new();
        for _ in 0..9 {
            let delay = detached.fail(now);
            delays.push(delay.as_secs());
            now += delay;
            (detached.retry_at, detached.attached_at) = (None, now);
        }
        assert_eq!(delays, [0, 1, 2, 4, 8, 16, 32, 64, 64]);
        now += QUIET;
        assert_eq!(detached.fail(now).as_secs(), 0, "it ran for long");
        assert_eq!(detached.fail(now).as_secs(), 1, "it could not be attached");
        now += QUIET;
        assert_eq!(detached.fail(now).as_secs(), 2, "and still cannot");
    }
}

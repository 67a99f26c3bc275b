//! PRP (IEC 62439-3, clause 4): a link redundancy entity between a host and two LANs.
//!
//! ```text
//!   host port ──► number, trailer ──► copy on LAN A, copy on LAN B
//!
//!   LAN A, LAN B ──► own? ──► supervision? ──► trailer? ──► first copy? ──► without trailer to the host port
//!                     │           │               │             │
//!                  discard   NodesTable     whole to the     discard
//!                                             host port
//! ```
//!
//! The entity is no bridge: nothing that a LAN sends reaches the other LAN. What belongs to the interface of a LAN itself
//! is left to its network stack ([`Outcome::Pass`]): link-local protocols, and frames to its own address.
//!
//! A station without redundancy receives both copies, on whichever LAN it is, and ignores the trailer as padding. The
//! entity never sends a frame on one LAN only: a node that was taken for a singly attached one by mistake would lose
//! its redundancy.
//!
//! What the text of the standard does not settle is marked in docs/reference/clauses.md.

mod discard;
mod nodes;
mod proxies;
mod reading;
mod supervisor;
mod watch;

use alloc::vec::Vec;

pub use onbeat_wire::prp::Lan;
use onbeat_wire::prp::supervision;
use onbeat_wire::prp::{self, Tail};
use onbeat_wire::{EtherType, Frame, MacAddress};

pub use nodes::{LanRecord, NodeKind, NodeReading, Nodes, Supervision};
pub use proxies::ProxyReading;
pub use reading::{HostCounters, LanCounters, Reading};
pub use supervisor::Supervisor;
pub use watch::{Observer, PrpEvent};

use crate::spec::PortId;
use discard::ReceivedNumbers;
use proxies::Proxies;

/// LifeCheckInterval: period of supervision frames, in milliseconds.
pub const LIFE_CHECK_MS: u32 = 2000;

/// Default of NodeForgetTime and ProxyNodeTableForgetTime, in milliseconds.
pub const NODE_FORGET_MS: u32 = 60_000;

/// Default of EntryForgetTime, in milliseconds.
pub const ENTRY_FORGET_MS: u32 = 400;

/// Default number of entries of the NodesTable.
pub const MAX_NODES: u16 = 512;

/// NodeRebootInterval, in milliseconds: exceeds the default of EntryForgetTime, which receivers may have.
const NODE_REBOOT_MS: u32 = 500;

/// NodeRebootInterval exceeds EntryForgetTime by this time at least, in milliseconds.
const REBOOT_MARGIN_MS: u32 = 100;

const NS_PER_MS: u64 = 1_000_000;

/// A node that sends supervision frames and is not heard for this time is absent: two periods and a margin.
const ABSENCE_NS: u64 = 2 * (LIFE_CHECK_MS as u64 + LIFE_CHECK_MS as u64 / 4) * NS_PER_MS;

/// Parameters of a link redundancy entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The port of LAN A and the address of its interface.
    pub a: LanPort,
    /// The port of LAN B and the address of its interface.
    pub b: LanPort,
    /// The port towards the host, or towards the stations that a RedBox protects.
    pub host: PortId,
    /// The address of the node itself: source of its supervision frames.
    pub mac: MacAddress,
    /// Whether stations behind the host port also hear each other, as on a switch: their frames to each other then
    /// stay there.
    pub is_segment: bool,
    /// EntryForgetTime, in milliseconds: the longest time for which a number discards.
    pub entry_forget_ms: u32,
    /// NodeForgetTime, in milliseconds.
    pub node_forget_ms: u32,
    /// Entries of the NodesTable, and of the ProxyNodeTable.
    pub max_nodes: u16,
}

impl Parameters {
    /// Returns NodeRebootInterval, in nanoseconds: the silence after a start.
    #[must_use]
    pub fn reboot_silence_ns(&self) -> u64 {
        let silence_ms = self.entry_forget_ms.saturating_add(REBOOT_MARGIN_MS);
        u64::from(silence_ms.max(NODE_REBOOT_MS)) * NS_PER_MS
    }
}

/// A port of a LAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanPort {
    /// The port.
    pub port: PortId,
    /// The address of its interface: frames to it are those of its own network stack.
    pub mac: MacAddress,
}

/// Returns the index of a LAN in pairs of both.
pub(crate) const fn lan_index(lan: Lan) -> usize {
    match lan {
        Lan::A => 0,
        Lan::B => 1,
    }
}

/// The result of processing a frame.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The frame is not for the entity, but for the network stack of its interface.
    Pass,
    /// The frame is discarded, or has been processed.
    Discard,
    /// Copies are sent.
    Send(Copies<'a>),
}

/// A copy of a frame to send: octets of the received frame, and octets after them.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// The sending port.
    pub port: PortId,
    /// The frame, without its trailer.
    pub octets: &'a [u8],
    /// Padding and trailer; `None`: without a trailer.
    pub tail: Option<Tail>,
}

impl Copy<'_> {
    /// Returns the octets after those of the received frame.
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        self.tail.as_ref().map_or(&[], Tail::as_slice)
    }
}

/// The copies of a frame, at most two.
#[derive(Debug, Clone)]
pub struct Copies<'a> {
    copies: [Option<Copy<'a>>; 2],
}

impl<'a> Iterator for Copies<'a> {
    type Item = Copy<'a>;

    fn next(&mut self) -> Option<Copy<'a>> {
        let [first, second] = &mut self.copies;
        first.take().or_else(|| second.take())
    }
}

/// Numbers drawn by this node, to recognize its own frames that return.
#[derive(Debug, Clone, Copy, Default)]
struct Drawn {
    total: u64,
    /// The period of the last number, the total at its start and at the start of the one before.
    period: u32,
    at_start: u64,
    at_start_before: u64,
}

impl Drawn {
    /// Returns the number of the next frame.
    fn next(&self) -> u16 {
        self.total as u16
    }

    /// Draws the number of a frame.
    fn draw(&mut self, period: u32) {
        match period.wrapping_sub(self.period) as i32 {
            // Arrival times of ports are not in order.
            -1 => return self.total += 1,
            0 => {}
            1 => (self.at_start_before, self.at_start) = (self.at_start, self.total),
            _ => (self.at_start_before, self.at_start) = (self.total, self.total),
        }
        self.period = period;
        self.total += 1;
    }

    /// Returns whether a number was drawn within the forget time.
    fn is_recent(&self, number: u16, period: u32) -> bool {
        let since = match period.wrapping_sub(self.period) as i32 {
            -1 | 0 => self.at_start_before,
            1 => self.at_start,
            _ => self.total,
        };
        let age = (self.total.wrapping_sub(1) as u16).wrapping_sub(number);
        u64::from(age) < self.total - since
    }
}

/// A link redundancy entity.
#[derive(Debug)]
pub struct Lre {
    parameters: Parameters,
    drawn: Drawn,
    /// No frame is sent before this time: receivers still remember the numbers of a former process.
    silent_until_ns: u64,
    supervisor: Supervisor,
    nodes: Nodes<ReceivedNumbers>,
    proxies: Proxies,
    lans: [LanCounters; 2],
    host: HostCounters,
}

impl Lre {
    /// Starts an entity, which sends nothing for NodeRebootInterval.
    #[must_use]
    pub fn new(parameters: Parameters, now_ns: u64) -> Self {
        let silence = parameters.reboot_silence_ns();
        Self {
            nodes: Nodes::new(parameters.max_nodes.into()),
            parameters,
            drawn: Drawn::default(),
            silent_until_ns: now_ns.saturating_add(silence),
            supervisor: Supervisor::default(),
            proxies: Proxies::default(),
            lans: [LanCounters::default(); 2],
            host: HostCounters::default(),
        }
    }

    /// Changes parameters. Numbers, tables and counters continue.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        if parameters.entry_forget_ms != self.parameters.entry_forget_ms {
            // Periods of another length: what is remembered has no age any more.
            self.nodes.forget_numbers();
        }
        self.nodes.remove(parameters.mac);
        self.proxies.remove(parameters.mac);
        self.nodes.set_capacity(parameters.max_nodes.into());
        self.parameters = parameters;
    }

    /// Processes a frame received at `port`.
    pub fn frame<'a>(&mut self, port: PortId, now_ns: u64, octets: &'a [u8]) -> Outcome<'a> {
        let Parameters { a, b, host, .. } = self.parameters;
        let role = match port {
            port if port == a.port => Some(Lan::A),
            port if port == b.port => Some(Lan::B),
            port if port == host => None,
            _ => return Outcome::Pass,
        };
        let Ok(frame) = Frame::parse(octets) else {
            match role {
                Some(lan) => self.lans[lan_index(lan)].malformed += 1,
                None => self.host.malformed += 1,
            }
            return Outcome::Discard;
        };
        match role {
            Some(lan) => self.lan_frame(lan, now_ns, &frame),
            None => self.host_frame(now_ns, &frame),
        }
    }

    /// Numbers a frame of the host or of a station behind the host port.
    fn host_frame<'a>(&mut self, now_ns: u64, frame: &Frame<'a>) -> Outcome<'a> {
        let (source, destination) = (frame.source(), frame.destination());
        self.host.received += 1;
        if is_link_local(frame) {
            self.host.link_local += 1;
            return Outcome::Discard;
        }
        if source != self.parameters.mac && source.is_unicast() {
            self.proxies.heard(source, now_ns, self.parameters.max_nodes.into());
        }
        if self.parameters.is_segment && self.proxies.contains(destination) {
            self.host.local += 1;
            return Outcome::Discard;
        }
        if now_ns < self.silent_until_ns {
            self.host.silent += 1;
            return Outcome::Discard;
        }
        match self.copies(now_ns, frame) {
            Some(copies) => {
                self.host.numbered += 1;
                Outcome::Send(copies)
            }
            None => {
                self.host.too_long += 1;
                Outcome::Discard
            }
        }
    }

    /// Returns both copies of a frame with the next number; `None`: the frame is longer than a trailer can state.
    fn copies<'a>(&mut self, now_ns: u64, frame: &Frame<'a>) -> Option<Copies<'a>> {
        let octets = frame.octets();
        // A frame that cannot be sent draws no number.
        let mut tail = Tail::of(frame, self.drawn.next(), Lan::A)?;
        self.drawn.draw(self.period(now_ns));
        let Parameters { a, b, .. } = self.parameters;
        let first = Copy { port: a.port, octets, tail: Some(tail) };
        tail.set_lan(Lan::B);
        let second = Copy { port: b.port, octets, tail: Some(tail) };
        Some(Copies { copies: [Some(first), Some(second)] })
    }

    fn lan_frame<'a>(&mut self, lan: Lan, now_ns: u64, frame: &Frame<'a>) -> Outcome<'a> {
        let index = lan_index(lan);
        self.lans[index].received += 1;
        let interface = [self.parameters.a, self.parameters.b][index].mac;
        // The host may have the address of an interface, as on a radio that sends no other one.
        let to_interface = frame.destination() == interface && interface != self.parameters.mac;
        if is_link_local(frame) || to_interface {
            self.lans[index].passed += 1;
            return Outcome::Pass;
        }
        let trailer = frame.prp().ok();
        let source = frame.source();
        if self.is_own(source, trailer, now_ns) {
            self.lans[index].own += 1;
            if trailer.is_some_and(|trailer| trailer.lan != lan) {
                self.lans[index].own_of_other_lan += 1;
            }
            return Outcome::Discard;
        }
        // A station that moved here from behind the host port.
        self.proxies.remove(source);
        let is_supervision =
            supervision::is_destination(frame.destination()) && frame.ethertype() == EtherType::PRP;
        let is_wrong_lan = trailer.is_some_and(|trailer| trailer.lan != lan);
        let is_first = self.note(lan, now_ns, source, trailer);
        let counters = &mut self.lans[index];
        counters.wrong_lan += u64::from(is_wrong_lan);
        if is_supervision {
            self.supervision(lan, now_ns, frame);
            return Outcome::Discard;
        }
        let octets = match trailer {
            Some(_) if !is_first => {
                counters.duplicates += 1;
                return Outcome::Discard;
            }
            Some(_) => {
                counters.accepted += 1;
                &frame.octets()[..frame.octets().len() - prp::TRAILER_LEN]
            }
            None => {
                counters.untagged += 1;
                frame.octets()
            }
        };
        let copy = Copy { port: self.parameters.host, octets, tail: None };
        Outcome::Send(Copies { copies: [Some(copy), None] })
    }

    /// Notes a frame in the NodesTable; returns whether it is the first copy.
    fn note(
        &mut self,
        lan: Lan,
        now_ns: u64,
        source: MacAddress,
        trailer: Option<prp::Repr>,
    ) -> bool {
        let (period, forget_ns) = (self.period(now_ns), self.entry_forget_ns());
        let redundant = trailer.is_some();
        let mac = self.nodes.of_source(source, lan_index(lan));
        let Some(node) = self.nodes.entry(mac, redundant, now_ns, forget_ns) else {
            // Twice rather than never. What has no trailer has no second copy.
            self.lans[lan_index(lan)].without_entry += u64::from(redundant);
            return true;
        };
        if mac == source {
            node.note_source(lan_index(lan));
        }
        let record = &mut node.frames[lan_index(lan)];
        record.last_ns = Some(now_ns);
        let Some(trailer) = trailer else {
            record.untagged += 1;
            return true;
        };
        record.tagged += 1;
        record.wrong_lan += u64::from(trailer.lan != lan);
        node.numbers.get_or_insert_default().accept(trailer.sequence, period)
    }

    /// Notes a supervision frame in the NodesTable.
    fn supervision(&mut self, lan: Lan, now_ns: u64, frame: &Frame<'_>) {
        let counters = &mut self.lans[lan_index(lan)];
        let Ok(view) = supervision::View::new_checked(frame.payload()) else {
            counters.invalid_supervision += 1;
            return;
        };
        counters.supervision += 1;
        let content = supervision::Repr::parse(&view);
        let node = content.node;
        if node == self.parameters.mac || self.proxies.contains(node) || !node.is_unicast() {
            counters.foreign_claims += 1;
            return;
        }
        let forget_ns = self.entry_forget_ns();
        self.nodes.supervised(frame.source(), lan_index(lan), &content, now_ns, forget_ns);
    }

    /// Returns whether a frame from a LAN was sent by this node.
    fn is_own(&self, source: MacAddress, trailer: Option<prp::Repr>, now_ns: u64) -> bool {
        if source == self.parameters.mac {
            return true;
        }
        // All frames of this node have a trailer. Another number, none, or a station that sends here no more: it has
        // moved.
        trailer.is_some_and(|trailer| {
            self.proxies.sent_within(source, now_ns, self.entry_forget_ns())
                && self.drawn.is_recent(trailer.sequence, self.period(now_ns))
        })
    }

    /// Returns the rest of the silence after a start, in milliseconds; `None`: it has ended.
    #[must_use]
    pub fn silence_ms(&self, now_ns: u64) -> Option<u32> {
        let rest_ns = self.silent_until_ns.checked_sub(now_ns).filter(|rest_ns| *rest_ns > 0)?;
        Some(u32::try_from(rest_ns.div_ceil(NS_PER_MS)).unwrap_or(u32::MAX))
    }

    /// Returns the supervision frames that are due, and the time until the next ones in milliseconds. Each is a frame
    /// without a trailer, to be sent by [`Lre::send`].
    #[must_use]
    pub fn supervise(&mut self) -> (Vec<Vec<u8>>, u32) {
        let stations: Vec<_> = self.proxies.read().iter().map(|proxy| proxy.mac).collect();
        self.supervisor.frames(self.parameters.mac, &stations)
    }

    /// Returns both copies of a frame of the entity itself; `None`: in the silence after a start.
    pub fn send<'a>(&mut self, now_ns: u64, octets: &'a [u8]) -> Option<Copies<'a>> {
        if now_ns < self.silent_until_ns {
            return None;
        }
        let frame = Frame::parse(octets).ok()?;
        self.supervisor.sent += 1;
        self.copies(now_ns, &frame)
    }

    /// Removes nodes and stations that were not heard for NodeForgetTime.
    pub fn expire(&mut self, now_ns: u64) {
        let forget_ns = u64::from(self.parameters.node_forget_ms) * NS_PER_MS;
        self.nodes.expire(now_ns, forget_ns);
        self.proxies.expire(now_ns, forget_ns);
    }

    /// Returns tables and counters.
    #[must_use]
    pub fn read(&self) -> Reading {
        Reading {
            mac: self.parameters.mac,
            nodes: self.nodes.read(),
            proxies: self.proxies.read(),
            lans: self.lans,
            host: self.host,
            next: self.drawn.next(),
            supervised: self.supervisor.sent,
            evicted: self.nodes.evicted(),
            unknown_proxies: self.proxies.unknown,
            max_nodes: self.parameters.max_nodes,
        }
    }

    fn entry_forget_ns(&self) -> u64 {
        u64::from(self.parameters.entry_forget_ms) * NS_PER_MS
    }

    /// Returns the time in units of half of EntryForgetTime.
    fn period(&self, now_ns: u64) -> u32 {
        let half_ns = u64::from(self.parameters.entry_forget_ms.max(2)) * NS_PER_MS / 2;
        (now_ns / half_ns) as u32
    }
}

/// Returns whether a frame belongs to a protocol of one link, which no redundancy entity sends on: bridge group addresses
/// (STP, pause, LACP, LLDP, 802.1X: 802.1Q table 8-1), and PTP over Ethernet (IEEE 1588 annex F).
fn is_link_local(frame: &Frame<'_>) -> bool {
    let [a, b, c, d, e, f] = frame.destination().0;
    ([a, b, c, d, e] == [0x01, 0x80, 0xc2, 0x00, 0x00] && f < 0x10)
        || frame.ethertype() == PTP
        || frame.ethertype() == EtherType::LLDP
}

/// PTP over Ethernet (IEEE 1588 annex F).
const PTP: EtherType = EtherType(0x88f7);

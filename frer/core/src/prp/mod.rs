//! PRP (IEC 62439-3, clause 4): a link redundancy entity between a host and two LANs. The wildcards of a FRER node
//! ([`crate::wildcard`]) use it too, with R-TAGs.
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

mod copies;
mod discard;
mod host_port;
mod nodes;
mod number_space;
mod proxies;
mod reading;
mod supervisor;
mod watch;

use alloc::vec::Vec;

use onbeat_wire::edit::{Edit, RTagAction, edit_head};
pub use onbeat_wire::prp::Lan;
use onbeat_wire::prp::hello::Hello;
use onbeat_wire::prp::supervision;
use onbeat_wire::prp::{self, Tail};
use onbeat_wire::{EtherType, Frame, MacAddress, SequenceTag};

pub use copies::{Copies, Copy, Outcome};
pub use host_port::{BlockCause, HostPort, HostPortTimes, OWN_SILENCE_NS, announcements};
pub use nodes::{LanRecord, NodeKind, NodeReading, Nodes, Supervision};
pub use proxies::ProxyReading;
pub use reading::{HostCounters, LanCounters, Reading};
pub use supervisor::{DueFrames, Supervisor};
pub use watch::{Observer, PrpEvent};

use crate::spec::PortId;
use copies::AddedOctets;
use discard::ReceivedNumbers;
pub(crate) use number_space::NumberSpace;
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
        number_space::reboot_silence_ns(self.entry_forget_ms)
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

/// The encoding of sequence numbers on the LANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The trailer of PRP. Frames without one are those of singly attached nodes.
    Prp,
    /// The R-TAG of 802.1CB 7.8. Frames without one are not for the entity; there are no supervision frames.
    RTag,
}

/// The role of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Towards a LAN.
    Lan(Lan),
    /// Towards the host.
    Host,
}

/// The number of a received frame.
#[derive(Debug, Clone, Copy)]
struct ReceivedTag {
    sequence: u16,
    /// The LAN that it names; `None`: its format names none.
    lan: Option<Lan>,
}

impl ReceivedTag {
    fn is_of_other(self, lan: Lan) -> bool {
        self.lan.is_some_and(|named| named != lan)
    }
}

/// A link redundancy entity.
#[derive(Debug)]
pub struct Lre {
    format: Format,
    parameters: Parameters,
    number_space: NumberSpace,
    supervisor: Supervisor,
    nodes: Nodes<ReceivedNumbers>,
    proxies: Proxies,
    lans: [LanCounters; 2],
    other_protocol: [Option<MacAddress>; 2],
    host: HostCounters,
    host_port: HostPort,
}

impl Lre {
    /// Starts an entity, which sends nothing for NodeRebootInterval.
    #[must_use]
    pub fn new(parameters: Parameters, now_ns: u64) -> Self {
        let number_space = NumberSpace::new(parameters.entry_forget_ms, now_ns);
        let host_port = if parameters.is_segment {
            HostPort::new(number_space.silent_until_ns)
        } else {
            HostPort::default()
        };
        Self { host_port, ..Self::with_format(Format::Prp, parameters, number_space) }
    }

    /// Starts an entity that sends R-TAGs, with the numbers of its node.
    pub(crate) fn r_tag(parameters: Parameters) -> Self {
        Self::with_format(Format::RTag, parameters, NumberSpace::default())
    }

    fn with_format(format: Format, parameters: Parameters, number_space: NumberSpace) -> Self {
        Self {
            format,
            nodes: Nodes::new(parameters.max_nodes.into()),
            parameters,
            number_space,
            supervisor: Supervisor::default(),
            proxies: Proxies::default(),
            lans: [LanCounters::default(); 2],
            other_protocol: [None; 2],
            host: HostCounters::default(),
            host_port: HostPort::default(),
        }
    }

    /// Changes parameters. Numbers, tables and counters continue.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        if parameters.entry_forget_ms != self.parameters.entry_forget_ms {
            // Periods of another length: what is remembered has no age any more.
            self.nodes.forget_numbers();
        }
        let of_host_port = |parameters: &Parameters| (parameters.is_segment, parameters.host);
        if of_host_port(&parameters) != of_host_port(&self.parameters) {
            self.host_port = HostPort::default();
        }
        self.nodes.remove(parameters.mac);
        self.proxies.remove(parameters.mac);
        self.nodes.set_capacity(parameters.max_nodes.into());
        self.parameters = parameters;
    }

    /// Processes a frame received at `port`.
    pub fn frame<'a>(&mut self, port: PortId, now_ns: u64, octets: &'a [u8]) -> Outcome<'a> {
        let Some(role) = self.role(port) else { return Outcome::Pass };
        let Ok(frame) = Frame::parse(octets) else {
            match role {
                Role::Lan(lan) => self.lans[lan_index(lan)].malformed += 1,
                Role::Host => self.host.malformed += 1,
            }
            return Outcome::Discard;
        };
        self.parsed_frame(role, now_ns, &frame)
    }

    /// Processes a frame of an entity whose numbers are those of its node.
    pub(crate) fn frame_of_node<'a>(
        &mut self,
        number_space: &mut NumberSpace,
        role: Role,
        now_ns: u64,
        frame: &Frame<'a>,
    ) -> Outcome<'a> {
        core::mem::swap(&mut self.number_space, number_space);
        let outcome = self.parsed_frame(role, now_ns, frame);
        core::mem::swap(&mut self.number_space, number_space);
        outcome
    }

    fn parsed_frame<'a>(&mut self, role: Role, now_ns: u64, frame: &Frame<'a>) -> Outcome<'a> {
        match role {
            Role::Lan(lan) => self.lan_frame(lan, now_ns, frame),
            Role::Host => self.host_frame(now_ns, frame),
        }
    }

    /// Counts a frame of another protocol that a LAN brings, which is not for the entity.
    pub(crate) fn count_other_protocol(&mut self, role: Role, frame: &Frame<'_>) {
        if let Role::Lan(lan) = role
            && is_supervision(frame)
        {
            self.lans[lan_index(lan)].other_protocol += 1;
        }
    }

    /// Returns the role of a port; `None`: it is none of the entity.
    pub(crate) fn role(&self, port: PortId) -> Option<Role> {
        let Parameters { a, b, host, .. } = self.parameters;
        match port {
            port if port == a.port => Some(Role::Lan(Lan::A)),
            port if port == b.port => Some(Role::Lan(Lan::B)),
            port if port == host => Some(Role::Host),
            _ => None,
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
        if self.format == Format::RTag && frame.sequence_tag().is_some() {
            self.host.tagged += 1;
            return Outcome::Discard;
        }
        if self.parameters.is_segment && self.format == Format::Prp {
            if is_supervision(frame) {
                let Parameters { mac, entry_forget_ms, .. } = self.parameters;
                let hello = Hello::parse(frame.octets());
                let times = HostPortTimes::new(entry_forget_ms);
                self.host_port.hear(source, hello.as_ref(), mac, times, now_ns);
                self.host.link_local += 1;
                return Outcome::Discard;
            }
            if self.host_port.is_blocked(now_ns) {
                self.host.blocked += 1;
                return Outcome::Discard;
            }
        }
        if source != self.parameters.mac && source.is_unicast() {
            self.proxies.heard(source, now_ns, self.parameters.max_nodes.into());
        }
        if self.parameters.is_segment && self.proxies.contains(destination) {
            self.host.local += 1;
            return Outcome::Discard;
        }
        if self.number_space.is_silent(now_ns) {
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
        let number = self.number_space.drawn.next();
        // A frame that cannot be sent draws no number.
        let (octets, added) = match self.format {
            Format::Prp => {
                let a = Tail::of(frame, number, Lan::A)?;
                let mut b = a;
                b.set_lan(Lan::B);
                (frame.octets(), [a, b].map(AddedOctets::Tail))
            }
            Format::RTag => {
                let tagged = edit_head(frame, &[&r_tag(RTagAction::Push(number))]).ok()?;
                (tagged.rest, [AddedOctets::Headers(tagged.head); 2])
            }
        };
        self.number_space.drawn.draw(self.period(now_ns));
        let Parameters { a, b, .. } = self.parameters;
        let [first, second] = added;
        let copy = |port, added| Some(Copy { port, octets, added });
        Some(Copies { copies: [copy(a.port, first), copy(b.port, second)] })
    }

    /// Returns the sequence number of a frame from a LAN, and the LAN that it names.
    fn tag(&self, frame: &Frame<'_>) -> Option<ReceivedTag> {
        match (self.format, frame.sequence_tag()) {
            (Format::Prp, _) => {
                let prp::Repr { sequence, lan, .. } = frame.prp().ok()?;
                Some(ReceivedTag { sequence, lan: Some(lan) })
            }
            (Format::RTag, Some(SequenceTag::RTag(tag))) => {
                Some(ReceivedTag { sequence: tag.sequence, lan: None })
            }
            (Format::RTag, _) => None,
        }
    }

    /// Returns a frame from a LAN as the host receives it.
    fn untag<'a>(&self, frame: &Frame<'a>) -> Copy<'a> {
        let octets = frame.octets();
        let (octets, added) = match self.format {
            Format::Prp => (&octets[..octets.len() - prp::TRAILER_LEN], AddedOctets::Nothing),
            Format::RTag => match edit_head(frame, &[&r_tag(RTagAction::Remove)]) {
                Ok(edited) => (edited.rest, AddedOctets::Headers(edited.head)),
                Err(_) => unreachable!("a tag can be removed from any frame"),
            },
        };
        Copy { port: self.parameters.host, octets, added }
    }

    fn lan_frame<'a>(&mut self, lan: Lan, now_ns: u64, frame: &Frame<'a>) -> Outcome<'a> {
        let index = lan_index(lan);
        self.lans[index].received += 1;
        if is_link_local(frame) || self.is_of_interface(index, frame) {
            self.lans[index].passed += 1;
            return Outcome::Pass;
        }
        let tag = self.tag(frame);
        let source = frame.source();
        if self.is_own(source, tag, now_ns) {
            self.lans[index].own += 1;
            if tag.is_some_and(|tag| tag.is_of_other(lan)) {
                self.lans[index].own_of_other_lan += 1;
            }
            return Outcome::Discard;
        }
        // A station that moved here from behind the host port.
        self.proxies.remove(source);
        let is_supervision = self.format == Format::Prp && is_supervision(frame);
        let is_wrong_lan = tag.is_some_and(|tag| tag.is_of_other(lan));
        let is_first = self.note(lan, now_ns, source, tag);
        let is_blocked = self.host_port.is_blocked(now_ns);
        let counters = &mut self.lans[index];
        counters.wrong_lan += u64::from(is_wrong_lan);
        if is_supervision {
            self.supervision(lan, now_ns, frame);
            return Outcome::Discard;
        }
        let copy = match tag {
            Some(_) if !is_first => {
                counters.duplicates += 1;
                return Outcome::Discard;
            }
            _ if is_blocked => {
                counters.blocked += 1;
                return Outcome::Discard;
            }
            Some(_) => {
                counters.accepted += 1;
                self.untag(frame)
            }
            None => {
                counters.untagged += 1;
                if frame.sequence_tag().is_some() {
                    counters.other_protocol += 1;
                    self.other_protocol[index] = Some(source);
                }
                let octets = frame.octets();
                Copy { port: self.parameters.host, octets, added: AddedOctets::Nothing }
            }
        };
        Outcome::Send(Copies { copies: [Some(copy), None] })
    }

    /// Returns whether a frame from a LAN is for the network stack of its interface, by its destination address.
    fn is_of_interface(&self, index: usize, frame: &Frame<'_>) -> bool {
        let interface = [self.parameters.a, self.parameters.b][index].mac;
        // That stack cannot read an R-TAG. The host may have the address of an interface, as on a radio that sends no
        // other one.
        self.format == Format::Prp
            && frame.destination() == interface
            && interface != self.parameters.mac
    }

    /// Notes a frame in the NodesTable; returns whether it is the first copy.
    fn note(
        &mut self,
        lan: Lan,
        now_ns: u64,
        source: MacAddress,
        tag: Option<ReceivedTag>,
    ) -> bool {
        let (period, forget_ns) = (self.period(now_ns), self.entry_forget_ns());
        let redundant = tag.is_some();
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
        let Some(tag) = tag else {
            record.untagged += 1;
            return true;
        };
        record.tagged += 1;
        record.wrong_lan += u64::from(tag.is_of_other(lan));
        node.numbers.get_or_insert_default().accept(tag.sequence, period)
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
    fn is_own(&self, source: MacAddress, tag: Option<ReceivedTag>, now_ns: u64) -> bool {
        if source == self.parameters.mac {
            return true;
        }
        // All frames of this node have a number. Another one, none, or a station that sends here no more: it has moved.
        tag.is_some_and(|tag| {
            self.proxies.sent_within(source, now_ns, self.entry_forget_ns())
                && self.number_space.drawn.is_recent(tag.sequence, self.period(now_ns))
        })
    }

    /// Returns the rest of the silence after a start, in milliseconds; `None`: it has ended.
    #[must_use]
    pub fn silence_ms(&self, now_ns: u64) -> Option<u32> {
        self.number_space.silence_ms(now_ns)
    }

    /// Returns the frames that are due.
    #[must_use]
    pub fn supervise(&mut self, now_ns: u64) -> DueFrames {
        let stations: Vec<_> = self.proxies.read().iter().map(|proxy| proxy.mac).collect();
        let received = self.lans.iter().map(|lan| lan.received).sum();
        let silence_ms = self.silence_ms(now_ns);
        let Self { parameters, host_port, .. } = self;
        let mut due =
            self.supervisor.due(parameters, &stations, silence_ms, host_port, received, now_ns);
        if let Some(former) = due.former {
            due.announce(announcements(former, &self.nodes.read()));
        }
        due
    }

    /// Blocks the host port of a RedBox until others have sent hellos: its link was down.
    pub fn listen(&mut self, now_ns: u64) {
        if self.parameters.is_segment {
            self.host_port.listen(now_ns);
        }
    }

    /// Like [`Lre::listen`], if this process was stopped meanwhile: it has sent no hello lately.
    pub fn listen_after_stop(&mut self, now_ns: u64) {
        if self.host_port.hello_ns > 0 && self.host_port.is_silent(now_ns) {
            self.listen(now_ns);
        }
    }

    /// Returns the last hello of a RedBox: another one may serve.
    #[must_use]
    pub fn farewell(&mut self) -> Option<Vec<u8>> {
        let Parameters { mac, is_segment, .. } = self.parameters;
        is_segment.then(|| self.supervisor.farewell(mac))
    }

    /// Returns a frame of the entity itself as the host port sends it.
    pub fn send_to_host<'a>(&mut self, now_ns: u64, octets: &'a [u8]) -> Copies<'a> {
        self.host_port.hello_ns = now_ns;
        let copy = Copy { port: self.parameters.host, octets, added: AddedOctets::Nothing };
        Copies { copies: [Some(copy), None] }
    }

    /// Returns both copies of a frame of the entity itself; `None`: in the silence after a start.
    pub fn send<'a>(&mut self, now_ns: u64, octets: &'a [u8]) -> Option<Copies<'a>> {
        if self.number_space.is_silent(now_ns) {
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
            other_protocol: self.other_protocol,
            host: self.host,
            next: self.number_space.drawn.next(),
            supervised: self.supervisor.sent,
            evicted: self.nodes.evicted(),
            unknown_proxies: self.proxies.unknown,
            max_nodes: self.parameters.max_nodes,
            host_port: self.host_port,
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

fn is_supervision(frame: &Frame<'_>) -> bool {
    supervision::is_destination(frame.destination()) && frame.ethertype() == EtherType::PRP
}

/// PTP over Ethernet (IEEE 1588 annex F).
const PTP: EtherType = EtherType(0x88f7);

/// Returns the edit of an R-TAG.
fn r_tag(rtag: RTagAction) -> Edit {
    Edit { rtag, ..Edit::default() }
}

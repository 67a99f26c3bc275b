//! The judge: compares the frames captured around each node with the behavior that IEC 62439-3 and its configuration require.
//!
//! Its only inputs are captured frames, the network, and the times at which a node or port was down. It shares no code
//! with the data planes. Each node is judged by itself:
//!
//! ```text
//!                    ┌───────┐ ◄── entered ── LAN A
//!   ◄── delivered ── │       │ ─── sent ────►
//!   ─── entered ───► │ node  │
//!    (host port)     │       │ ◄── entered ── LAN B
//!                    └───────┘ ─── sent ────►
//! ```
//!
//! A frame of which a copy entered a node is delivered once. Which copies entered is no guess: wires lose and delay frames
//! before the capture. The exact time at which a node handled a frame is unknown; near the start of a disturbance, a
//! frame may be handled or lost.

mod node;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use onbeat_wire::MacAddress;

use super::decode::decode;
pub use super::decode::{Content, DecodedFrame};
use crate::scenario::chaos::spec::Span;

/// A network of PRP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lan {
    /// LAN id 0xA.
    A,
    /// LAN id 0xB.
    B,
}

impl Lan {
    /// Both.
    pub const BOTH: [Lan; 2] = [Lan::A, Lan::B];

    /// Its letter, as part of names.
    pub(super) fn letter(self) -> char {
        match self {
            Lan::A => 'a',
            Lan::B => 'b',
        }
    }
}

/// A valid trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The sequence number.
    pub number: u16,
    /// The LAN.
    pub lan: Lan,
}

/// The attachment of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// It is the host of a node, or behind a RedBox.
    Node(usize),
    /// It is attached to one LAN, without redundancy.
    Lan(Lan),
}

/// The destination of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// A station.
    Station(usize),
    /// A group address.
    Group(u8),
    /// All stations.
    Broadcast,
}

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePort {
    /// Towards its host, or the stations behind it.
    Host,
    /// Towards a LAN.
    Lan(Lan),
}

/// The place of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CapturePlace {
    /// The far end of a port of a node.
    Port(usize, NodePort),
    /// The interface of a station, where that is another place.
    Station(usize),
}

/// A captured frame.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// CLOCK_REALTIME in ns.
    pub at: u64,
    /// Its place.
    pub place: CapturePlace,
    /// It enters the node, or leaves the station; otherwise the reverse.
    pub entering: bool,
    /// The whole frame.
    pub octets: &'a [u8],
    /// Index into the captured frames.
    pub index: usize,
}

/// A node.
#[derive(Debug, Clone)]
pub struct NodeCase {
    /// Its name.
    pub name: String,
    /// The source of its supervision frames.
    pub mac: MacAddress,
    /// Its data plane is XDP: the daemon sends supervision frames beside it, so their order differs from that of the
    /// numbers.
    pub in_kernel: bool,
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamCase {
    /// Number of its station.
    pub from: usize,
    /// Its destination.
    pub to: Destination,
}

/// A time at which a port, or a node with its state, is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Number of the node.
    pub node: usize,
    /// The port; `None`: the node.
    pub port: Option<NodePort>,
    /// From before its start until the object is in use again.
    pub span: Span,
    /// The node handles received frames, and sends none: after a start.
    pub only_sending: bool,
}

/// The complete input of the judge.
#[derive(Debug, Clone, Default)]
pub struct Case<'a> {
    /// The nodes.
    pub nodes: Vec<NodeCase>,
    /// Attachments of the stations.
    pub stations: Vec<Option<Attachment>>,
    /// The streams.
    pub streams: Vec<StreamCase>,
    /// The outages.
    pub outages: Vec<Outage>,
    /// Captured frames; of each place and direction in the order in which they passed.
    pub sightings: Vec<Sighting<'a>>,
}

/// A rule of the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A frame of which a copy entered a node is delivered.
    Delivered,
    /// It is delivered once.
    Once,
    /// No frame is delivered of which no copy entered, and no station receives its own frame.
    Ghost,
    /// A frame of a station leaves its node once on each LAN.
    Sent,
    /// Nothing that entered by a LAN leaves by a LAN.
    Circulation,
    /// Frames of a LAN stay there.
    Lan,
    /// No protected station receives a trailer or a supervision frame, except hellos of its RedBox.
    Trailer,
    /// Frames are delivered as they were sent; trailers are valid.
    Content,
    /// Both copies have one number, the next one of the node.
    Numbers,
}

impl Rule {
    /// All rules.
    pub const ALL: [Rule; 9] = [
        Rule::Delivered,
        Rule::Once,
        Rule::Ghost,
        Rule::Sent,
        Rule::Circulation,
        Rule::Lan,
        Rule::Trailer,
        Rule::Content,
        Rule::Numbers,
    ];

    /// The name of its violation.
    #[must_use]
    pub fn violation(self) -> &'static str {
        match self {
            Rule::Delivered => "frames lost although a copy arrived",
            Rule::Once => "frames delivered twice",
            Rule::Ghost => "frames delivered without a copy",
            Rule::Sent => "frames not sent once on each LAN",
            Rule::Circulation => "frames that return to a LAN",
            Rule::Lan => "frames on the wrong LAN",
            Rule::Trailer => "trailers at protected stations",
            Rule::Content => "frames changed",
            Rule::Numbers => "numbers missing, used twice, or different in both copies",
        }
    }
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Name of the node, or of another place.
    pub place: String,
    /// Time (CLOCK_REALTIME, ns).
    pub at: u64,
    /// Description.
    pub text: String,
    /// The captured frames concerned, by index.
    pub frames: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.rule.violation(), self.place, self.text)
    }
}

/// Totals of the checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that must leave a node: deliveries to its stations, and frames to send on a LAN.
    pub checked: u64,
    /// Deliveries of frames of which a copy entered.
    pub delivered: u64,
    /// Frames of which one copy entered, by which they were delivered.
    pub single: u64,
    /// Copies that were discarded.
    pub discarded: u64,
    /// Frames that an outage excuses.
    pub excused: u64,
    /// Frames delivered twice, as permitted: the node restarted in between, or the copies were too far apart.
    pub repeated: u64,
    /// Numbers compared with the ones before.
    pub numbers: u64,
    /// Supervision frames.
    pub supervision: u64,
    /// Longest time from the entry of the first copy to the delivery, in ns.
    pub latency_ns: u64,
}

impl Tally {
    /// Adds the totals of another network.
    pub fn add(&mut self, other: &Tally) {
        self.checked += other.checked;
        self.delivered += other.delivered;
        self.single += other.single;
        self.discarded += other.discarded;
        self.excused += other.excused;
        self.repeated += other.repeated;
        self.numbers += other.numbers;
        self.supervision += other.supervision;
        self.latency_ns = self.latency_ns.max(other.latency_ns);
    }
}

/// Result of the judge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Totals.
    pub tally: Tally,
    /// Violations.
    pub violations: Vec<Violation>,
}

impl Verdict {
    fn violate(
        &mut self,
        rule: Rule,
        place: String,
        text: impl Into<String>,
        frames: &[&JudgedFrame<'_>],
    ) {
        let at = frames.iter().map(|frame| frame.sighting.at).min().unwrap_or(0);
        let frames = frames.iter().map(|frame| frame.sighting.index).collect();
        self.violations.push(Violation { rule, place, at, text: text.into(), frames });
    }
}

/// Stream and number of a frame.
type Key = (u32, u64);

/// A captured frame with its content.
#[derive(Debug, Clone, Copy)]
struct JudgedFrame<'a> {
    sighting: Sighting<'a>,
    decoded: DecodedFrame,
}

impl JudgedFrame<'_> {
    fn key(&self) -> Option<Key> {
        match self.decoded.content {
            Content::Station { stream, sequence } => Some((stream, sequence)),
            Content::Supervision | Content::Foreign => None,
        }
    }
}

/// Judges all rules.
#[must_use]
pub fn judge(case: &Case<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    let frames: Vec<JudgedFrame<'_>> = case
        .sightings
        .iter()
        .filter_map(|sighting| {
            Some(JudgedFrame { sighting: *sighting, decoded: decode(sighting.octets)? })
        })
        .collect();
    let sent = sent(case, &frames);
    for frame in &frames {
        verdict.tally.supervision += u64::from(frame.decoded.content == Content::Supervision);
        content(case, frame, &sent, &mut verdict);
        lan(case, frame, &mut verdict);
    }
    for number in 0..case.nodes.len() {
        node::judge(case, number, &frames, &mut verdict);
    }
    verdict
}

impl Case<'_> {
    fn stream(&self, key: Key) -> Option<&StreamCase> {
        self.streams.get(key.0 as usize)
    }

    /// The attachment of the station that sends a stream.
    fn sender(&self, key: Key) -> Option<Attachment> {
        self.stations.get(self.stream(key)?.from).copied().flatten()
    }

    fn name(&self, place: CapturePlace) -> String {
        match place {
            CapturePlace::Port(node, NodePort::Host) => {
                format!("host port of {}", self.nodes[node].name)
            }
            CapturePlace::Port(node, NodePort::Lan(lan)) => {
                format!("LAN {lan:?} of {}", self.nodes[node].name)
            }
            CapturePlace::Station(station) => format!("station {station}"),
        }
    }
}

/// The frames as stations sent them.
fn sent<'a>(case: &Case<'_>, frames: &[JudgedFrame<'a>]) -> HashMap<Key, &'a [u8]> {
    let mut sent = HashMap::new();
    for frame in frames.iter().filter(|frame| frame.sighting.entering) {
        let Some(key) = frame.key() else { continue };
        let Some(stream) = case.stream(key) else { continue };
        let is_sender = match frame.sighting.place {
            CapturePlace::Station(station) => station == stream.from,
            CapturePlace::Port(node, NodePort::Host) => {
                case.sender(key) == Some(Attachment::Node(node))
            }
            CapturePlace::Port(_, NodePort::Lan(_)) => false,
        };
        if is_sender {
            sent.entry(key).or_insert(frame.sighting.octets);
        }
    }
    sent
}

/// Compares a frame with the one that was sent.
fn content(
    case: &Case<'_>,
    frame: &JudgedFrame<'_>,
    sent: &HashMap<Key, &[u8]>,
    verdict: &mut Verdict,
) {
    let mut broken = |text: &str| {
        verdict.violate(Rule::Content, case.name(frame.sighting.place), text, &[frame]);
    };
    if frame.decoded.has_bad_trailer {
        broken("it ends with the suffix of a trailer that is not valid");
    }
    let octets = frame.sighting.octets;
    let Some(key) = frame.key() else {
        let at = if octets[12..14] == VLAN { 16 } else { 12 };
        if octets.get(at..at + 2) == Some(&crate::traffic::ETHERTYPE.to_be_bytes()) {
            broken("a frame of no station");
        }
        return;
    };
    let Some(&original) = sent.get(&key) else { return broken("no station sent it") };
    let end = octets.len() - if frame.decoded.trailer.is_some() { TRAILER_LEN } else { 0 };
    let is_padded = end == shortest(original);
    let rest = octets[..end].strip_prefix(original);
    match rest {
        None => broken("its octets differ from those sent"),
        Some(padding) if padding.iter().any(|octet| *octet != 0) => broken("its padding is not 0"),
        Some([]) if frame.decoded.trailer.is_some() && end < shortest(original) => {
            broken("its trailer is not behind padding");
        }
        Some([]) => {}
        Some(_) if !is_padded => broken("its padding is longer than required"),
        Some(_) => {}
    }
}

const VLAN: [u8; 2] = [0x81, 0];
const TRAILER_LEN: usize = 6;

/// The shortest frame before a trailer: with a VLAN tag longer by it, so that a switch can remove the tag.
fn shortest(octets: &[u8]) -> usize {
    if octets[12..14] == VLAN { 64 } else { 60 }
}

/// Checks that a frame is on its LAN, and that no trailer leaves the LANs.
fn lan(case: &Case<'_>, frame: &JudgedFrame<'_>, verdict: &mut Verdict) {
    let Sighting { place, entering, .. } = frame.sighting;
    let at = match place {
        CapturePlace::Port(_, NodePort::Lan(lan)) => Some(Attachment::Lan(lan)),
        CapturePlace::Port(node, NodePort::Host) => Some(Attachment::Node(node)),
        CapturePlace::Station(station) => case.stations[station],
    };
    let lan = match at {
        Some(Attachment::Lan(lan)) => Some(lan),
        Some(Attachment::Node(_)) | None => None,
    };
    let is_hello =
        matches!(at, Some(Attachment::Node(node)) if frame.decoded.source == case.nodes[node].mac);
    let mut broken = |rule, text: String| verdict.violate(rule, case.name(place), text, &[frame]);
    let is_station = frame.key().is_some();
    match (lan, frame.decoded.trailer) {
        (Some(lan), Some(trailer)) if trailer.lan != lan => {
            broken(Rule::Lan, format!("its trailer is of LAN {:?}", trailer.lan));
        }
        (Some(_), Some(_)) => {}
        (Some(lan), None) => {
            let sender = frame.key().and_then(|key| case.sender(key));
            if frame.decoded.content == Content::Supervision
                || is_station && sender != Some(Attachment::Lan(lan))
            {
                broken(
                    Rule::Lan,
                    format!("it has no trailer, and no station of LAN {lan:?} sent it"),
                );
            }
        }
        (None, Some(_)) if !entering => {
            broken(Rule::Trailer, "its trailer was not removed".to_owned());
        }
        (None, _) if !entering && frame.decoded.content == Content::Supervision && !is_hello => {
            broken(Rule::Trailer, "a supervision frame".to_owned());
        }
        (None, _) => {}
    }
}

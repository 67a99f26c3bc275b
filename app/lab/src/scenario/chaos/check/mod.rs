//! The checker: holds what was captured around each node against what the node must do.
//!
//! It knows nothing but captured frames, what nodes are configured for and when, and what the
//! schedule took from them when. It shares no code with the data planes. Each node is looked at by
//! itself, port by port: what entered it, what left it.
//!
//! ```text
//!            entered at, processed by
//!   ---->  [ port ]  -- functions -->  [ port ] ---->
//!                                         left at
//! ```
//!
//! When exactly a node worked on a frame nobody sees. It was between the frame's entry and the exit
//! of what came in behind it ([`copies`]); whatever depends on the order of frames that came in by
//! several ports is judged for every order that is possible ([`window`]), and a frame is held
//! against a node only where no order excuses it.

mod copies;
mod count;
mod deliver;
mod element;
mod member;
mod number;
mod order;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;

use onbeat_report::format::count;
use onbeat_wire::MacAddress;

use super::spec::{Disturbance, Era};
pub use count::{NodeCounters, RecoveryCounters, StreamCounters};

/// A frame that was captured at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// CLOCK_REALTIME in ns.
    pub at: u64,
    /// Number of the node.
    pub node: usize,
    /// Number of its port.
    pub port: usize,
    /// It enters the node; otherwise it leaves it.
    pub entering: bool,
    /// Number of its stream.
    pub stream: usize,
    /// Which of its talker's frames it is.
    pub sequence: u64,
    /// The number in its R-TAG.
    pub number: Option<u16>,
    /// Destination address.
    pub destination: MacAddress,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// Which of the captured frames it is.
    pub index: usize,
}

/// Everything that is judged.
#[derive(Debug, Clone, Default)]
pub struct TrialCase {
    /// By node: its name and those of its ports.
    pub nodes: Vec<(String, Vec<String>)>,
    /// Names of the streams.
    pub streams: Vec<String>,
    /// By node and stream, in order of time.
    pub eras: Vec<Vec<Vec<Era>>>,
    /// What was taken from nodes.
    pub disturbances: Vec<Disturbance>,
    /// What was captured; of each port and direction in the order in which it passed.
    pub sightings: Vec<Sighting>,
    /// Frames of talkers that were changed or cut behind their headers.
    pub corrupted: u64,
    /// By node: frames of nobody that entered, by port.
    pub foreign: Vec<Vec<u64>>,
    /// How late the clock of time-outs was at most (ns).
    pub clock_late_ns: u64,
    /// By node: what it counted, read when nothing flowed any more; `None`: it was not asked.
    pub counted: Vec<Option<NodeCounters>>,
}

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A frame that no function may discard leaves by every egress port.
    Delivered,
    /// No frame leaves twice while its number is within the history.
    Once,
    /// A frame leaves only where it shall, and only after it came.
    Ghost,
    /// It looks as it shall.
    Headers,
    /// A number outside of the history, or none where one must be, is not accepted.
    Window,
    /// Numbers given are gapless, and each is given once.
    Numbers,
    /// Frames that came by one port only leave in the order in which they came.
    Order,
    /// What a node counts is what was captured.
    Counters,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 8] = [
        Rule::Delivered,
        Rule::Once,
        Rule::Ghost,
        Rule::Headers,
        Rule::Window,
        Rule::Numbers,
        Rule::Order,
        Rule::Counters,
    ];

    /// What a violation of it is called.
    #[must_use]
    pub fn violation(self) -> &'static str {
        match self {
            Rule::Delivered => "legitimate frames rejected",
            Rule::Once => "duplicates delivered",
            Rule::Ghost => "frames where none belong",
            Rule::Headers => "frames changed",
            Rule::Window => "frames accepted from outside of the history",
            Rule::Numbers => "numbers missing or given twice",
            Rule::Order => "frames out of order without a cause",
            Rule::Counters => "counters that do not add up",
        }
    }
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Name of the node.
    pub node: String,
    /// Name of the stream.
    pub stream: String,
    /// Name of the port, where it is one port's.
    pub port: Option<String>,
    /// When (CLOCK_REALTIME, ns); 0: at the end.
    pub at: u64,
    /// What happened.
    pub text: String,
    /// The captured frames concerned.
    pub frames: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: node {}, stream {}", self.rule.violation(), self.node, self.stream)?;
        if let Some(port) = &self.port {
            write!(f, ", port {port}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that entered a node, times the egress ports that they had to leave by, each frame
    /// once however many copies of it came.
    pub judged: u64,
    /// Of these, those that left.
    pub delivered: u64,
    /// Those that a recovery function may discard: none of their copies was within its history.
    pub outside: u64,
    /// Those that were excused by what the schedule took.
    pub excused: u64,
    /// Copies that left although one had left before, as match recovery and resets allow.
    pub repeated: u64,
    /// Numbers given by generators.
    pub numbered: u64,
    /// Times at which a generator's numbers began anew at 0.
    pub wrapped: u64,
    /// Counters compared, and those of them that had to be met to the frame.
    pub counters: u64,
    /// Of these, exactly.
    pub exact: u64,
    /// Longest time that a frame took through a node, in ns.
    pub latency_ns: u64,
}

impl Tally {
    /// Adds what was looked at elsewhere.
    pub fn add(&mut self, other: &Tally) {
        self.judged += other.judged;
        self.delivered += other.delivered;
        self.outside += other.outside;
        self.excused += other.excused;
        self.repeated += other.repeated;
        self.numbered += other.numbered;
        self.wrapped += other.wrapped;
        self.counters += other.counters;
        self.exact += other.exact;
        self.latency_ns = self.latency_ns.max(other.latency_ns);
    }
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was looked at.
    pub tally: Tally,
    /// What was broken.
    pub violations: Vec<Violation>,
}

impl Verdict {
    fn violate(
        &mut self,
        at: NodeStream<'_>,
        rule: Rule,
        port: Option<usize>,
        time: u64,
        (text, frames): (String, Vec<usize>),
    ) {
        let (node, ports) = &at.case.nodes[at.node];
        self.violations.push(Violation {
            rule,
            node: node.clone(),
            stream: at.case.streams[at.stream].clone(),
            port: port.map(|port| ports[port].clone()),
            at: time,
            text,
            frames,
        });
    }
}

/// A stream at a node.
#[derive(Clone, Copy)]
struct NodeStream<'a> {
    case: &'a TrialCase,
    node: usize,
    stream: usize,
    /// What was taken from the node.
    taken: &'a [Disturbance],
}

impl NodeStream<'_> {
    fn eras(&self) -> &[Era] {
        &self.case.eras[self.node][self.stream]
    }
}

/// Judges everything.
#[must_use]
pub fn check(case: &TrialCase) -> Verdict {
    let mut verdict = Verdict::default();
    if case.corrupted > 0 {
        verdict.violations.push(Violation {
            rule: Rule::Headers,
            node: "(any)".into(),
            stream: "(any)".into(),
            port: None,
            at: 0,
            text: format!("{} changed or cut after the headers", count(case.corrupted, "frame")),
            frames: Vec::new(),
        });
    }
    for node in 0..case.nodes.len() {
        let passing = copies::NodeTraffic::new(case, node);
        let taken = &passing.taken;
        verdict.tally.latency_ns = verdict.tally.latency_ns.max(passing.latency_ns);
        let mut through = Vec::new();
        for stream in 0..case.streams.len() {
            let place = NodeStream { case, node, stream, taken };
            let element = passing.element(place);
            let window = window::Window::new(place, &element);
            deliver::check(place, &element, &window, &mut verdict);
            number::check(place, &element, &mut verdict);
            order::check(place, &element, &mut verdict);
            through.push(count::ExpectedCounters::new(place, &element, &window));
        }
        count::check(NodeStream { case, node, stream: 0, taken }, &through, &mut verdict);
    }
    verdict
}

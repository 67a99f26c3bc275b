//! The checker: compares the frames captured around each node with the specified behavior of the node.
//!
//! Its only inputs are captured frames, the configurations of nodes with their times, and the
//! disturbances of the schedule with their times. It shares no code with the data planes. Each node is
//! checked separately, port by port: frames that entered it, frames that left it.
//!
//! ```text
//!            entered at, processed by
//!   ---->  [ port ]  -- functions -->  [ port ] ---->
//!                                         left at
//! ```
//!
//! The exact time at which a node processed a frame is unknown. It is between the frame's entry and the
//! exit of the frames that entered after it (`copies`). Rules that depend on the order of frames of
//! several ports are checked for every possible order (`window`). A frame is a violation only if no
//! order explains it.

mod copies;
mod count;
mod delivery;
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

/// A frame captured at a port.
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
    /// Number of the frame at its talker.
    pub sequence: u64,
    /// The number in its R-TAG.
    pub number: Option<u16>,
    /// Destination address.
    pub destination: MacAddress,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// Index into the captured frames.
    pub index: usize,
}

/// The complete input of the checker.
#[derive(Debug, Clone, Default)]
pub struct TrialCase {
    /// By node: its name and those of its ports.
    pub nodes: Vec<(String, Vec<String>)>,
    /// Names of the streams.
    pub streams: Vec<String>,
    /// Eras by node and stream, in order of time.
    pub eras: Vec<Vec<Vec<Era>>>,
    /// Disturbances of nodes.
    pub disturbances: Vec<Disturbance>,
    /// Captured frames; of each port and direction in the order in which they passed.
    pub sightings: Vec<Sighting>,
    /// Number of talker frames that were corrupted or truncated after their headers.
    pub corrupted: u64,
    /// By node: number of foreign frames that entered, by port.
    pub foreign: Vec<Vec<u64>>,
    /// Maximum delay of the clock of timeouts (ns).
    pub clock_late_ns: u64,
    /// By node: its counters, read after all frames had arrived; `None`: not read.
    pub counted: Vec<Option<NodeCounters>>,
}

/// A rule of the checker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A frame that no function may discard leaves by every egress port.
    Delivered,
    /// No frame leaves twice while its number is within the history.
    Once,
    /// A frame leaves only by an egress port, and only after it arrived.
    Ghost,
    /// A frame leaves with the specified content.
    Headers,
    /// A number outside of the history, or a missing number that is required, is not accepted.
    Window,
    /// New numbers are gapless, and each is used once.
    Numbers,
    /// Frames that arrived by one port only leave in the order of arrival.
    Order,
    /// The counters of a node match the captures.
    Counters,
}

impl Rule {
    /// All rules.
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

    /// The name of its violation.
    #[must_use]
    pub fn violation(self) -> &'static str {
        match self {
            Rule::Delivered => "legitimate frames rejected",
            Rule::Once => "duplicates delivered",
            Rule::Ghost => "frames at wrong ports",
            Rule::Headers => "frames changed",
            Rule::Window => "frames accepted from outside of the history",
            Rule::Numbers => "numbers missing or used twice",
            Rule::Order => "frames out of order without a cause",
            Rule::Counters => "counters that do not match the captures",
        }
    }
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// Name of the node.
    pub node: String,
    /// Name of the stream.
    pub stream: String,
    /// Name of the port, if a single port is concerned.
    pub port: Option<String>,
    /// Time (CLOCK_REALTIME, ns); 0: at the end.
    pub at: u64,
    /// Description.
    pub text: String,
    /// The captured frames concerned, by index.
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

/// Totals of the checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that entered a node, multiplied by their required egress ports; each frame once,
    /// independent of its copies.
    pub checked: u64,
    /// Of these, frames that left.
    pub delivered: u64,
    /// Of these, frames that a recovery function may discard: no copy was within its history.
    pub outside: u64,
    /// Of these, frames excused by a disturbance.
    pub excused: u64,
    /// Copies that left after another one had left, as match recovery and resets permit.
    pub repeated: u64,
    /// Numbers assigned by generators.
    pub numbered: u64,
    /// Restarts of generators at 0.
    pub wrapped: u64,
    /// Counters compared, including those that had to match exactly.
    pub counters: u64,
    /// Of these, counters that had to match exactly.
    pub exact: u64,
    /// Longest transit time of a frame through a node, in ns.
    pub latency_ns: u64,
}

impl Tally {
    /// Adds the totals of another network.
    pub fn add(&mut self, other: &Tally) {
        self.checked += other.checked;
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

/// Result of the checker.
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
    /// Disturbances of the node.
    taken: &'a [Disturbance],
}

impl NodeStream<'_> {
    fn eras(&self) -> &[Era] {
        &self.case.eras[self.node][self.stream]
    }
}

/// Checks all rules.
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
            text: format!(
                "{} corrupted or truncated after the headers",
                count(case.corrupted, "frame")
            ),
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
            delivery::check(place, &element, &window, &mut verdict);
            number::check(place, &element, &mut verdict);
            order::check(place, &element, &mut verdict);
            through.push(count::ExpectedCounters::new(place, &element, &window));
        }
        count::check(NodeStream { case, node, stream: 0, taken }, &through, &mut verdict);
    }
    verdict
}

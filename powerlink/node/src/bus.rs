//! Metrics of a bus: of a capture, of a bus observer, or in the view of a node.

use std::collections::{BTreeMap, VecDeque};

use onbeat_powerlink::observe::{Frames, Node, Observation, Observer, Request};
use onbeat_report::distribution::PhaseId;
use onbeat_report::{Cell, Check, Counters, Distribution, Outcome, Recorder, format};
use onbeat_wire::powerlink::{NmtCommandId, NmtState, NodeId};

use crate::left_out::LeftOutCycles;

/// Maximum number of recorded transitions.
const KEPT: usize = 2000;

/// Maximum number of nodes with their own curve of response times; the rest share one.
const CURVES: usize = 16;

/// Marks response times that end with the submission of the response to the driver.
const WITHOUT_DRIVER: &str = " (without driver)";

/// The curve of nodes without their own.
const FURTHER: &str = "PRes of further nodes";

/// A change of a node's state, or a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// A node reported another state than before.
    State { node: NodeId, from: Option<NmtState>, to: NmtState },
    /// A command of the managing node.
    Command { node: NodeId, command: NmtCommandId },
}

/// A response of the node whose bus this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) node: NodeId,
    pub(crate) request: Request,
    /// From the request to the response, in nanoseconds.
    pub(crate) delay_ns: u64,
}

/// Computes metrics of a bus from its frames. Repeated cycles need no allocation.
#[derive(Debug)]
pub struct Bus {
    observer: Observer,
    cycles: Recorder,
    interval: PhaseId,
    jitter: PhaseId,
    answers: Recorder,
    polls: BTreeMap<NodeId, PhaseId>,
    other_polls: Option<PhaseId>,
    requests: [Option<PhaseId>; Request::ALL.len()],
    /// Responses of the own node that the driver did not stamp.
    unstamped: [Option<PhaseId>; Request::ALL.len()],
    changes: VecDeque<(u64, Change)>,
    forgotten: u64,
    span_ns: Option<(u64, u64)>,
    left_out: LeftOutCycles,
    /// Answered polls without a known response time.
    untimed: u64,
}

impl Default for Bus {
    fn default() -> Self {
        let mut cycles = Recorder::new();
        let [interval, jitter] =
            ["SoC to SoC", "off RelativeTime by"].map(|name| cycles.phase(name));
        Bus {
            observer: Observer::new(),
            cycles,
            interval,
            jitter,
            answers: Recorder::new(),
            polls: BTreeMap::new(),
            other_polls: None,
            requests: [None; Request::ALL.len()],
            unstamped: [None; Request::ALL.len()],
            changes: VecDeque::with_capacity(KEPT),
            forgotten: 0,
            span_ns: None,
            left_out: LeftOutCycles::default(),
            untimed: 0,
        }
    }
}

impl Bus {
    /// Returns a bus without frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The observations of each node; the managing node is 240.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        self.observer.nodes()
    }

    /// Frames by kind.
    #[must_use]
    pub fn frames(&self) -> &Frames {
        self.observer.frames()
    }

    /// Adds a frame of the bus, starting at its destination address. Times are nanoseconds of any clock.
    pub fn observe(&mut self, time_ns: u64, frame: &[u8]) {
        if let Some(response) = self.take(time_ns, frame) {
            self.record(response, true);
        }
    }

    /// Adds a poll and its response, with the response time in nanoseconds if known.
    pub fn observe_answered(
        &mut self,
        time_ns: u64,
        poll: &[u8],
        delay_ns: Option<u64>,
        response: &[u8],
    ) {
        self.observe(time_ns, poll);
        let response = self.take(time_ns.saturating_add(delay_ns.unwrap_or(0)), response);
        match response {
            Some(response) if delay_ns.is_some() => self.record(response, true),
            _ => self.untimed += u64::from(delay_ns.is_none()),
        }
    }

    /// Adds a frame that the node of this bus submitted. A response is returned, to be recorded with its time.
    pub(crate) fn observe_sent(&mut self, time_ns: u64, frame: &[u8]) -> Option<Response> {
        self.take(time_ns, frame)
    }

    /// Records a response. `driver`: its time ends with its transmission, not with its submission to the driver.
    pub(crate) fn record(&mut self, response: Response, driver: bool) {
        let Response { node, request, delay_ns } = response;
        let Bus { answers, polls, other_polls, requests, unstamped, .. } = self;
        let phase = match request {
            _ if !driver => *unstamped[request as usize].get_or_insert_with(|| {
                answers.phase(&format!("{}{WITHOUT_DRIVER}", name(node, request)))
            }),
            Request::Poll => poll(node, answers, polls, other_polls),
            _ => *requests[request as usize]
                .get_or_insert_with(|| answers.phase(&name(node, request))),
        };
        answers.record(phase, delay_ns);
    }

    /// Adds a frame; returns the response that it is, which is not recorded.
    fn take(&mut self, time_ns: u64, frame: &[u8]) -> Option<Response> {
        let (first, _) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first, time_ns));
        let Bus { observer, cycles, left_out, answers, polls, other_polls, .. } = self;
        let (mut change, mut response) = (None, None);
        observer.observe(time_ns, frame, |observation| match observation {
            Observation::Cycle { interval_ns, step_ns } => {
                cycles.record(self.interval, interval_ns);
                cycles.record(self.jitter, interval_ns.abs_diff(step_ns));
                left_out.add(interval_ns, step_ns);
            }
            Observation::Response { node, request, delay_ns } => {
                response = Some(Response { node, request, delay_ns });
            }
            Observation::Unanswered { node, request: Request::Poll } => {
                let phase = poll(node, answers, polls, other_polls);
                answers.lose(phase, 1);
            }
            Observation::State { node, from, to } => {
                change = Some(Change::State { node, from, to });
            }
            Observation::Command { node, command } => {
                change = Some(Change::Command { node, command });
            }
            // An absent node never answers; nodes are counted separately.
            Observation::Unanswered { .. }
            | Observation::Unsolicited { .. }
            | Observation::Identified { .. }
            | Observation::ForeignAddress { .. }
            | Observation::TakenOver { .. }
            | Observation::OtherAddress { .. } => {}
        });
        if let Some(change) = change {
            if self.changes.len() == KEPT {
                self.changes.pop_front();
                self.forgotten += 1;
            }
            self.changes.push_back((time_ns, change));
        }
        response
    }

    /// Adds the observations to a result, and checks them against the rules of a fault-free bus. Polls and
    /// responses of hidden nodes are not checked, and a bus with a hidden node fails.
    pub fn report(&self, outcome: &mut Outcome) {
        let hidden: Vec<NodeId> = self.observer.hidden().collect();
        let judged = || self.nodes().iter().filter(|(id, _)| !hidden.contains(id));
        let sum = |of: fn(&Node) -> u64| judged().map(|(_, node)| of(node)).sum::<u64>();
        let polled = sum(|node| node.requests(Request::Poll).sent);
        let lost = sum(|node| node.requests(Request::Poll).unanswered);
        let unasked = judged()
            .filter(|(id, _)| self.observer.sees_polls_of(**id))
            .map(|(_, node)| node.unsolicited)
            .sum::<u64>();
        let addresses = sum(|node| node.addresses);
        let foreign = sum(|node| node.foreign);
        let count = hidden.len() as u64;
        for (is_judged, name, value, unit) in [
            (count > 0, "hidden nodes", count, "nodes"),
            (count == 0 || polled > 0, "polls without a response in time", lost, "polls"),
            (!hidden.contains(&NodeId::MN), "unsolicited or late responses", unasked, "frames"),
            (true, "changes of the address of a node id", addresses, ""),
            (true, "frames from a foreign address", foreign, "frames"),
            (true, "malformed frames", self.frames().malformed, "frames"),
        ] {
            if is_judged {
                outcome.check(Check::eq(name, value, 0_u64, unit));
            }
        }
        self.fill(outcome, &hidden);
        if !hidden.is_empty() {
            outcome.figure("hidden nodes", self.hidden_nodes(&hidden));
            outcome.cause(
                "hidden nodes",
                "one direction of the bus is not visible here: frames that a node transmits bypass \
                 captures on its own interface; observe a bridge port or a mirror port between \
                  the nodes",
            );
            outcome.note(
                "polls and responses of the hidden nodes are not checked: observe a bridge port or \
                 a mirror port between the nodes",
            );
        }
    }

    /// Whether there are nodes whose own frames are not visible.
    #[must_use]
    pub fn has_hidden_nodes(&self) -> bool {
        self.observer.hidden().next().is_some()
    }

    fn hidden_nodes(&self, hidden: &[NodeId]) -> Counters {
        let mut table = Counters::new(["node", "polls", "responses", "finding"]);
        for id in hidden {
            let (polls, responses, finding) = if *id == NodeId::MN {
                let controlled = self.nodes().iter().filter(|(id, _)| **id != NodeId::MN);
                let responses = controlled.map(|(_, node)| node.responses).sum();
                (self.frames().preq, responses, "responses to its polls, and no poll")
            } else {
                let node = self.nodes()[id];
                let polls = node.requests(Request::Poll).sent;
                (polls, node.responses, "polls to it, and no frame of it")
            };
            table.row([Cell::from(id.to_string()), polls.into(), responses.into(), finding.into()]);
        }
        table
    }

    /// Adds the observations to a result, without checks.
    pub fn figures(&self, outcome: &mut Outcome) {
        self.fill(outcome, &[]);
    }

    /// Response times; polls to hidden nodes do not count as lost.
    fn answers(&self, hidden: &[NodeId]) -> Distribution {
        let mut answers = self.answers.figure();
        for id in hidden {
            let Some(polls) = self.nodes().get(id).map(|node| node.requests(Request::Poll)) else {
                continue;
            };
            let name = if self.polls.contains_key(id) { curve(*id) } else { FURTHER.to_owned() };
            if let Some(series) = answers.series.iter_mut().find(|series| series.name == name) {
                series.lost -= polls.unanswered;
            }
            answers.series.retain(|s| s.name != name || s.count > 0 || s.lost > 0);
        }
        answers
    }

    fn fill(&self, outcome: &mut Outcome, hidden: &[NodeId]) {
        outcome.figure("frames", frames(self.frames()));
        outcome.figure("nodes", nodes(&self.observer, hidden));
        if self.nodes().values().any(|node| node.identity.is_some()) {
            outcome.figure("identities", identities(self.nodes()));
        }
        if self.cycles.count(self.interval) > 0 {
            outcome.figure("cycle", self.cycles.figure());
        }
        let answers = self.answers(hidden);
        if !answers.series.is_empty() {
            outcome.figure("response time", answers);
        }
        if !self.observer.foreign().is_empty() {
            outcome.figure("foreign addresses", self.foreign());
        }
        outcome.figure("states", self.transitions());
        let left_out = self.left_out.count();
        if left_out > 0 {
            outcome.note(format!(
                "by RelativeTime {} left out, or without an observed SoC",
                format::count(left_out, "cycle")
            ));
        }
        if self.untimed > 0 {
            outcome.note(format!(
                "{} answered by the port, which does not report when",
                format::count(self.untimed, "poll")
            ));
        }
        if self.forgotten > 0 {
            outcome.note(format!(
                "states: the table leaves out the first {}",
                format::count(self.forgotten, "change")
            ));
        }
    }

    /// Senders that use the id of a node with another address.
    fn foreign(&self) -> Counters {
        let kinds = ["SoC", "PReq", "PRes", "SoA", "ASnd", "AMNI"].map(|kind| (kind, ""));
        let columns = [("node", ""), ("address", "")].into_iter().chain(kinds);
        let columns = columns.chain([("first time", "s"), ("last time", "s")]);
        let mut table = Counters::new(columns);
        let (start_ns, _) = self.span_ns.unwrap_or_default();
        let at_s = |ns: u64| Cell::from(ns.saturating_sub(start_ns) as f64 / 1e9);
        for ((node, mac), foreign) in self.observer.foreign() {
            let Frames { soc, preq, pres, soa, asnd, amni, .. } = foreign.frames;
            let cells = [Cell::from(node.to_string()), mac.to_string().into()];
            let counts = [soc, preq, pres, soa, asnd, amni].map(Cell::from);
            let times = [at_s(foreign.first_ns), at_s(foreign.last_ns)];
            table.row(cells.into_iter().chain(counts).chain(times));
        }
        table
    }

    /// Every change of a state, and every command.
    fn transitions(&self) -> Counters {
        let mut table = Counters::new([
            ("time", "s"),
            ("node", ""),
            ("previous state", ""),
            ("state or command", ""),
        ]);
        let (first, _) = self.span_ns.unwrap_or_default();
        for (time_ns, change) in &self.changes {
            let at = Cell::from(time_ns.saturating_sub(first) as f64 / 1e9);
            table.row(match *change {
                Change::State { node, from, to } => {
                    let from = from.map_or_else(|| "-".into(), |from| from.to_string());
                    [at, node.to_string().into(), from.into(), to.to_string().into()]
                }
                Change::Command { node, command } => {
                    let node =
                        if node == NodeId::BROADCAST { "all".into() } else { node.to_string() };
                    [at, node.into(), "".into(), command.to_string().into()]
                }
            });
        }
        table
    }

    /// The number of frames and their time span, as one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let (first, last) = self.span_ns.unwrap_or_default();
        let span = format::duration_ns(last.saturating_sub(first) as f64);
        format!("{} in {span}", format::count(self.frames().messages(), "POWERLINK frame"))
    }
}

fn curve(node: NodeId) -> String {
    format!("PRes of node {node}")
}

/// The series of a node's responses to a request.
fn name(node: NodeId, request: Request) -> String {
    match request {
        Request::Poll => curve(node),
        _ => format!("response to {request}"),
    }
}

/// The series for a node's responses to polls.
fn poll(
    node: NodeId,
    answers: &mut Recorder,
    polls: &mut BTreeMap<NodeId, PhaseId>,
    others: &mut Option<PhaseId>,
) -> PhaseId {
    if let Some(phase) = polls.get(&node) {
        return *phase;
    }
    if polls.len() < CURVES {
        let phase = answers.phase(&curve(node));
        polls.insert(node, phase);
        return phase;
    }
    *others.get_or_insert_with(|| answers.phase(FURTHER))
}

fn frames(frames: &Frames) -> Counters {
    let mut table = Counters::new(["kind", "frames"]);
    for (kind, count) in [
        ("SoC", frames.soc),
        ("PReq", frames.preq),
        ("PRes", frames.pres),
        ("SoA", frames.soa),
        ("ASnd", frames.asnd),
        ("AMNI", frames.amni),
        ("of other protocols", frames.foreign),
        ("malformed", frames.malformed),
    ] {
        table.row([Cell::from(kind), count.into()]);
    }
    table
}

/// One row for each node with frames or polls.
fn nodes(observer: &Observer, hidden: &[NodeId]) -> Counters {
    let mut table = Counters::new([
        "node",
        "address",
        "state",
        "polled",
        "no PRes",
        "other requests",
        "no response",
        "unsolicited or late",
        "slot",
    ]);
    for (node, known) in observer.nodes() {
        // A managing node looks for a diagnostic device permanently.
        if *node == NodeId::DIAGNOSTIC && known.mac.is_none() {
            continue;
        }
        let polls = known.requests(Request::Poll);
        let others = Request::ALL.iter().skip(1).map(|request| known.requests(*request));
        let (asked, unanswered) = others.fold((0, 0), |(asked, unanswered), requests| {
            (asked + requests.sent, unanswered + requests.unanswered)
        });
        let manager_is_hidden = hidden.contains(&NodeId::MN);
        let judged = |count: u64, is_hidden: bool| {
            if is_hidden { "hidden".into() } else { Cell::from(count) }
        };
        table.row([
            Cell::from(node.to_string()),
            known.mac.map_or_else(|| "unknown".into(), |mac| mac.to_string()).into(),
            known.state.map_or_else(String::new, |state| state.to_string()).into(),
            polls.sent.into(),
            judged(polls.unanswered, hidden.contains(node)),
            asked.into(),
            judged(unanswered, hidden.contains(node)),
            judged(known.unsolicited, manager_is_hidden || !observer.sees_polls_of(*node)),
            slot(known, observer.multiplexed_cycles()).into(),
        ]);
    }
    table
}

/// The cycle of a multiplexed cycle in which a node is polled.
fn slot(known: &Node, cycles: Option<u64>) -> String {
    match (known.slot, cycles) {
        (Some(slot), Some(cycles)) => format!("{slot} of {cycles}"),
        _ => String::new(),
    }
}

fn identities(nodes: &BTreeMap<NodeId, Node>) -> Counters {
    let mut table = Counters::new([
        "node",
        "device type",
        "vendor",
        "product",
        "revision",
        "serial number",
        "configured",
        "address",
        "host name",
    ]);
    let known = nodes.iter().filter_map(|(node, known)| Some((node, known.identity?)));
    for (node, identity) in known {
        let hex = |number: u32| format!("{number:#010x}");
        table.row([
            node.to_string(),
            hex(identity.device_type),
            hex(identity.vendor_id),
            hex(identity.product_code),
            hex(identity.revision_number),
            hex(identity.serial_number),
            // In the units of the objects: days since 1984, and milliseconds of the day.
            format!("{}/{}", identity.configuration_date, identity.configuration_time),
            identity.address.to_string(),
            identity.host_name.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use onbeat_report::{Figure, Run};

    /// The frames of a capture, from their offsets in a libpcap file.
    fn capture() -> Vec<(u64, Vec<u8>)> {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/powerlink/boot-1cn-mandatory.pcap");
        let octets = std::fs::read(path).expect(path);
        let number = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().expect("four"));
        let (mut at, mut frames) = (24, Vec::new());
        while at < octets.len() {
            let time_ns = u64::from(number(at)) * 1_000_000_000 + u64::from(number(at + 4));
            let len = number(at + 8) as usize;
            frames.push((time_ns, octets[at + 16..at + 16 + len].to_vec()));
            at += 16 + len;
        }
        frames
    }

    #[test]
    fn a_capture_becomes_a_result() {
        let mut bus = Bus::new();
        for (time_ns, frame) in capture() {
            bus.observe(time_ns, &frame);
        }
        let mut outcome = Run::begin("test").finish();
        bus.report(&mut outcome);
        assert!(outcome.ok(), "{:?}", outcome.checks);
        let Figure::Distribution(answers) = &outcome.figures["response time"] else { panic!() };
        let polls = answers.series.iter().find(|series| series.name == "PRes of node 1");
        let polls = polls.expect("node 1 was polled");
        assert_eq!((polls.count, polls.lost, polls.max), (134, 0, Some(77_443)));
        let Figure::Distribution(cycle) = &outcome.figures["cycle"] else { panic!() };
        assert_eq!(cycle.series[0].count, 142);
        let Figure::Counters(states) = &outcome.figures["states"] else { panic!() };
        let last = states.rows.last().expect("states were reported");
        assert_eq!(last[1..], ["1", "READY_TO_OPERATE", "OPERATIONAL"].map(Cell::from));
        let Figure::Counters(identities) = &outcome.figures["identities"] else { panic!() };
        assert_eq!(identities.rows.len(), 1);
        assert_eq!(bus.summary(), "2,712 POWERLINK frames in 8.49 s");
    }

    /// The result of the frames of the capture that the managing node sent, or of all others.
    fn one_direction(of_manager: bool) -> Outcome {
        let mut bus = Bus::new();
        for (time_ns, frame) in capture() {
            if (frame[16] == NodeId::MN.0) == of_manager {
                bus.observe(time_ns, &frame);
            }
        }
        assert!(bus.has_hidden_nodes());
        let mut outcome = Run::begin("test").finish();
        bus.report(&mut outcome);
        outcome
    }

    fn failed(outcome: &Outcome) -> Vec<&str> {
        outcome.checks.iter().filter(|c| !c.ok()).map(|c| c.name.as_str()).collect()
    }

    #[test]
    fn a_capture_of_one_direction_counts_no_poll_as_lost() {
        for (of_manager, node, seen) in [(true, "1", (134, 0)), (false, "240", (0, 134))] {
            let outcome = one_direction(of_manager);
            assert_eq!(failed(&outcome), ["hidden nodes"]);
            let polls = "polls without a response in time";
            assert!(outcome.checks.iter().all(|c| c.name != polls), "none can be checked");
            let Figure::Counters(hidden) = &outcome.figures["hidden nodes"] else { panic!() };
            let expected = [Cell::from(node), Cell::from(seen.0), Cell::from(seen.1)];
            assert_eq!(hidden.rows[0][..3], expected);
            assert!(outcome.notes.iter().any(|note| note.contains("mirror port")));
            if let Some(Figure::Distribution(answers)) = outcome.figures.get("response time") {
                assert!(answers.series.iter().all(|series| series.lost == 0), "{answers:?}");
            }
        }
    }

    #[test]
    fn an_empty_bus_has_no_figures() {
        let mut outcome = Run::begin("test").finish();
        Bus::new().report(&mut outcome);
        assert!(outcome.ok());
        assert!(!outcome.figures.contains_key("cycle"));
    }
}

//! Comparison of a node's counters with the captures.
//!
//! Without a disturbance since its start at 0, a counter must be exactly the captured number.
//! Otherwise, it must lie between the number certainly counted and the number possibly counted.

use super::super::spec::{Function, Span};
use super::element::{Acceptance, Arrival, Element};
use super::window::Window;
use super::{NodeStream, Rule, Verdict};

/// Counters of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCounters {
    /// By stream; `None`: the node reports that it has no such stream.
    pub streams: Vec<Option<StreamCounters>>,
    /// By port: frames that match no stream.
    pub unmatched: Vec<u64>,
    /// By port: stream packets received since the start of the daemon, including those of removed
    /// streams.
    pub inputs: Vec<u64>,
}

/// Counters of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamCounters {
    /// Port and 9.2.1 InputPackets of each member.
    pub inputs: Vec<(usize, u64)>,
    /// Port and packets discarded by individual recovery, of each member that has it.
    pub individual: Vec<(usize, u64)>,
    /// Port and 9.2.2 OutputPackets of each egress.
    pub outputs: Vec<(usize, u64)>,
    /// Counters of its sequence recovery.
    pub recovery: Option<RecoveryCounters>,
    /// GenSeqNum of its generator.
    pub next_number: Option<u16>,
}

/// Counters of a recovery function (10.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryCounters {
    /// Accepted packets.
    pub passed: u64,
    /// Discarded packets, including rogue ones.
    pub discarded: u64,
    /// Packets outside of the history.
    pub rogue: u64,
    /// Packets without a number.
    pub tagless: u64,
}

/// Minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct CounterRange {
    least: u64,
    most: u64,
}

impl CounterRange {
    fn exactly(value: u64) -> Self {
        Self { least: value, most: value }
    }

    fn add(&mut self, other: CounterRange) {
        self.least += other.least;
        self.most += other.most;
    }

    fn count<'a>(copies: impl Iterator<Item = &'a Arrival>, since: Span) -> Self {
        let mut range = Self::default();
        for copy in copies {
            range.least += u64::from(copy.sure && copy.at >= since.to);
            range.most += u64::from(copy.until >= since.from);
        }
        range
    }
}

/// The counters that a stream must have.
pub(super) struct ExpectedCounters {
    inputs: Vec<(usize, CounterRange)>,
    individual: Vec<(usize, CounterRange)>,
    accepted: CounterRange,
    discarded: CounterRange,
    rogue: CounterRange,
    tagless: CounterRange,
    /// By port: copies that arrived while the node did not have the stream.
    unmatched: Vec<CounterRange>,
    /// By port: copies that arrived since the start of the data plane, at most.
    came: Vec<u64>,
    function: Option<Function>,
}

impl ExpectedCounters {
    pub(super) fn new(place: NodeStream<'_>, element: &Element, window: &Window) -> Self {
        // Counters started at 0 with the last addition of the stream, or with the data plane.
        let since = place.last_reset(|_, _| true);
        let function = place.eras().last().and_then(|era| era.function.clone());
        let members = function.as_ref().map_or(&[][..], |function| &function.members);
        let came = || element.came.iter();
        let of_port =
            |port: usize| came().map(|(copy, _)| copy).filter(move |copy| copy.port == port);
        let inputs = members.iter().map(|port| {
            // A member's counter starts with the member.
            let has = |function: &Function| function.members.contains(port);
            let since = place.last_reset(|before, after| has(before) == has(after));
            let mut discarded = CounterRange::default();
            for (copy, passes) in came().filter(|(copy, _)| copy.port == *port) {
                if copy.number.is_some() && copy.until >= since.from {
                    let surely = *passes == Acceptance::Not && copy.sure && copy.at >= since.to;
                    discarded.least += u64::from(surely);
                    discarded.most += u64::from(*passes != Acceptance::Surely);
                }
            }
            ((*port, CounterRange::count(of_port(*port), since)), (*port, discarded))
        });
        let (inputs, individual) = inputs.unzip();
        let ports = place.case.nodes[place.node].1.len();
        // Counters of the port, which no addition or removal of a stream resets.
        let began = place.planes_end();
        let unmatched = (0..ports).map(|port| {
            let never = element.unmatched.iter().filter(|copy| copy.port == port);
            let mut range = CounterRange::count_settled(place, never, began);
            // A data plane may start its ports before its streams.
            let starting = |copy: &Arrival| copy.at <= began.to || place.had_not(copy);
            let maybe = of_port(port).filter(|copy| copy.until >= began.from && starting(copy));
            range.most += maybe.count() as u64;
            range
        });
        let came_by = |port| of_port(port).filter(|copy| copy.until >= began.from).count() as u64;
        let came = (0..ports).map(came_by).collect();
        let numbered = |copy: &&Arrival| copy.number.is_some();
        let all = CounterRange::count(element.ins.iter().filter(numbered), since);
        let tagless = CounterRange::count(element.ins.iter().filter(|copy| !numbered(copy)), since);
        let recover = function.as_ref().and_then(|function| function.recover);
        let mut accepted = match recover {
            Some(_) => {
                let (least, most) = window.count(since);
                CounterRange { least, most }
            }
            None => CounterRange::count(element.ins.iter(), since),
        };
        let discarded = CounterRange {
            least: all.least.saturating_sub(accepted.most),
            most: all.most.saturating_sub(accepted.least),
        };
        if recover.is_some_and(|recover| recover.take_no_sequence) {
            accepted.add(tagless);
        }
        let mut rogue = CounterRange::default();
        for copy in element.ins.iter().filter(|copy| copy.until >= since.from) {
            let Some(number) = copy.number else { continue };
            // During a change of the function, either one may have processed the copy.
            let eras = match copy.era {
                Some(era) => &place.eras()[era..=era],
                None => place.possible_eras(copy.span()),
            };
            let recovers = eras.iter().filter_map(|era| era.function.as_ref()?.recover);
            let mut recovers = recovers.peekable();
            let any = if recovers.peek().is_none() { place.any_recover() } else { None };
            let histories = recovers.chain(any).filter_map(|recover| recover.history);
            let found: Vec<(bool, bool)> =
                histories.map(|history| window.is_rogue(copy, number, history)).collect();
            let surely = copy.sure && found.iter().any(|(surely, _)| *surely);
            let possibly = found.iter().any(|(_, possibly)| *possibly);
            rogue.least += u64::from(surely && copy.at >= since.to);
            rogue.most += u64::from(possibly || !copy.sure && !found.is_empty());
        }
        let unmatched = unmatched.collect();
        Self { inputs, individual, accepted, discarded, rogue, tagless, unmatched, came, function }
    }
}

impl CounterRange {
    /// Copies that certainly arrived while the node did not have their stream.
    fn count_settled<'a>(
        place: NodeStream<'_>,
        copies: impl Iterator<Item = &'a Arrival>,
        since: Span,
    ) -> Self {
        let mut range = Self::default();
        for copy in copies {
            let settled = !place.is_away(copy.port, copy.span()) && copy.at >= since.to;
            range.least += u64::from(settled);
            range.most += u64::from(copy.until >= since.from);
        }
        range
    }
}

impl NodeStream<'_> {
    fn last_reset(&self, keeps: impl Fn(&Function, &Function) -> bool) -> Span {
        self.resets(keeps).into_iter().max_by_key(|span| span.to).unwrap_or_default()
    }

    /// The last restart of the node's data plane.
    fn planes_end(&self) -> Span {
        let taken = self.taken.iter().filter(|taken| taken.port.is_none());
        taken.map(|taken| taken.span).max_by_key(|span| span.to).unwrap_or_default()
    }

    /// Whether the node may not have had the stream at the copy's port when the copy arrived.
    fn had_not(&self, copy: &Arrival) -> bool {
        self.possible_eras(copy.span()).iter().any(|era| {
            era.function.as_ref().is_none_or(|function| !function.members.contains(&copy.port))
        })
    }

    fn any_recover(&self) -> Option<super::super::spec::Recovery> {
        let functions = self.eras().iter().filter_map(|era| era.function.as_ref());
        functions.filter_map(|function| function.recover).next_back()
    }
}

pub(super) fn check(any: NodeStream<'_>, through: &[ExpectedCounters], verdict: &mut Verdict) {
    let NodeStream { case, node, .. } = any;
    let Some(counted) = &case.counted[node] else { return };
    let ports = &case.nodes[node].1;
    let mut unmatched: Vec<CounterRange> =
        case.foreign[node].iter().map(|count| CounterRange::exactly(*count)).collect();
    for (stream, through) in through.iter().enumerate() {
        let place = NodeStream { stream, ..any };
        for (sum, more) in unmatched.iter_mut().zip(&through.unmatched) {
            sum.add(*more);
        }
        let mut compare = |what: String, value: u64, range: CounterRange| {
            hold(place, &what, value, range, verdict);
        };
        let counted = counted.streams[stream].as_ref();
        let (counted, function) = match (counted, &through.function) {
            (Some(counted), Some(function)) => (counted, function),
            (None, None) => continue,
            (counted, _) => {
                let had = u64::from(counted.is_some());
                compare("streams of this name".into(), had, CounterRange::exactly(1 - had));
                continue;
            }
        };
        for (port, range) in &through.inputs {
            let found = counted.inputs.iter().find(|(other, _)| other == port);
            let value = found.map_or(0, |(_, value)| *value);
            compare(format!("packets received by {}", ports[*port]), value, *range);
        }
        for (port, range) in &through.individual {
            let found = counted.individual.iter().find(|(other, _)| other == port);
            if let (Some((_, value)), Some(_)) = (found, function.individual_ms) {
                let what = format!("packets discarded by individual recovery at {}", ports[*port]);
                compare(what, *value, *range);
            }
        }
        for egress in &function.egress {
            let found = counted.outputs.iter().find(|(other, _)| *other == egress.port);
            let value = found.map_or(0, |(_, value)| *value);
            let what = format!("packets sent by {}", ports[egress.port]);
            compare(what, value, through.accepted);
        }
        if let (Some(recovery), Some(_)) = (&counted.recovery, function.recover) {
            compare("packets passed".into(), recovery.passed, through.accepted);
            compare("packets discarded".into(), recovery.discarded, through.discarded);
            compare("rogue packets".into(), recovery.rogue, through.rogue);
            compare("packets without a number".into(), recovery.tagless, through.tagless);
        }
    }
    for (port, range) in unmatched.into_iter().enumerate() {
        let what = format!("packets without a stream at {}", ports[port]);
        hold(any, &what, counted.unmatched[port], range, verdict);
    }
    for (port, name) in ports.iter().enumerate() {
        let members = counted.streams.iter().flatten().flat_map(|stream| &stream.inputs);
        let sum = members.filter(|(other, _)| *other == port).map(|(_, value)| value).sum();
        let what = format!("packets of all streams received by {name}");
        // Counters of streams that the node no longer has continue, except for packets that arrived
        // during a change.
        let most = through.iter().map(|through| through.came[port]).sum::<u64>().max(sum);
        hold(any, &what, counted.inputs[port], CounterRange { least: sum, most }, verdict);
    }
}

fn hold(place: NodeStream<'_>, what: &str, value: u64, range: CounterRange, verdict: &mut Verdict) {
    verdict.tally.counters += 1;
    verdict.tally.exact += u64::from(range.least == range.most);
    if (range.least..=range.most).contains(&value) {
        return;
    }
    let wanted = match range.least == range.most {
        true => range.least.to_string(),
        false => format!("{} to {}", range.least, range.most),
    };
    let text = format!("{what}: counted {value}, captured {wanted}");
    verdict.violate(place, Rule::Counters, None, 0, (text, Vec::new()));
}

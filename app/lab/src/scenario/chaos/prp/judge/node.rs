//! The rules of one node.

use std::collections::BTreeMap;

use onbeat_report::format::count;

use super::{
    Attachment, CapturePlace, Case, Content, Destination, JudgedFrame, Key, Lan, NodePort, Outage,
    Rule, Verdict,
};
use crate::scenario::chaos::spec::Span;

/// Maximum number of frames that leave between the number of a supervision frame and the frame: its sender can lose the CPU,
/// and programs send numbered frames in bulk.
const MAX_LATE: usize = 64;

/// A frame that entered this time before an outage may have been handled or not.
const MARGIN_NS: u64 = 300_000_000;

/// Copies further apart may both be delivered: a number is remembered for half of EntryForgetTime at least, of 400 ms.
const APART_NS: u64 = 190_000_000;

/// Frames of one key around a node.
#[derive(Default)]
struct Passage<'a> {
    host_in: Vec<&'a JudgedFrame<'a>>,
    host_out: Vec<&'a JudgedFrame<'a>>,
    lan_in: Vec<(Lan, &'a JudgedFrame<'a>)>,
    lan_out: [Vec<&'a JudgedFrame<'a>>; 2],
}

pub(super) fn judge(
    case: &Case<'_>,
    node: usize,
    frames: &[JudgedFrame<'_>],
    verdict: &mut Verdict,
) {
    let judged = JudgedNode {
        case,
        node,
        outages: case.outages.iter().filter(|outage| outage.node == node).collect(),
    };
    let mut passages: BTreeMap<Key, Passage<'_>> = BTreeMap::new();
    let mut sent: [Vec<&JudgedFrame<'_>>; 2] = Default::default();
    for frame in frames {
        let CapturePlace::Port(of, port) = frame.sighting.place else { continue };
        if of != node {
            continue;
        }
        if let (NodePort::Lan(lan), false) = (port, frame.sighting.entering) {
            sent[lan as usize].push(frame);
        }
        let Some(key) = frame.key() else { continue };
        let passage = passages.entry(key).or_default();
        match (port, frame.sighting.entering) {
            (NodePort::Host, true) => passage.host_in.push(frame),
            (NodePort::Host, false) => passage.host_out.push(frame),
            (NodePort::Lan(lan), true) => passage.lan_in.push((lan, frame)),
            (NodePort::Lan(lan), false) => passage.lan_out[lan as usize].push(frame),
        }
    }
    for (key, passage) in &passages {
        if case.sender(*key) == Some(Attachment::Node(node)) {
            judged.sent(*key, passage, verdict);
        } else {
            judged.delivered(*key, passage, verdict);
        }
    }
    for lan in Lan::BOTH {
        judged.numbers(lan, &sent[lan as usize], verdict);
    }
}

struct JudgedNode<'a> {
    case: &'a Case<'a>,
    node: usize,
    outages: Vec<&'a Outage>,
}

impl JudgedNode<'_> {
    fn name(&self) -> String {
        self.case.nodes[self.node].name.clone()
    }

    /// Whether an outage can affect a frame that enters at a time.
    fn is_disturbed(&self, at: u64, port: NodePort, sends: bool) -> bool {
        self.outages.iter().any(|outage| {
            outage.port.is_none_or(|of| of == port)
                && (sends || !outage.only_sending)
                && outage.span.from.saturating_sub(MARGIN_NS) <= at
                && at <= outage.span.to
        })
    }

    /// Whether the node lost its state within a span.
    fn restarted(&self, span: Span) -> bool {
        let mut of_node = self.outages.iter().filter(|outage| outage.port.is_none());
        of_node.any(|outage| outage.span.meets(span))
    }

    /// Judges a frame of a station behind the node.
    fn sent(&self, key: Key, passage: &Passage<'_>, verdict: &mut Verdict) {
        let out: Vec<_> = passage.host_out.clone();
        if !out.is_empty() {
            verdict.violate(Rule::Ghost, self.name(), "a station receives its own frame", &out);
        }
        let copies = passage.lan_out.each_ref().map(|copies| copies.first());
        if let [Some(a), Some(b)] = copies {
            let number = |frame: &JudgedFrame<'_>| frame.decoded.trailer.map(|t| t.number);
            if number(a) != number(b) {
                verdict.violate(Rule::Numbers, self.name(), "its copies have two numbers", &[a, b]);
            }
        }
        let Some(&entered) = passage.host_in.first() else {
            // Frames of its stations enter by the host port, before they leave.
            let out: Vec<_> = passage.lan_out.iter().flatten().copied().collect();
            if !out.is_empty() {
                verdict.violate(
                    Rule::Circulation,
                    self.name(),
                    "it did not enter by the host",
                    &out,
                );
            }
            return;
        };
        let at = entered.sighting.at;
        for lan in Lan::BOTH {
            let copies = &passage.lan_out[lan as usize];
            if copies.len() > 1 {
                let text = format!("{} copies on LAN {lan:?}", copies.len());
                verdict.violate(Rule::Sent, self.name(), text, copies);
                continue;
            }
            if self.is_local(key) {
                continue;
            }
            verdict.tally.checked += 1;
            let sends = !self.is_disturbed(at, NodePort::Host, true)
                && !self.is_disturbed(at, NodePort::Lan(lan), true);
            match copies.is_empty() {
                true if sends => {
                    let text = format!("no copy on LAN {lan:?}");
                    verdict.violate(Rule::Sent, self.name(), text, &[entered]);
                }
                true => verdict.tally.excused += 1,
                false => {}
            }
        }
    }

    /// Whether a stream is for another station behind this node: its frames may stay there.
    fn is_local(&self, key: Key) -> bool {
        let to = self.case.stream(key).map(|stream| stream.to);
        matches!(to, Some(Destination::Station(to)) if self.has_station(to))
    }

    fn has_station(&self, station: usize) -> bool {
        self.case.stations[station] == Some(Attachment::Node(self.node))
    }

    /// Judges a frame of a station elsewhere.
    fn delivered(&self, key: Key, passage: &Passage<'_>, verdict: &mut Verdict) {
        let returned: Vec<_> = passage.lan_out.iter().flatten().copied().collect();
        if !returned.is_empty() {
            let text = "no station behind the node sent it";
            verdict.violate(Rule::Circulation, self.name(), text, &returned);
        }
        let out = &passage.host_out;
        let entered = || passage.lan_in.iter().map(|(_, frame)| *frame);
        let Some(first) = entered().map(|frame| frame.sighting.at).min() else {
            if !out.is_empty() {
                verdict.violate(Rule::Ghost, self.name(), "no copy entered", out);
            }
            return;
        };
        if out.first().is_some_and(|out| out.sighting.at < first) {
            verdict.violate(Rule::Ghost, self.name(), "it left before a copy entered", out);
        }
        let last = entered().map(|frame| frame.sighting.at).max().unwrap_or(first);
        let is_sure = |(lan, frame): &(Lan, &JudgedFrame<'_>)| {
            let at = frame.sighting.at;
            !self.is_disturbed(at, NodePort::Lan(*lan), false)
                && !self.is_disturbed(at, NodePort::Host, false)
        };
        let sure = passage.lan_in.iter().filter(|copy| is_sure(copy)).count();
        let all = passage.lan_in.len();
        let is_tagged = entered().all(|frame| frame.decoded.trailer.is_some());
        let frames = || entered().chain(out.iter().copied()).collect::<Vec<_>>();
        let is_required = match self.case.stream(key).map(|stream| stream.to) {
            Some(Destination::Station(to)) => self.has_station(to),
            Some(Destination::Group(_) | Destination::Broadcast) => true,
            None => false,
        };
        // Without a trailer, a frame that arrives twice is delivered twice.
        let (least, most) = if is_tagged { (sure.min(1), 1) } else { (sure, all) };
        if is_required {
            verdict.tally.checked += 1;
            verdict.tally.excused += u64::from(out.is_empty() && sure == 0);
            if out.len() < least {
                let text = format!("{} of {all} copies entered undisturbed", sure);
                verdict.violate(Rule::Delivered, self.name(), text, &frames());
            }
        }
        if out.len() > most {
            let span = Span { from: first, to: last + MARGIN_NS };
            if is_tagged && (self.restarted(span) || last - first > APART_NS) {
                verdict.tally.repeated += 1;
            } else {
                let text =
                    format!("delivered {}, of {all} copies", count(out.len() as u64, "time"));
                verdict.violate(Rule::Once, self.name(), text, &frames());
            }
        }
        if let Some(delivered) = out.first() {
            let tally = &mut verdict.tally;
            tally.delivered += 1;
            tally.single += u64::from(is_tagged && all == 1);
            tally.discarded += (all - out.len().min(all)) as u64;
            let latency_ns = delivered.sighting.at.saturating_sub(first);
            tally.latency_ns = tally.latency_ns.max(latency_ns);
        }
    }

    /// Checks the numbers of frames that the node sent on a LAN.
    fn numbers(&self, lan: Lan, sent: &[&JudgedFrame<'_>], verdict: &mut Verdict) {
        for frame in sent {
            let own = frame.decoded.source == self.case.nodes[self.node].mac;
            if frame.decoded.content == Content::Supervision && !own {
                let text = "a supervision frame of another node";
                verdict.violate(Rule::Circulation, self.name(), text, &[frame]);
            }
        }
        let mut tagged: Vec<_> =
            sent.iter().copied().filter(|frame| frame.decoded.trailer.is_some()).collect();
        if self.case.nodes[self.node].in_kernel {
            move_supervision(&mut tagged);
        }
        for pair in tagged.windows(2) {
            let [before, after] = [pair[0], pair[1]];
            verdict.tally.numbers += 1;
            if number(after) == number(before).wrapping_add(1) {
                continue;
            }
            let span = Span { from: before.sighting.at, to: after.sighting.at };
            let is_excused = self.outages.iter().any(|outage| {
                outage.port.is_none_or(|port| port == NodePort::Lan(lan) || port == NodePort::Host)
                    && outage.span.meets(span)
            });
            if !is_excused {
                let text = format!("{} follows {} on LAN {lan:?}", number(after), number(before));
                verdict.violate(Rule::Numbers, self.name(), text, &[before, after]);
            }
        }
    }
}

fn number(frame: &JudgedFrame<'_>) -> u16 {
    frame.decoded.trailer.map_or(0, |trailer| trailer.number)
}

/// Moves each supervision frame behind those with earlier numbers, and before those with later ones.
fn move_supervision(sent: &mut [&JudgedFrame<'_>]) {
    let is_later = |frame: &JudgedFrame<'_>, than: u16| {
        (1..=MAX_LATE as u16).contains(&number(frame).wrapping_sub(than))
    };
    let is_earlier = |frame: &JudgedFrame<'_>, than: u16| {
        (1..=MAX_LATE as u16).contains(&than.wrapping_sub(number(frame)))
    };
    let supervision: Vec<_> = sent
        .iter()
        .copied()
        .filter(|frame| frame.decoded.content == Content::Supervision)
        .collect();
    for frame in supervision {
        let Some(at) = sent.iter().position(|sent| std::ptr::eq(*sent, frame)) else { continue };
        let own = number(frame);
        let before = sent[..at].iter().rev().take(MAX_LATE);
        let overtook = before.take_while(|frame| is_later(frame, own)).count();
        sent[at - overtook..=at].rotate_right(1);
        let at = at - overtook;
        let after = sent[at + 1..].iter().take(MAX_LATE);
        let overtaken = after.take_while(|frame| is_earlier(frame, own)).count();
        sent[at..=at + overtaken].rotate_left(1);
    }
}

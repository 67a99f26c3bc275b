//! Frames that entered and left a node, by stream, and the times by which the node had processed them.

use std::collections::HashMap;

use super::super::spec::{Disturbance, Era, Function, Span};
use super::element::{Acceptance, Arrival, Departure, Element};
use super::member::Member;
use super::{NodeStream, Sighting, TrialCase};

/// The maximum transit time of a frame without an observed exit: twice the longest observed transit at
/// about that time, plus this.
const GRACE_NS: u64 = 1_000_000;
/// "About that time": this number of slots before and after.
const SLOT_NS: u64 = 50_000_000;
/// Number of transits that must be observed there; otherwise those of all times are used.
const ENOUGH: usize = 20;

/// Frames that passed through a node.
pub(super) struct NodeTraffic {
    /// Frames that entered, each with the time by which the node had processed it, and by which its
    /// copies had left.
    ins: Vec<(Sighting, u64, u64)>,
    outs: Vec<Sighting>,
    /// Disturbances of the node.
    pub(super) taken: Vec<Disturbance>,
    pub(super) latency_ns: u64,
}

impl NodeTraffic {
    pub(super) fn new(case: &TrialCase, node: usize) -> Self {
        let here = || case.sightings.iter().filter(|sighting| sighting.node == node).copied();
        let ins: Vec<Sighting> = here().filter(|sighting| sighting.entering).collect();
        let outs: Vec<Sighting> = here().filter(|sighting| !sighting.entering).collect();
        let mut came: HashMap<(usize, u64), Vec<u64>> = HashMap::new();
        for sighting in &ins {
            came.entry((sighting.stream, sighting.sequence)).or_default().push(sighting.at);
        }
        let mut ways = TransitTimes::default();
        let mut first_out: HashMap<(usize, u64), u64> = HashMap::new();
        for out in &outs {
            let key = (out.stream, out.sequence);
            let first = first_out.entry(key).or_insert(out.at);
            *first = out.at.min(*first);
            let latest = came.get(&key).into_iter().flatten().filter(|at| **at <= out.at).max();
            if let Some(at) = latest {
                ways.add(*at, out.at - at);
            }
        }
        // A port processes frames in order: if a frame has left of which only one copy had arrived, all
        // frames before that copy have been processed.
        let mut evidence = vec![u64::MAX; case.nodes[node].1.len()];
        let mut until = vec![(0, 0); ins.len()];
        for (place, sighting) in ins.iter().enumerate().rev() {
            let key = (sighting.stream, sighting.sequence);
            if let (Some(came), Some(out)) = (came.get(&key), first_out.get(&key)) {
                let mut before = came.iter().filter(|at| **at <= *out);
                if before.next() == Some(&sighting.at) && before.next().is_none() {
                    let known = &mut evidence[sighting.port];
                    *known = (*known).min(*out);
                }
            }
            let gone = sighting.at + ways.bound(sighting.at);
            until[place] = (evidence[sighting.port].clamp(sighting.at, gone), gone);
        }
        let ins = ins.into_iter().zip(until).map(|(copy, (until, gone))| (copy, until, gone));
        let taken = case.disturbances.iter().filter(|taken| taken.node == node);
        let taken = taken.map(|taken| with_stall(taken, &outs)).collect();
        Self { ins: ins.collect(), outs, taken, latency_ns: ways.longest_ns }
    }

    pub(super) fn element(&self, place: NodeStream<'_>) -> Element {
        let bound_ns = 2 * self.latency_ns + GRACE_NS;
        let (mut came, mut unmatched) = (Vec::new(), Vec::new());
        let ports = place.case.nodes[place.node].1.len();
        let mut members: Vec<Member> = (0..ports).map(|_| Member::new(place)).collect();
        for (sighting, until, gone) in self.ins.iter().filter(|(s, ..)| s.stream == place.stream) {
            let span = Span { from: sighting.at, to: *until };
            let (era, possible) = (place.certain_era(span), place.possible_eras(span));
            let member = |function: &Function| function.members.contains(&sighting.port);
            let sure = era.and_then(|era| place.eras()[era].function.as_ref()).is_some_and(member)
                && !place.is_away(sighting.port, span);
            let copy = Arrival {
                sequence: sighting.sequence,
                port: sighting.port,
                at: sighting.at,
                until: *until,
                gone: *gone,
                number: sighting.number,
                era,
                sure,
                index: sighting.index,
            };
            let known = possible.iter().filter_map(|era| era.function.as_ref()).any(member);
            if known {
                came.push((copy, members[copy.port].copy(place, &copy)));
            } else {
                unmatched.push(copy);
            }
        }
        let reaches = |(copy, passes): &(Arrival, Acceptance)| match passes {
            Acceptance::Surely => Some(*copy),
            Acceptance::Maybe => Some(Arrival { sure: false, ..*copy }),
            Acceptance::Not => None,
        };
        let mut ins: Vec<Arrival> = came.iter().filter_map(reaches).collect();
        let of_stream = self.outs.iter().filter(|out| out.stream == place.stream);
        let mut outs: Vec<Departure> = of_stream
            .map(|out| Departure {
                sequence: out.sequence,
                port: out.port,
                at: out.at,
                sighting: *out,
            })
            .collect();
        // Stable: copies of a frame keep the order of their ports' captures.
        ins.sort_by_key(|copy| (copy.sequence, copy.at));
        outs.sort_by_key(|out| (out.sequence, out.at));
        Element { ins, came, outs, bound_ns, unmatched }
    }
}

/// A data plane that is stopped may have had no CPU time before, so that it lost all frames queued
/// since the last frame left.
fn with_stall(taken: &Disturbance, outs: &[Sighting]) -> Disturbance {
    let mut taken = taken.clone();
    if taken.port.is_none() {
        let before = outs.iter().map(|out| out.at).filter(|at| *at < taken.span.from);
        taken.span.from = before.max().unwrap_or(taken.span.from);
    }
    taken
}

/// Transit times of frames with an observed entry and exit.
#[derive(Default)]
struct TransitTimes {
    longest_ns: u64,
    /// By slot: the longest time, and the number.
    slots: HashMap<u64, (u64, usize)>,
}

impl TransitTimes {
    fn add(&mut self, at: u64, way_ns: u64) {
        self.longest_ns = self.longest_ns.max(way_ns);
        let slot = self.slots.entry(at / SLOT_NS).or_default();
        *slot = (slot.0.max(way_ns), slot.1 + 1);
    }

    /// The maximum transit time of a frame that entered at this time.
    fn bound(&self, at: u64) -> u64 {
        let slot = at / SLOT_NS;
        let near = (slot.saturating_sub(2)..=slot + 2).filter_map(|slot| self.slots.get(&slot));
        let (longest, seen) =
            near.fold((0, 0), |(most, seen), slot| (slot.0.max(most), slot.1 + seen));
        2 * if seen < ENOUGH { self.longest_ns } else { longest } + GRACE_NS
    }
}

impl<'a> NodeStream<'a> {
    /// The era that is in effect during the whole span.
    pub(super) fn certain_era(&self, span: Span) -> Option<usize> {
        let eras = self.eras();
        let era = eras.iter().rposition(|era| era.begins.to <= span.from)?;
        let next = eras.get(era + 1);
        next.is_none_or(|next| next.begins.from > span.to).then_some(era)
    }

    /// The eras that may be in effect within a span.
    pub(super) fn possible_eras(&self, span: Span) -> &'a [Era] {
        let eras: &'a [Era] = &self.case.eras[self.node][self.stream];
        let first = eras.iter().rposition(|era| era.begins.to <= span.from).unwrap_or(0);
        let end = eras.iter().rposition(|era| era.begins.from <= span.to).unwrap_or(0);
        &eras[first..=end.max(first)]
    }

    /// Whether the port, or the node's data plane, may have been unavailable within a span.
    pub(super) fn is_away(&self, port: usize, span: Span) -> bool {
        self.taken
            .iter()
            .any(|taken| taken.port.is_none_or(|other| other == port) && taken.span.meets(span))
    }

    /// The spans in which the functions may have been reset: by a change that requires it, by removal
    /// of the stream, or by a restart of the data plane.
    pub(super) fn resets(&self, keeps: impl Fn(&Function, &Function) -> bool) -> Vec<Span> {
        let changes = self.eras().windows(2).filter(|eras| {
            !matches!((&eras[0].function, &eras[1].function), (Some(a), Some(b)) if keeps(a, b))
        });
        let changes = changes.map(|eras| eras[1].begins);
        let taken = self.taken.iter().filter(|taken| taken.port.is_none());
        changes.chain(taken.map(|taken| taken.span)).collect()
    }
}

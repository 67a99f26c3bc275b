//! Traces of a correct node with a host and two paths, to be changed by tests.

use super::super::super::spec::{Egress, FrameHeaders, Function, Recovery};
use super::*;

pub(super) const MS: u64 = 1_000_000;
/// Transit time of a frame.
pub(super) const LATENCY: u64 = MS / 20;
/// Interval between frames.
pub(super) const PERIOD: u64 = MS;
pub(super) const FRAMES: u64 = 400;
pub(super) const GROUP: MacAddress = MacAddress([1, 0, 0x5e, 0, 0, 1]);
pub(super) const BEGIN: u64 = 1_000 * MS;

pub(super) fn headers(numbered: bool) -> FrameHeaders {
    FrameHeaders { destination: GROUP, vlan: Some(10), numbered }
}

pub(super) fn recover(history: Option<u16>) -> Recovery {
    Recovery { history, timeout_ms: 200, take_no_sequence: false }
}

/// Two ingress paths, one egress port.
pub(super) fn eliminator(history: Option<u16>) -> Function {
    Function {
        members: vec![1, 2],
        individual_ms: None,
        generate: false,
        recover: Some(recover(history)),
        egress: vec![Egress { port: 0, headers: headers(false) }],
    }
}

/// One ingress port, two egress paths.
pub(super) fn generator() -> Function {
    let egress = |port| Egress { port, headers: headers(true) };
    Function {
        members: vec![0],
        individual_ms: None,
        generate: true,
        recover: None,
        egress: vec![egress(1), egress(2)],
    }
}

/// One ingress port, one egress path.
pub(super) fn relay() -> Function {
    let egress = vec![Egress { port: 1, headers: headers(false) }];
    Function { members: vec![0], individual_ms: None, generate: false, recover: None, egress }
}

/// A node with a host and two paths, and one stream.
pub(super) struct Trace {
    pub(super) case: TrialCase,
}

impl Trace {
    pub(super) fn new(function: Function) -> Self {
        let ports = ["host", "path1", "path2"].map(Into::into).to_vec();
        let era = Era { begins: Span::default(), function: Some(function), step: None };
        let case = TrialCase {
            nodes: vec![("n".into(), ports)],
            streams: vec!["s".into()],
            eras: vec![vec![vec![era]]],
            foreign: vec![vec![0; 3]],
            counted: vec![None],
            ..TrialCase::default()
        };
        Self { case }
    }

    pub(super) fn add(
        &mut self,
        at: u64,
        port: usize,
        entering: bool,
        sequence: u64,
        number: Option<u16>,
    ) {
        let index = self.case.sightings.len();
        self.case.sightings.push(Sighting {
            at: BEGIN + at,
            node: 0,
            port,
            entering,
            stream: 0,
            sequence,
            number,
            destination: GROUP,
            vlan: Some(10),
            index,
        });
    }

    /// Every frame arrives by both paths, by the second one later; the first copy leaves.
    pub(super) fn eliminated(history: Option<u16>) -> Self {
        let mut trace = Self::new(eliminator(history));
        for sequence in 0..FRAMES {
            let (at, number) = (sequence * PERIOD, Some(sequence as u16));
            trace.add(at, 1, true, sequence, number);
            trace.add(at + LATENCY, 0, false, sequence, None);
            trace.add(at + PERIOD / 2, 2, true, sequence, number);
        }
        trace.case.counted = vec![Some(NodeCounters {
            streams: vec![Some(StreamCounters {
                inputs: vec![(1, FRAMES), (2, FRAMES)],
                individual: Vec::new(),
                outputs: vec![(0, FRAMES)],
                recovery: Some(RecoveryCounters {
                    passed: FRAMES,
                    discarded: FRAMES,
                    rogue: 0,
                    tagless: 0,
                }),
                next_number: None,
            })],
            unmatched: vec![0; 3],
            inputs: vec![0, FRAMES, FRAMES],
        })];
        trace
    }

    /// Every frame is numbered, starting with `first`, and leaves by both paths.
    pub(super) fn generated(first: u16) -> Self {
        let mut trace = Self::new(generator());
        for sequence in 0..FRAMES {
            let (at, number) = (sequence * PERIOD, first.wrapping_add(sequence as u16));
            trace.add(at, 0, true, sequence, None);
            trace.add(at + LATENCY, 1, false, sequence, Some(number));
            trace.add(at + LATENCY, 2, false, sequence, Some(number));
        }
        trace.case.counted = vec![Some(NodeCounters {
            streams: vec![Some(StreamCounters {
                inputs: vec![(0, FRAMES)],
                individual: Vec::new(),
                outputs: vec![(1, FRAMES), (2, FRAMES)],
                recovery: None,
                next_number: Some(first.wrapping_add(FRAMES as u16)),
            })],
            unmatched: vec![0; 3],
            inputs: vec![FRAMES, 0, 0],
        })];
        trace
    }

    /// The index of the sighting of a frame at a port.
    pub(super) fn find(&self, port: usize, entering: bool, sequence: u64) -> usize {
        let wanted = (port, entering, sequence);
        let all = &self.case.sightings;
        all.iter().position(|s| (s.port, s.entering, s.sequence) == wanted).unwrap()
    }

    pub(super) fn remove(&mut self, port: usize, entering: bool, sequence: u64) -> Sighting {
        let place = self.find(port, entering, sequence);
        self.case.sightings.remove(place)
    }

    pub(super) fn frame(&mut self, port: usize, entering: bool, sequence: u64) -> &mut Sighting {
        let place = self.find(port, entering, sequence);
        &mut self.case.sightings[place]
    }

    pub(super) fn disturb(&mut self, port: Option<usize>, from: u64, to: u64) {
        let span = Span { from: BEGIN + from, to: BEGIN + to };
        self.case.disturbances.push(Disturbance { node: 0, port, span, step: 0 });
    }

    /// Sorts the captured frames by time.
    pub(super) fn sorted(mut self) -> Self {
        self.case.sightings.sort_by_key(|sighting| sighting.at);
        for (index, sighting) in self.case.sightings.iter_mut().enumerate() {
            sighting.index = index;
        }
        self
    }

    /// Removes the counters.
    pub(super) fn uncounted(mut self) -> Self {
        self.case.counted = vec![None];
        self
    }

    pub(super) fn rules(&self) -> Vec<Rule> {
        check(&self.case).violations.iter().map(|violation| violation.rule).collect()
    }

    #[track_caller]
    pub(super) fn breaks(&self, rules: &[Rule]) {
        let verdict = check(&self.case);
        assert_eq!(self.rules(), rules, "{:#?}", verdict.violations);
    }
}

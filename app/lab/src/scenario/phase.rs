//! The phases of a run, and which frames are of which. Tables and checks go by the same.

use onbeat_realtime::clock::now_ns;
use onbeat_report::PhaseState;

use super::flow::Flow;
use crate::Result;
use crate::traffic::Delivery;

/// A part of the run.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) state: PhaseState,
    /// By flow.
    first: Vec<FirstFrames>,
}

/// Number of a phase's first frame in a flow, of the frames that arrived and of those that are lost.
///
/// A change of the network takes time, and frames are on their way meanwhile. Neither when a frame
/// was sent nor its number alone tells which side of the change decided what became of it:
///
/// ```text
///              a path is taken away           a path is given back
///   ---- arrived ----|-- on their way --|------------|-- sent meanwhile --|----------
///            before.complete      after.begun   before.begun        after.begun
/// ```
///
/// What is on its way when a path is taken away may be lost by that: it is of the phase before where
/// it arrives, and of the phase that begins where it is lost. What is sent while a path is given
/// back may be too early: it is of the phase that begins where it arrives, and of the phase before
/// where it is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FirstFrames {
    arrived: u64,
    lost: u64,
}

/// How far flows are at a moment. Numbers are by flow.
#[derive(Debug, Clone)]
struct FlowProgress {
    at_ns: u64,
    /// Frames below had arrived.
    complete: Vec<u64>,
    /// Frames below had begun to be sent; no other one arrived before `at_ns`.
    begun: Vec<u64>,
}

impl FlowProgress {
    fn now(flows: &[Flow]) -> Self {
        let complete = flows.iter().map(Flow::complete_below).collect();
        let at_ns = now_ns();
        Self { at_ns, complete, begun: flows.iter().map(Flow::begun).collect() }
    }
}

/// The phases of a run, one after the other.
#[derive(Debug, Default)]
pub(super) struct PhaseLog {
    phases: Vec<Phase>,
}

impl PhaseLog {
    /// Ends the phase that there is, changes the network, and begins another phase.
    pub(super) fn begin(
        &mut self,
        name: impl Into<String>,
        state: PhaseState,
        flows: &[Flow],
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let before = FlowProgress::now(flows);
        change()?;
        let restored = self.state() == Some(PhaseState::Down) && state != PhaseState::Down;
        self.push(name, state, &before, &FlowProgress::now(flows));
        if let (true, Some(phase)) = (restored, self.phases.last()) {
            // What is missing below is lost; what counts from now on is what is sent now.
            flows.iter().zip(&phase.first).for_each(|(flow, first)| flow.expect_from(first.lost));
        }
        Ok(())
    }

    /// Ends the last phase.
    pub(super) fn end(&mut self) {
        if let Some(last) = self.phases.last_mut() {
            last.to_ns = now_ns();
        }
    }

    pub(super) fn phases(&self) -> &[Phase] {
        &self.phases
    }

    /// The phase of frame number `frame` of flow number `flow`, of which `delivery` tells.
    pub(super) fn phase_of(&self, flow: usize, delivery: &Delivery, frame: u64) -> usize {
        let arrived = delivery.record.arrival_ns(frame).is_some();
        let begins = |phase: &Phase| {
            let first = phase.first[flow];
            frame >= if arrived { first.arrived } else { first.lost }
        };
        self.phases.iter().rposition(begins).unwrap_or(0)
    }

    /// Frames of phase number `phase` that are lost, of flow number `flow`.
    pub(super) fn lost(&self, phase: usize, flow: usize, delivery: &Delivery) -> u64 {
        let lost = delivery.lost.iter().flat_map(|gap| gap.first..gap.first + gap.frames);
        lost.filter(|frame| self.phase_of(flow, delivery, *frame) == phase).count() as u64
    }

    fn state(&self) -> Option<PhaseState> {
        self.phases.last().map(|phase| phase.state)
    }

    fn push(
        &mut self,
        name: impl Into<String>,
        state: PhaseState,
        before: &FlowProgress,
        after: &FlowProgress,
    ) {
        let last = self.phases.last_mut();
        let first = match &last {
            None => vec![FirstFrames::default(); before.begun.len()],
            Some(last) => {
                let firsts = last.first.iter().enumerate();
                firsts
                    .map(|(flow, was)| first(last.state, state, flow, *was, before, after))
                    .collect()
            }
        };
        if let Some(last) = last {
            last.to_ns = before.at_ns;
        }
        let (from_ns, to_ns) = (before.at_ns, after.at_ns);
        self.phases.push(Phase { name: name.into(), from_ns, to_ns, state, first });
    }
}

/// Where a phase begins in a flow; `was`: where the one before it does.
fn first(
    from: PhaseState,
    to: PhaseState,
    flow: usize,
    was: FirstFrames,
    before: &FlowProgress,
    after: &FlowProgress,
) -> FirstFrames {
    let paths = |state| match state {
        PhaseState::Up => 2,
        PhaseState::Degraded => 1,
        PhaseState::Down => 0,
    };
    FirstFrames {
        // Where a path is left it has carried what was sent meanwhile.
        arrived: match to {
            PhaseState::Down => after.begun[flow],
            PhaseState::Up | PhaseState::Degraded => before.begun[flow],
        },
        lost: if paths(to) > paths(from) {
            after.begun[flow]
        } else {
            // A frame lost long ago is waited for still: it is not of this phase.
            before.complete[flow].max(was.lost)
        },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::traffic::{Rate, SourceReport, Stamp, StreamRecord};

    /// 100 frames, one each ns from 1000 on, of which `arrives` says when they arrive.
    pub(in super::super) fn delivery(arrives: impl Fn(u64) -> Option<u64>) -> Delivery {
        let source = SourceReport {
            stream: 1,
            sent: 100,
            retries: 0,
            latest_ns: 0,
            start_ns: 1000,
            end_ns: 1100,
            rate: Rate::PerSecond(1_000_000_000),
        };
        let mut record = StreamRecord::default();
        for sequence in 0..100 {
            let actual_ns = 1000 + sequence;
            let stamp = Stamp { stream: 1, sequence, intended_ns: actual_ns, actual_ns };
            if let Some(at) = arrives(sequence) {
                assert!(record.take(&stamp, at));
            }
        }
        Delivery::new(source, record)
    }

    fn moment(at_ns: u64, complete: u64, begun: u64) -> FlowProgress {
        FlowProgress { at_ns, complete: vec![complete], begun: vec![begun] }
    }

    /// One path goes when frame 20 is sent, and 18 and 19 are on their way; the other when 41 is, and
    /// 40 is on its way, which takes until 42. One comes back when 58 is sent, which takes until 60,
    /// and the other when 80 is.
    pub(in super::super) fn course() -> PhaseLog {
        let mut course = PhaseLog::default();
        let start = moment(1000, 0, 0);
        course.push("both up", PhaseState::Up, &start, &start);
        course.push("one down", PhaseState::Degraded, &moment(1020, 18, 20), &moment(1021, 19, 21));
        course.push("both down", PhaseState::Down, &moment(1041, 40, 41), &moment(1042, 40, 42));
        course.push("one up", PhaseState::Degraded, &moment(1058, 40, 58), &moment(1060, 40, 60));
        course.push("both up again", PhaseState::Up, &moment(1080, 79, 80), &moment(1082, 81, 82));
        course.phases.last_mut().unwrap().to_ns = 1100;
        course
    }

    /// By phase, the first and the last of the frames that arrived, or of those that are lost, if
    /// all do.
    fn of_phases(arrive: bool) -> Vec<(u64, u64)> {
        let (course, delivery) = (course(), delivery(|frame| arrive.then_some(1000 + frame)));
        let phase_of: Vec<_> = (0..100).map(|n| course.phase_of(0, &delivery, n)).collect();
        assert!(phase_of.is_sorted());
        let phases = 0..course.phases().len();
        let first = |phase| phase_of.iter().position(|of| *of == phase).unwrap() as u64;
        let last = |phase| phase_of.iter().rposition(|of| *of == phase).unwrap() as u64;
        phases.map(|phase| (first(phase), last(phase))).collect()
    }

    #[test]
    fn a_frame_that_arrived_is_of_the_phase_whose_paths_carried_it() {
        assert_eq!(of_phases(true), [(0, 19), (20, 41), (42, 57), (58, 79), (80, 99)]);
    }

    #[test]
    fn a_frame_that_is_lost_is_of_the_phase_that_lost_it() {
        assert_eq!(of_phases(false), [(0, 17), (18, 39), (40, 59), (60, 81), (82, 99)]);
    }

    #[test]
    fn phases_join_in_time() {
        let phases = course().phases;
        assert!(phases.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        assert_eq!((phases[0].from_ns, phases[4].to_ns), (1000, 1100));
    }

    #[test]
    fn a_loss_of_long_ago_stays_where_it_was() {
        let mut course = PhaseLog::default();
        let start = moment(1000, 0, 0);
        course.push("up", PhaseState::Up, &start, &start);
        // Frame 5 is lost, so nothing after it counts as complete.
        course.push("one down", PhaseState::Degraded, &moment(1020, 5, 20), &moment(1021, 5, 21));
        course.push("up again", PhaseState::Up, &moment(1040, 5, 40), &moment(1041, 5, 41));
        course.push("down", PhaseState::Down, &moment(1060, 5, 60), &moment(1061, 5, 61));
        let gone = |n: u64| n == 5 || n >= 60;
        let delivery = delivery(|n| Some(1000 + n).filter(|_| !gone(n)));
        let lost: Vec<_> = (0..4).map(|phase| course.lost(phase, 0, &delivery)).collect();
        assert_eq!(lost, [0, 1, 0, 40]);
    }
}

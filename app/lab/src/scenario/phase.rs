//! The phases of a run, and the assignment of frames to them, for tables and checks.

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

/// The first frame number of a phase in a flow, for arrived and for lost frames.
///
/// A change of the network takes time, and frames are in flight meanwhile. Neither the time of
/// transmission nor the number of a frame determines whether the old or the new state decided on it:
///
/// ```text
///              a path is removed              a path is restored
///   ---- arrived ----|-- in flight -----|------------|-- sent meanwhile --|----------
///            before.complete      after.begun   before.begun        after.begun
/// ```
///
/// A path removal may lose frames in flight: these belong to the previous phase if they arrive, and to
/// the new phase if they are lost. Frames sent during a path restoration may be too early: they belong
/// to the new phase if they arrive, and to the previous phase if they are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FirstFrames {
    arrived: u64,
    lost: u64,
}

/// Progress of the flows at one time. Numbers are by flow.
#[derive(Debug, Clone)]
struct FlowProgress {
    at_ns: u64,
    /// Frames below this number had arrived.
    complete: Vec<u64>,
    /// The transmission of frames below this number had started; no other one arrived before `at_ns`.
    begun: Vec<u64>,
}

impl FlowProgress {
    fn now(flows: &[Flow]) -> Self {
        let complete = flows.iter().map(Flow::complete_below).collect();
        let at_ns = now_ns();
        Self { at_ns, complete, begun: flows.iter().map(Flow::begun).collect() }
    }
}

/// The phases of a run, in order.
#[derive(Debug, Default)]
pub(super) struct PhaseLog {
    phases: Vec<Phase>,
}

impl PhaseLog {
    /// Ends the current phase, changes the network, and starts another phase.
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
            // Missing frames below are lost; from now on, only frames sent now count.
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

    /// The phase of frame number `frame` of flow number `flow`, which has this `delivery`.
    pub(super) fn phase_of(&self, flow: usize, delivery: &Delivery, frame: u64) -> usize {
        let arrived = delivery.record.arrival_ns(frame).is_some();
        let begins = |phase: &Phase| {
            let first = phase.first[flow];
            frame >= if arrived { first.arrived } else { first.lost }
        };
        self.phases.iter().rposition(begins).unwrap_or(0)
    }

    /// Lost frames of flow number `flow` in phase number `phase`.
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

/// The first frames of a phase in a flow; `was`: those of the previous phase.
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
        // If a path is still up, it carried the frames sent meanwhile.
        arrived: match to {
            PhaseState::Down => after.begun[flow],
            PhaseState::Up | PhaseState::Degraded => before.begun[flow],
        },
        lost: if paths(to) > paths(from) {
            after.begun[flow]
        } else {
            // A frame lost earlier is still awaited: it does not belong to this phase.
            before.complete[flow].max(was.lost)
        },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::traffic::{Rate, SourceReport, Stamp, StreamRecord};

    /// 100 frames, one per ns starting at 1000; `arrives` returns the arrival times.
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

    /// One path is cut when frame 20 is sent, with 18 and 19 in flight; the other at frame 41, with 40
    /// in flight, until 42. One is restored at frame 58, until 60, and the other at frame 80.
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

    /// By phase, the first and the last arrived frame, or lost frame, if all arrive or all are lost.
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
    fn an_arrived_frame_belongs_to_the_phase_whose_paths_carried_it() {
        assert_eq!(of_phases(true), [(0, 19), (20, 41), (42, 57), (58, 79), (80, 99)]);
    }

    #[test]
    fn a_lost_frame_belongs_to_the_phase_that_lost_it() {
        assert_eq!(of_phases(false), [(0, 17), (18, 39), (40, 59), (60, 81), (82, 99)]);
    }

    #[test]
    fn phases_are_contiguous_in_time() {
        let phases = course().phases;
        assert!(phases.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        assert_eq!((phases[0].from_ns, phases[4].to_ns), (1000, 1100));
    }

    #[test]
    fn an_earlier_loss_keeps_its_phase() {
        let mut course = PhaseLog::default();
        let start = moment(1000, 0, 0);
        course.push("up", PhaseState::Up, &start, &start);
        // Frame 5 is lost, so no frame after it counts as complete.
        course.push("one down", PhaseState::Degraded, &moment(1020, 5, 20), &moment(1021, 5, 21));
        course.push("up again", PhaseState::Up, &moment(1040, 5, 40), &moment(1041, 5, 41));
        course.push("down", PhaseState::Down, &moment(1060, 5, 60), &moment(1061, 5, 61));
        let gone = |n: u64| n == 5 || n >= 60;
        let delivery = delivery(|n| Some(1000 + n).filter(|_| !gone(n)));
        let lost: Vec<_> = (0..4).map(|phase| course.lost(phase, 0, &delivery)).collect();
        assert_eq!(lost, [0, 1, 0, 40]);
    }
}

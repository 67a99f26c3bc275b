//! Phases with and without a path, and the losses permitted in them, derived from the frames
//! themselves, without an assumption about durations.
//!
//! Frames in flight at the cut may arrive or not ([`PhaseLog::phase_of`]). Frames sent after it cannot
//! arrive before the restoration starts; frames queued until then may arrive after it. All frames sent
//! after the restoration must arrive.

use onbeat_report::format::count;
use onbeat_report::{Check, PhaseState};

use super::flow::{Flow, FlowResult};
use super::phase::PhaseLog;
use super::stage::Stage;
use crate::Result;
use crate::World;
use crate::traffic::Delivery;
use crate::world::CutEnds;

/// Names of the links of both paths.
const PATHS: [&str; 2] = ["path1", "path2"];

/// A step of a scenario: state of the paths, duration, name.
pub(super) struct PhaseStep {
    pub(super) name: String,
    pub(super) up: [bool; 2],
    pub(super) for_ns: u64,
}

impl PhaseStep {
    pub(super) fn new(name: impl Into<String>, up: [bool; 2], for_ns: u64) -> Self {
        Self { name: name.into(), up, for_ns }
    }

    fn state(&self) -> PhaseState {
        match self.up {
            [true, true] => PhaseState::Up,
            [false, false] => PhaseState::Down,
            _ => PhaseState::Degraded,
        }
    }
}

/// Plays the steps; both paths are up at the start. The last step has a path.
pub(super) fn play(
    stage: &mut Stage<'_>,
    world: &World,
    flows: &[Flow],
    steps: &[PhaseStep],
) -> Result<PhaseLog> {
    let mut course = PhaseLog::default();
    let mut up = [true, true];
    for (number, step) in (1..).zip(steps) {
        course.begin(&step.name, step.state(), flows, || change(world, up, step.up))?;
        up = step.up;
        let what = format!("phase {number} of {}: {}", steps.len(), step.name);
        stage.pass(&what, flows, step.for_ns)?;
    }
    course.end();
    Ok(course)
}

/// Cuts before it restores, the second path first: while all paths are cut, no frame passes by a path
/// that is about to be cut.
fn change(world: &World, from: [bool; 2], to: [bool; 2]) -> Result<()> {
    for path in [1, 0] {
        if from[path] && !to[path] {
            world.cut(PATHS[path], CutEnds::Both)?;
        }
    }
    for path in [1, 0] {
        if !from[path] && to[path] {
            world.restore(PATHS[path])?;
        }
    }
    Ok(())
}

/// Lost and delivered frames of all flows, by cause.
#[derive(Debug, Default, PartialEq, Eq)]
struct OutageTotals {
    /// Frames lost although a path was up.
    unprotected: u64,
    /// Frames sent after the cut that arrived before the restoration started.
    ghosts: u64,
    /// Frames lost in outages.
    lost: u64,
    /// Frames sent in outages, from the first lost frame to the last.
    sent: u64,
    /// Frames sent in outages that arrived after the start of the restoration: they were queued before
    /// a node.
    waited: u64,
}

/// Evaluates the delivery of flow number `flow`.
fn totals(flow: usize, delivery: &Delivery, course: &PhaseLog) -> OutageTotals {
    let mut verdict = OutageTotals::default();
    // By phase: the first and the last lost frame.
    let mut spans = vec![None; course.phases().len()];
    for frame in 0..delivery.sent() {
        let place = course.phase_of(flow, delivery, frame);
        let phase = &course.phases()[place];
        let outage = phase.state == PhaseState::Down;
        match delivery.record.arrival_ns(frame) {
            None if outage => {
                verdict.lost += 1;
                spans[place].get_or_insert((frame, frame)).1 = frame;
            }
            None => verdict.unprotected += 1,
            Some(arrival) if outage && arrival < phase.to_ns => verdict.ghosts += 1,
            Some(_) if outage => verdict.waited += 1,
            Some(_) => {}
        }
    }
    verdict.sent = spans.into_iter().flatten().map(|(first, last)| last - first + 1).sum();
    verdict
}

/// Adds the checks that hold on any machine.
pub(super) fn check(stage: &mut Stage<'_>, flowed: &[FlowResult], course: &PhaseLog) {
    let mut all = OutageTotals::default();
    for (place, flow) in flowed.iter().enumerate() {
        let verdict = totals(place, &flow.delivery, course);
        all.unprotected += verdict.unprotected;
        all.ghosts += verdict.ghosts;
        all.lost += verdict.lost;
        all.sent += verdict.sent;
        all.waited += verdict.waited;
    }
    if all.waited > 0 {
        stage.note(format!(
            "{} sent without a path were queued until a path was up, and arrived",
            count(all.waited, "frame")
        ));
    }
    stage.check(Check::eq("lost while a path was up", all.unprotected, 0_u64, "frames"));
    if course.phases().iter().any(|phase| phase.state == PhaseState::Down) {
        stage.check(Check::eq("arrived while no path was up", all.ghosts, 0_u64, "frames"));
        // Of those sent from the first lost one to the last: all.
        stage.check(Check::eq("lost while no path was up", all.lost, all.sent, "frames"));
        stage.check(Check::min("lost while no path was up, minimum", all.lost, 1_u64, "frames"));
    }
    check_clean(stage, flowed);
}

/// Adds the checks that hold in every scenario with vector recovery.
pub(super) fn check_clean(stage: &mut Stage<'_>, flowed: &[FlowResult]) {
    let sum = |count: fn(&FlowResult) -> u64| flowed.iter().map(count).sum::<u64>();
    let duplicated = sum(|flow| flow.delivery.record.duplicated());
    stage.check(Check::eq("duplicated", duplicated, 0_u64, "frames"));
    stage.check(Check::eq(
        "changed in transit (octets, VLAN tag, R-TAG not removed)",
        sum(|flow| flow.changed),
        0_u64,
        "frames",
    ));
}

#[cfg(test)]
mod tests {
    use super::super::phase::tests::{course, delivery};
    use super::*;

    fn totals_of(arrives: impl Fn(u64) -> Option<u64>) -> OutageTotals {
        totals(0, &delivery(arrives), &course())
    }

    fn at_once(frame: u64) -> Option<u64> {
        Some(1000 + frame)
    }

    #[test]
    fn frames_sent_in_an_outage_are_lost() {
        // In flight at the cut: may arrive or be lost; and late ones after it.
        for (first, last) in [(40, 59), (41, 58), (42, 57)] {
            let verdict = totals_of(|n| at_once(n).filter(|_| !(first..=last).contains(&n)));
            let lost = last - first + 1;
            assert_eq!(verdict, OutageTotals { lost, sent: lost, ..OutageTotals::default() });
        }
    }

    #[test]
    fn a_loss_before_or_after_an_outage_is_a_violation() {
        for lost in [0, 39, 60, 99] {
            let gone = |n: u64| n == lost || (42..58).contains(&n);
            assert_eq!(totals_of(|n| at_once(n).filter(|_| !gone(n))).unprotected, 1, "{lost}");
        }
    }

    #[test]
    fn a_frame_delivered_without_a_path_is_a_violation() {
        let gone = |n: u64| (42..58).contains(&n) && n != 50;
        let verdict = totals_of(|n| at_once(n).filter(|_| !gone(n)));
        assert_eq!((verdict.ghosts, verdict.lost, verdict.sent), (1, 15, 16));
    }

    #[test]
    fn a_frame_queued_until_the_restoration_is_no_violation() {
        let gone = |n: u64| (42..57).contains(&n);
        let late = |n: u64| if n == 57 { Some(1058) } else { at_once(n) };
        let verdict = totals_of(|n| late(n).filter(|_| !gone(n)));
        assert_eq!(
            verdict,
            OutageTotals { lost: 15, sent: 15, waited: 1, ..OutageTotals::default() }
        );
    }

    #[test]
    fn losses_by_phase_match_the_checks() {
        // Frames in flight at a cut and frames sent during a restoration are lost as well.
        for gone in [40..60, 41..59, 42..58, 39..61, 17..20, 0..100] {
            let delivery = delivery(|n| at_once(n).filter(|_| !gone.contains(&n)));
            let course = course();
            let verdict = totals(0, &delivery, &course);
            let lost_in = |down: bool| {
                let phases = course.phases().iter().enumerate();
                let chosen = phases.filter(|(_, phase)| (phase.state == PhaseState::Down) == down);
                chosen.map(|(place, _)| course.lost(place, 0, &delivery)).sum::<u64>()
            };
            assert_eq!((lost_in(true), lost_in(false)), (verdict.lost, verdict.unprotected));
            assert_eq!(verdict.lost + verdict.unprotected, delivery.lost());
        }
    }
}

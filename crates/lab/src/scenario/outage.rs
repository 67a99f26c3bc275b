//! Phases with and without a path, and what may be lost in them: told by the frames themselves,
//! without an assumption on how long anything takes.
//!
//! ```text
//!   frames of a stream, by number:
//!
//!   ---- arrived ----|-- on their way --|------ sent without a path ------|--- sent with one ---
//!           complete_before         begun_after                     begun_restored
//!                  (both links are being cut)             (the first is being restored)
//! ```
//!
//! Frames that were on their way at the cut may arrive or not. Those sent after it cannot arrive
//! before the restoration begins; those that wait for a CPU that long may arrive after. Whatever
//! is sent after the restoration must arrive.

use onbeat_report::{Check, PhaseState};

use super::flow::{Flow, Flowed};
use super::stage::Stage;
use crate::Result;
use crate::World;
use crate::clock::now_ns;
use crate::traffic::Delivery;
use crate::world::Ends;

/// The names of the paths' links.
const PATHS: [&str; 2] = ["path1", "path2"];

/// A part of the run.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) state: PhaseState,
}

/// A time without a path. Numbers are by flow.
#[derive(Debug, Clone, Default)]
pub(super) struct Outage {
    complete_before: Vec<u64>,
    begun_after: Vec<u64>,
    restored_from_ns: u64,
    begun_restored: Vec<u64>,
}

/// What a scenario wants: paths that are up, for how long, under which name.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) up: [bool; 2],
    pub(super) for_ns: u64,
}

impl Step {
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

/// Plays the steps; both paths are up at the beginning. The last step has a path.
pub(super) fn play(
    stage: &mut Stage<'_>,
    world: &World,
    flows: &[Flow],
    steps: &[Step],
) -> Result<(Vec<Phase>, Vec<Outage>)> {
    let (mut phases, mut outages) = (Vec::new(), Vec::new());
    let mut up = [true, true];
    let mut outage: Option<Outage> = None;
    for step in steps {
        let complete: Vec<u64> = flows.iter().map(Flow::complete_below).collect();
        let from_ns = now_ns();
        change(world, up, step.up)?;
        let begun: Vec<u64> = flows.iter().map(Flow::begun).collect();
        match (&mut outage, step.state()) {
            (None, PhaseState::Down) => {
                let (complete_before, begun_after) = (complete, begun);
                outage = Some(Outage { complete_before, begun_after, ..Outage::default() });
            }
            (Some(over), PhaseState::Up | PhaseState::Degraded) => {
                over.restored_from_ns = from_ns;
                // What is missing below is lost; what counts from now on is what is sent now.
                flows.iter().zip(&begun).for_each(|(flow, begun)| flow.expect_from(*begun));
                over.begun_restored = begun;
                outages.extend(outage.take());
            }
            _ => {}
        }
        up = step.up;
        stage.pass(&step.name, flows, step.for_ns)?;
        phases.push(Phase {
            name: step.name.clone(),
            from_ns,
            to_ns: now_ns(),
            state: step.state(),
        });
    }
    // A phase ends where the next begins.
    for place in 1..phases.len() {
        phases[place - 1].to_ns = phases[place].from_ns;
    }
    Ok((phases, outages))
}

/// Cuts before it restores, the second path first: no frame of a change that takes all paths away
/// slips through a path that is about to go.
fn change(world: &World, from: [bool; 2], to: [bool; 2]) -> Result<()> {
    for path in [1, 0] {
        if from[path] && !to[path] {
            world.cut(PATHS[path], Ends::Both)?;
        }
    }
    for path in [1, 0] {
        if !from[path] && to[path] {
            world.restore(PATHS[path])?;
        }
    }
    Ok(())
}

/// What was lost and delivered against what may be, over all flows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Lost though a path was up.
    unprotected: u64,
    /// Sent after the cut, and there before the restoration began.
    ghosts: u64,
    /// Lost in outages.
    lost: u64,
    /// Sent in outages, from the first frame lost to the last.
    sent: u64,
    /// Sent in outages, and there after the restoration had begun: no node had looked at them yet.
    waited: u64,
}

/// `place` says which of the flows in `outages` this one is.
fn judge(delivery: &Delivery, place: usize, outages: &[Outage]) -> Verdict {
    let mut verdict = Verdict { unprotected: delivery.lost(), ..Verdict::default() };
    for outage in outages {
        let during = outage.complete_before[place]..outage.begun_restored[place];
        let lost = delivery.lost_in(during.clone());
        verdict.lost += lost;
        verdict.unprotected -= lost;
        let is_lost = |frame: &u64| delivery.record.arrival_ns(*frame).is_none();
        let until = during.end.min(delivery.sent());
        let mut gone = (during.start..until).filter(is_lost);
        if let Some(first) = gone.next() {
            verdict.sent += gone.next_back().unwrap_or(first) - first + 1;
        }
        let too_early = |frame: &u64| {
            let arrival = delivery.record.arrival_ns(*frame);
            arrival.is_some_and(|arrival| arrival < outage.restored_from_ns)
        };
        let after = || outage.begun_after[place]..until;
        verdict.ghosts += after().filter(too_early).count() as u64;
        let waited = |frame: &u64| {
            !is_lost(frame)
                && !too_early(frame)
                && delivery.sent_ns(*frame) < outage.restored_from_ns
        };
        verdict.waited += after().filter(waited).count() as u64;
    }
    verdict
}

/// What a run must show, whatever the machine.
pub(super) fn check(stage: &mut Stage<'_>, flowed: &[Flowed], outages: &[Outage]) {
    let mut all = Verdict::default();
    for (place, flow) in flowed.iter().enumerate() {
        let verdict = judge(&flow.delivery, place, outages);
        all.unprotected += verdict.unprotected;
        all.ghosts += verdict.ghosts;
        all.lost += verdict.lost;
        all.sent += verdict.sent;
        all.waited += verdict.waited;
    }
    if all.waited > 0 {
        stage.note(format!(
            "{} frames sent without a path waited for a CPU until there was one, and were delivered",
            all.waited
        ));
    }
    stage.check(Check::eq("lost while a path was up", all.unprotected, 0_u64, "frames"));
    if !outages.is_empty() {
        stage.check(Check::eq("arrived while no path was up", all.ghosts, 0_u64, "frames"));
        stage.check(Check::eq(
            "lost while no path was up, of those sent from the first lost to the last",
            all.lost,
            all.sent,
            "frames",
        ));
        stage.check(Check::min("lost while no path was up", all.lost, 1_u64, "frames"));
    }
    check_clean(stage, flowed);
}

/// What holds in every scenario with vector recovery.
pub(super) fn check_clean(stage: &mut Stage<'_>, flowed: &[Flowed]) {
    let sum = |count: fn(&Flowed) -> u64| flowed.iter().map(count).sum::<u64>();
    let duplicated = sum(|flow| flow.delivery.record.duplicated());
    stage.check(Check::eq("duplicated", duplicated, 0_u64, "frames"));
    stage.check(Check::eq(
        "changed on the way (octets, VLAN tag, R-TAG left)",
        sum(|flow| flow.changed),
        0_u64,
        "frames",
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{Rate, SourceReport, Stamp, StreamRecord};

    /// 100 frames, one each ns from 1000 on, of which `arrives` says when they arrive.
    fn delivery(arrives: impl Fn(u64) -> Option<u64>) -> Delivery {
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

    /// Frames 40 and 41 are on their way at the cut; 60 is the first begun after the restoration,
    /// which begins when 58 is sent.
    fn outages() -> Vec<Outage> {
        vec![Outage {
            complete_before: vec![40],
            begun_after: vec![42],
            restored_from_ns: 1058,
            begun_restored: vec![60],
        }]
    }

    fn judged(arrives: impl Fn(u64) -> Option<u64>) -> Verdict {
        judge(&delivery(arrives), 0, &outages())
    }

    fn at_once(frame: u64) -> Option<u64> {
        Some(1000 + frame)
    }

    #[test]
    fn an_outage_takes_what_is_sent_in_it() {
        // On the way at the cut: arrived or lost, as it happens; and late ones after it.
        for (first, last) in [(40, 59), (41, 58), (42, 57)] {
            let verdict = judged(|n| at_once(n).filter(|_| !(first..=last).contains(&n)));
            let lost = last - first + 1;
            assert_eq!(verdict, Verdict { lost, sent: lost, ..Verdict::default() });
        }
    }

    #[test]
    fn a_loss_before_or_after_is_told() {
        for lost in [0, 39, 60, 99] {
            let gone = |n: u64| n == lost || (42..58).contains(&n);
            assert_eq!(judged(|n| at_once(n).filter(|_| !gone(n))).unprotected, 1, "{lost}");
        }
    }

    #[test]
    fn a_frame_that_slips_through_is_told() {
        let gone = |n: u64| (42..58).contains(&n) && n != 50;
        let verdict = judged(|n| at_once(n).filter(|_| !gone(n)));
        assert_eq!((verdict.ghosts, verdict.lost, verdict.sent), (1, 15, 16));
    }

    #[test]
    fn a_frame_that_waited_until_the_restoration_is_none() {
        let gone = |n: u64| (42..57).contains(&n);
        let late = |n: u64| if n == 57 { Some(1058) } else { at_once(n) };
        let verdict = judged(|n| late(n).filter(|_| !gone(n)));
        assert_eq!(verdict, Verdict { lost: 15, sent: 15, waited: 1, ..Verdict::default() });
    }

    #[test]
    fn without_an_outage_every_loss_is_one() {
        let found = delivery(|n| at_once(n).filter(|_| n != 50));
        assert_eq!(judge(&found, 0, &[]), Verdict { unprotected: 1, ..Verdict::default() });
    }
}

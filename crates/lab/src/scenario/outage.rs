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
                over.begun_restored = begun;
                outages.extend(outage.take());
            }
            _ => {}
        }
        up = step.up;
        stage.pass(&step.name, flows, step.for_ns)?;
        phases.push(Phase { name: step.name.clone(), from_ns, to_ns: now_ns(), state: step.state() });
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

/// What a run must show, whatever the machine.
pub(super) fn check(stage: &mut Stage<'_>, flowed: &[Flowed], outages: &[Outage]) {
    let (mut protected, mut ghosts, mut lost, mut spans) = (0, 0, 0, 0);
    for (place, flow) in flowed.iter().enumerate() {
        let delivery = &flow.delivery;
        protected += delivery.lost();
        for outage in outages {
            let from = outage.complete_before[place];
            let (after, until) = (outage.begun_after[place], outage.begun_restored[place]);
            let lost_here = delivery.lost_in(from..until);
            lost += lost_here;
            protected -= lost_here;
            let within = |frame: &u64| (from..until).contains(frame);
            let mut gone = delivery
                .lost
                .iter()
                .flat_map(|gap| gap.first..gap.first + gap.frames)
                .filter(within);
            if let Some(first) = gone.next() {
                spans += gone.last().unwrap_or(first) - first + 1;
            }
            let too_early = |frame: &u64| {
                let arrival = delivery.record.arrival_ns(*frame);
                arrival.is_some_and(|arrival| arrival < outage.restored_from_ns)
            };
            ghosts += (after..until).filter(too_early).count() as u64;
        }
    }
    stage.check(Check::eq("lost while a path was up", protected, 0_u64, "frames"));
    if !outages.is_empty() {
        stage.check(Check::eq("arrived while no path was up", ghosts, 0_u64, "frames"));
        stage.check(Check::eq(
            "lost while no path was up, of those sent from the first lost to the last",
            lost,
            spans,
            "frames",
        ));
        stage.check(Check::min("lost while no path was up", lost, 1_u64, "frames"));
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

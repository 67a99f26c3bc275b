//! Figures of the POWERLINK scenarios.

use onbeat_powerlink::mn::{self, ManagingNode};
use onbeat_powerlink::nmt::State;
use onbeat_powerlink_node::Station;
use onbeat_realtime::clock::SECOND;
use onbeat_report::format::count;
use onbeat_report::{Cell, Check, Counters, Run};

use super::actor::StoppedNode;
use super::observer::BusObservation;
use crate::fault::Direction;
use crate::scenario::stage::Stage;
use crate::{Result, World};

/// A table of durations.
pub(super) fn times() -> Counters {
    Counters::new([("transition", ""), ("duration", "s")])
}

pub(super) fn time(what: &str, ns: u64) -> [Cell; 2] {
    [what.into(), seconds(ns)]
}

fn seconds(ns: u64) -> Cell {
    Cell::from(ns as f64 / SECOND as f64)
}

/// Checks that values of the managing node return from each node, and that values of each node arrive.
pub(super) fn exchanged(stage: &mut Stage<'_>, ended: &StoppedNode<ManagingNode>, nodes: u64) {
    let changes = ended.simulation.changes();
    let alive = changes.iter().filter(|changes| **changes > 0).count() as u64;
    // Each node has a value that it returns, and one of its own.
    stage.check(Check::eq("values that arrived and kept changing", alive, 2 * nodes, "values"));
    let turns = ended.runner.counts().turns;
    stage.note(format!("the managing node exchanged values in {}", count(turns, "cycle")));
}

/// Adds a table of all events of a managing node: its states, the steps of each node, failures.
pub(super) fn events(stage: &mut Stage<'_>, name: &str, ended: &StoppedNode<ManagingNode>) {
    let first_ns = ended.runner.events().next().map_or(0, |(at_ns, _)| at_ns);
    let events = ended.runner.events();
    let table = event_table(events.map(|(at_ns, event)| (at_ns - first_ns, *event)));
    stage.figure(name, table);
}

pub(super) fn event_table(events: impl Iterator<Item = (u64, mn::Event)>) -> Counters {
    let mut table = Counters::new([("time", "s"), ("event", "")]);
    for (at_ns, event) in events {
        table.row([seconds(at_ns), <ManagingNode as Station>::description(&event).into()]);
    }
    table
}

/// Adds checks and notes of the bus observer.
pub(super) fn bus(stage: &mut Stage<'_>, seen: &BusObservation) {
    let frames = seen.bus.frames();
    stage.check(Check::eq("malformed frames", frames.malformed, 0_u64, "frames"));
    let mut outcome = Run::begin("bus").finish();
    seen.bus.figures(&mut outcome);
    for (name, figure) in outcome.figures {
        stage.figure(name, figure);
    }
    outcome.notes.into_iter().for_each(|note| stage.note(note));
    stage.note(format!("the bus observer saw {}", seen.bus.summary()));
    if seen.missed > 0 {
        let missed = count(seen.missed, "frame");
        stage.note(format!("the queue of the bus observer overflowed: {missed} lost"));
    }
}

/// Adds the losses of a wire.
pub(super) fn losses(stage: &mut Stage<'_>, world: &World, link: &str) -> Result<()> {
    let wire = world.wire(link)?;
    let mut table = Counters::new(["direction", "frames", "lost"]);
    let mut lost = 0;
    for (name, direction) in [
        ("from the managing node", Direction::Forward),
        ("to the managing node", Direction::Backward),
    ] {
        let counters = wire.counters(direction);
        lost += counters.lost;
        table.row([Cell::from(name), counters.received.into(), counters.lost.into()]);
    }
    stage.check(Check::min("frames lost by the impairment", lost, 1_u64, "frames"));
    stage.figure("losses", table);
    Ok(())
}

/// 1 for a node in OPERATIONAL, else 0, for checks.
pub(super) fn is_operational(state: State) -> u64 {
    u64::from(state == State::Operational)
}

//! Each kind of impaired path next to a clean one, with each recovery algorithm.
//!
//! ```text
//!                path1 (clean, cut, lossy, ...)
//!   talker --- a =============================== b --- listener
//!                path2 (clean)
//! ```
//!
//! With one clean path, no frame is lost. Vector recovery passes no duplicate; match recovery, which
//! stores one number only, passes duplicates that arrive late (7.4.3.5).

use onbeat_report::{Cell, Check, Counters};

use super::figures;
use super::flow::{self, Flow, FlowResult, caught_up};
use super::options::{SeedOptions, StreamOptions};
use super::stage::Stage;
use super::two_paths::{self, TwoPaths};
use crate::fault::{Direction, Impairment, WireCounters};
use crate::world::CutEnds;
use crate::{Result, Topology, World};

const ALGORITHMS: [&str; 2] = ["vector", "match"];
const KINDS: [&str; 6] = ["clean", "cut", "loss", "reorder", "duplicate", "delay"];

fn impairment(kind: &str, seed: u64) -> Impairment {
    let clean = Impairment { seed, ..Impairment::default() };
    match kind {
        "loss" => Impairment { loss: 0.3, ..clean },
        "reorder" => Impairment { reorder: 0.2, ..clean },
        "duplicate" => Impairment { duplicate: 0.3, ..clean },
        "delay" => Impairment { delay_us: 5000, jitter_us: 2000, ..clean },
        _ => clean,
    }
}

/// The network, with vector recovery.
pub(super) fn network() -> Topology {
    with("vector")
}

fn with(algorithm: &str) -> Topology {
    let recover = match algorithm {
        "match" => "{ algorithm = \"match\", reset-timeout-ms = 1000 }".into(),
        _ => TwoPaths::vector(1000).recover,
    };
    let clean = Some(Impairment::default());
    TwoPaths { recover, impairments: [clean, clean], ..TwoPaths::vector(1000) }.topology()
}

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) streams: StreamOptions,
    #[command(flatten)]
    seed: SeedOptions,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let mut table = table();
    for algorithm in ALGORITHMS {
        let world = stage.open(&with(algorithm), &options.streams.plane)?;
        cells(stage, &world, options, algorithm, &mut table)?;
        for status in &mut stage.statuses(&world)? {
            status.node = format!("{} ({algorithm})", status.node);
            figures::nodes(stage, std::slice::from_ref(status));
        }
    }
    stage.figure("cells", table);
    Ok(())
}

/// An empty table of cells.
pub(super) fn table() -> Counters {
    Counters::new([
        "recovery",
        "path1",
        "sent",
        "delivered",
        "lost",
        "duplicated",
        "out of order",
        "lost on path1",
        "copies on path1",
        "held back on path1",
        "cut off path1",
    ])
}

/// Plays each kind of impairment in a world, and adds its row and checks. Returns the frames sent and delivered.
pub(super) fn cells(
    stage: &mut Stage<'_>,
    world: &World,
    options: &Options,
    algorithm: &str,
    table: &mut Counters,
) -> Result<(u64, u64)> {
    let phase_ns = options.streams.phases.ns()?;
    let (mut sent, mut delivered) = (0, 0);
    for kind in KINDS {
        let before = wire(world)?;
        let flowed = cell(stage, world, options, (algorithm, kind), phase_ns)?;
        let after = wire(world)?;
        evaluate(stage, table, (algorithm, kind), &flowed, before, after);
        sent += flowed.iter().map(|flow| flow.delivery.sent()).sum::<u64>();
        delivered += flowed.iter().map(|flow| flow.delivery.delivered()).sum::<u64>();
    }
    stage.require_intact_wires(world)?;
    Ok((sent, delivered))
}

fn cell(
    stage: &mut Stage<'_>,
    world: &World,
    options: &Options,
    (algorithm, kind): (&str, &str),
    phase_ns: u64,
) -> Result<Vec<FlowResult>> {
    world.wire("path1")?.set(impairment(kind, options.seed.seed));
    let flows: Vec<Flow> = two_paths::start(world, &options.streams.frames)?;
    let what = format!("{algorithm} x {kind}");
    if kind == "cut" {
        stage.pass(&what, &flows, phase_ns / 3)?;
        world.cut("path1", CutEnds::Both)?;
        stage.pass(&what, &flows, phase_ns / 3)?;
        world.restore("path1")?;
        caught_up(&flows)?;
        stage.pass(&what, &flows, phase_ns / 3)?;
    } else {
        stage.pass(&what, &flows, phase_ns)?;
    }
    flow::finish_all(flows)
}

/// Counters of path1, both directions together.
fn wire(world: &World) -> Result<WireCounters> {
    let wire = world.wire("path1")?;
    let (there, back) = (wire.counters(Direction::Forward), wire.counters(Direction::Backward));
    Ok(WireCounters {
        received: there.received + back.received,
        forwarded: there.forwarded + back.forwarded,
        lost: there.lost + back.lost,
        duplicated: there.duplicated + back.duplicated,
        reordered: there.reordered + back.reordered,
        cut: there.cut + back.cut,
        overrun: there.overrun + back.overrun,
    })
}

fn evaluate(
    stage: &mut Stage<'_>,
    table: &mut Counters,
    (algorithm, kind): (&str, &str),
    flowed: &[FlowResult],
    before: WireCounters,
    after: WireCounters,
) {
    let sum = |count: fn(&FlowResult) -> u64| flowed.iter().map(count).sum::<u64>();
    let (sent, delivered) =
        (sum(|flow| flow.delivery.sent()), sum(|flow| flow.delivery.delivered()));
    let (lost, duplicated) =
        (sum(|flow| flow.delivery.lost()), sum(|flow| flow.delivery.record.duplicated()));
    let cell = format!("{algorithm} x {kind}");
    stage.check(Check::eq(format!("{cell}: lost"), lost, 0_u64, "frames"));
    if algorithm != "match" {
        stage.check(Check::eq(format!("{cell}: duplicated"), duplicated, 0_u64, "frames"));
    }
    let changed = sum(|flow| flow.changed);
    stage.check(Check::eq(format!("{cell}: changed in transit"), changed, 0_u64, "frames"));
    let did = |count: fn(&WireCounters) -> u64| count(&after) - count(&before);
    let (path_lost, copies) = (did(|wire| wire.lost), did(|wire| wire.duplicated));
    let held = did(|wire| wire.reordered);
    // A cell without an effective impairment shows nothing.
    let bad = match kind {
        "loss" => Some(("lost on path1", path_lost)),
        "duplicate" => Some(("copies on path1", copies)),
        "reorder" => Some(("held back on path1", held)),
        "cut" => Some(("cut off path1", sent.saturating_sub(did(|wire| wire.received)))),
        _ => None,
    };
    if let Some((name, count)) = bad {
        stage.check(Check::min(format!("{cell}: {name}"), count, 1_u64, "frames"));
    }
    table.row([
        Cell::from(algorithm),
        kind.into(),
        sent.into(),
        delivered.into(),
        lost.into(),
        duplicated.into(),
        sum(|flow| flow.delivery.record.out_of_order()).into(),
        path_lost.into(),
        copies.into(),
        held.into(),
        sent.saturating_sub(did(|wire| wire.received)).into(),
    ]);
}

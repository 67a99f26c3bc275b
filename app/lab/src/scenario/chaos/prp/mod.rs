//! Random networks of PRP nodes with random faults, checked by captured frames only.
//!
//! ```text
//!   seed --> plan (LANs, nodes, stations, streams) --> schedule (cuts, loss, delay, kills, ...)
//!              |                                          |
//!            world <--- talk, act ------------------------'
//!              |
//!        capture (every port, outside of the nodes) --> judge --> violations
//! ```
//!
//! Nodes are hosts with a redundant interface, and RedBoxes with one or several stations. Other stations are attached to
//! one LAN only. A fault of a wire needs no excuse: the judge sees which copies reached a node. Only a port or a process
//! that was down excuses a loss.

mod decode;
pub mod judge;
mod plan;
mod report;
mod schedule;
mod talk;
mod topology;
mod trial;

use std::path::PathBuf;

use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::Guard;
use onbeat_report::Outcome;
use onbeat_wire::random::Random;

use self::plan::Plan;
use self::report::Sum;
use super::super::options::{DataPlaneOptions, RunSettings};
use super::super::stage::Stage;
use super::Options;
use crate::{Result, Topology};

/// The first network of seed 1.
pub(in super::super) fn network() -> Topology {
    topology::topology(&Plan::draw(Random::new(1).number()))
}

pub(in super::super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let end_ns = options.end_ns()?;
    let mut seeds = Random::new(options.seed.seed);
    let mut sum = Sum::new(options.seed.seed, options.captures.clone());
    while now_ns() < end_ns {
        let plan = Plan::draw(seeds.number());
        let steps = schedule::draw(&plan);
        let trial = trial::run(stage, &options.plane, plan, steps, end_ns)?;
        sum.add(stage, &trial)?;
    }
    sum.report(stage);
    Ok(())
}

/// A defect of a network that the judge must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// A cable connects both LANs.
    ConnectedLans,
    /// Nodes forget numbers before the other copy arrives.
    ShortMemory,
    /// A delivered frame is removed from the captures.
    LostDelivery,
}

/// Runs one network without faults, but with a defect that is unknown to the judge. Its result must have violations.
///
/// # Errors
/// The network cannot be built or captured.
pub fn with_defect(defect: Defect, captures: PathBuf, common: &RunSettings) -> Result<Outcome> {
    const SEED: u64 = 1;
    const LIFE_MS: u64 = 1500;
    let _signals = Guard::install();
    let mut stage = Stage::new("chaos-prp", common);
    let plane = DataPlaneOptions { backend: None };
    let plan = Plan::draw(Random::new(SEED).number());
    let plan = Plan { life_ms: LIFE_MS, defect: Some(defect), ..plan };
    let steps = if defect == Defect::ShortMemory { schedule::slow_lan(&plan) } else { Vec::new() };
    let mut sum = Sum::new(SEED, captures);
    let trial = trial::run(&mut stage, &plane, plan, steps, u64::MAX)?;
    sum.add(&mut stage, &trial)?;
    sum.report(&mut stage);
    Ok(stage.finish())
}

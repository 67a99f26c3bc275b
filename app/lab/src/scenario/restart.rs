//! The daemons are killed, stopped and restarted under traffic.
//!
//! ```text
//!                 path1
//!   talker --- a ======= b --- listener
//!                 path2
//! ```
//!
//! The kernel alone forwards frames: none is lost or duplicated, and the counters continue.

use onbeat_report::{Check, PhaseState};

use super::options::StreamOptions;
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::stage::Stage;
use super::two_paths::{self, TwoPaths};
use super::{figures, flow};
use crate::world::Daemon;
use crate::{Result, Topology};

/// A function that stops a daemon.
type End = fn(&mut Daemon) -> Result<()>;

/// The network.
pub(super) fn network() -> Topology {
    TwoPaths::vector(1000).topology()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &StreamOptions) -> Result<()> {
    let phase_ns = options.phases.ns()?;
    let mut world = stage.open(&network(), &options.plane)?;
    let flows = two_paths::start(&world, &options.frames)?;
    let mut course = PhaseLog::default();
    course.begin("daemons run", PhaseState::Up, &flows, || Ok(()))?;
    stage.pass("daemons run", &flows, phase_ns)?;
    let ends: [(&str, End); 2] = [("killed", Daemon::kill), ("stopped", Daemon::terminate)];
    for (how, end) in ends {
        for node in ["a", "b"] {
            let what = format!("{node} {how}");
            course.begin(&what, PhaseState::Degraded, &flows, || end(world.daemon(node)?))?;
            stage.pass(&what, &flows, phase_ns)?;
            let what = format!("{node} {how} and started");
            let program = stage.onbeat_bin();
            course.begin(&what, PhaseState::Up, &flows, || world.start(node, program))?;
            stage.pass(&what, &flows, phase_ns)?;
        }
    }
    course.end();
    let flowed = flow::finish_all(flows)?;
    let statuses = stage.statuses(&world)?;
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("lost", lost, 0_u64, "frames"));
    check_clean(stage, &flowed);
    two_paths::check_counters(stage, &statuses, &flowed);
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

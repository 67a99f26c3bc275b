//! The daemons are killed, stopped and started again under traffic.
//!
//! ```text
//!                 path1
//!   talker --- a ======= b --- listener
//!                 path2
//! ```
//!
//! Frames are moved by the kernel alone: nothing is lost, no frame arrives twice, and the counters
//! go on where they were.

use onbeat_report::{Check, PhaseState};

use super::outage::{Phase, check_clean};
use super::stage::Stage;
use super::two_paths::{self, TwoPaths};
use super::{figures, flow};
use crate::Result;
use crate::clock::now_ns;
use crate::world::Daemon;

/// How a daemon ends.
type End = fn(&mut Daemon) -> Result<()>;

pub(super) fn play(stage: &mut Stage<'_>) -> Result<()> {
    let phase_ns = stage.phase_ns(0.5)?;
    let mut world = stage.open(&TwoPaths::vector(1000).topology())?;
    let flows = two_paths::start(&world, stage.rate(10_000), stage.size())?;
    let mut phases = Vec::new();
    let from_ns = now_ns();
    stage.pass("daemons run", &flows, phase_ns)?;
    phases.push(Phase {
        name: "daemons run".into(),
        from_ns,
        to_ns: now_ns(),
        state: PhaseState::Up,
    });
    let ends: [(&str, End); 2] = [("killed", Daemon::kill), ("stopped", Daemon::terminate)];
    for (how, end) in ends {
        for node in ["a", "b"] {
            let (from_ns, what) = (now_ns(), format!("{node} {how}"));
            end(world.daemon(node)?)?;
            stage.pass(&what, &flows, phase_ns)?;
            phases.push(Phase {
                name: what,
                from_ns,
                to_ns: now_ns(),
                state: PhaseState::Degraded,
            });
            let (from_ns, what) = (now_ns(), format!("{node} {how} and started"));
            world.start(node, &stage.options.onbeat_bin)?;
            stage.pass(&what, &flows, phase_ns)?;
            phases.push(Phase { name: what, from_ns, to_ns: now_ns(), state: PhaseState::Up });
        }
    }
    let flowed = flow::finish_all(flows)?;
    let statuses = stage.statuses(&world)?;
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("lost", lost, 0_u64, "frames"));
    check_clean(stage, &flowed);
    two_paths::check_counters(stage, &statuses, &flowed);
    figures::all(stage, &flowed, &phases, &statuses);
    Ok(())
}

//! One path of a protected stream fails, then the other, then both are restored.
//!
//! ```text
//!                        path1
//!   talker --- a ===================== b --- listener
//!                  path2 (+ 300 us)
//! ```
//!
//! While a path is up, no frame is lost. Without a path, frames sent are lost, and none after the
//! restoration. The second path is slower, so that the delay shows the path that carries the stream.

use super::options::StreamOptions;
use super::outage::{self, PhaseStep};
use super::stage::Stage;
use super::two_paths::{self, TwoPaths};
use super::{figures, flow};
use crate::fault::Impairment;
use crate::{Result, Topology};

/// Additional delay of the second path.
const SLOWER_US: u64 = 300;

/// Maximum reset timeout of the nodes.
const LONGEST_TIMEOUT_MS: u64 = 1000;

/// The network.
pub(super) fn network() -> Topology {
    with_timeout(LONGEST_TIMEOUT_MS)
}

fn with_timeout(reset_timeout_ms: u64) -> Topology {
    let slower = Impairment { delay_us: SLOWER_US, ..Impairment::default() };
    let network =
        TwoPaths { impairments: [None, Some(slower)], ..TwoPaths::vector(reset_timeout_ms) };
    network.topology()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &StreamOptions) -> Result<()> {
    let phase_ns = options.phases.ns()?;
    let steps = [
        PhaseStep::new("both up", [true, true], phase_ns),
        PhaseStep::new("path1 down", [false, true], phase_ns),
        PhaseStep::new("both down", [false, false], phase_ns),
        PhaseStep::new("path1 up", [true, false], phase_ns),
        PhaseStep::new("both up again", [true, true], phase_ns),
    ];
    play_steps(stage, options, phase_ns, &steps)
}

/// Also used by `both-links`, with other steps.
pub(super) fn play_steps(
    stage: &mut Stage<'_>,
    options: &StreamOptions,
    outage_ns: u64,
    steps: &[PhaseStep],
) -> Result<()> {
    // A recovery function that has not been reset rejects numbers far ahead as rogue (7.4.3.4): the
    // timeout must expire before the stream returns after an outage.
    let reset_timeout_ms = (outage_ns / 2_000_000).clamp(10, LONGEST_TIMEOUT_MS);
    let world = stage.open(&with_timeout(reset_timeout_ms), &options.plane)?;
    let flows = two_paths::start(&world, &options.frames)?;
    let course = outage::play(stage, &world, &flows, steps)?;
    let flowed = flow::finish_all(flows)?;
    stage.require_intact_wires(&world)?;
    let statuses = stage.statuses(&world)?;
    outage::check(stage, &flowed, &course);
    two_paths::check_counters(stage, &statuses, &flowed);
    figures::wires(stage, &world);
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

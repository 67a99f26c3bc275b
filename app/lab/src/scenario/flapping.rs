//! Either path fails repeatedly, in random order, never both at the same time.
//!
//! ```text
//!                        path1
//!   talker --- a ===================== b --- listener
//!                  path2 (+ 300 us)
//! ```
//!
//! Before the next cut, all frames sent while one path carried the stream alone must have arrived: a
//! frame in flight on a path that is cut is lost there, and only frames that the other path carries as
//! well are protected.

use onbeat_report::{Check, Measurement, PhaseState};

use super::figures;
use super::flow::{self, caught_up};
use super::link_failure;
use super::options::{DataPlaneOptions, FrameOptions, SeedOptions};
use super::outage::check_clean;
use super::phase::PhaseLog;
use super::stage::Stage;
use super::two_paths;
use crate::Result;
use crate::world::CutEnds;
use onbeat_wire::random::Random;

/// Maximum time that a path stays cut, in ns.
const LONGEST_CUT_NS: u64 = 10_000_000;

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    plane: DataPlaneOptions,
    #[command(flatten)]
    frames: FrameOptions,
    /// Number of cuts
    #[arg(long, value_name = "NUMBER", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..))]
    cuts: u32,
    #[command(flatten)]
    seed: SeedOptions,
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let cuts = options.cuts;
    let world = stage.open(&link_failure::network(), &options.plane)?;
    let flows = two_paths::start(&world, &options.frames)?;
    let mut random = Random::new(options.seed.seed);
    let mut course = PhaseLog::default();
    course.begin("flapping", PhaseState::Degraded, &flows, || Ok(()))?;
    let mut done = 0;
    let mut by_path = [0_u64; 2];
    while done < cuts {
        let path = random.below(2) as usize;
        let link = ["path1", "path2"][path];
        let ends = [CutEnds::Both, CutEnds::First, CutEnds::Second][random.below(3) as usize];
        let what = format!("cut {} of {cuts}: {link}", done + 1);
        world.cut(link, ends)?;
        stage.pass(&what, &flows, random.below(LONGEST_CUT_NS))?;
        world.restore(link)?;
        by_path[path] += 1;
        done += 1;
        if !caught_up(&flows)? {
            stage.note(format!(
                "stopped after cut {done}, of {link} ({}): frames are missing",
                ends.words()
            ));
            break;
        }
    }
    course.end();
    let flowed = flow::finish_all(flows)?;
    stage.require_intact_wires(&world)?;
    figures::wires(stage, &world);
    let statuses = stage.statuses(&world)?;
    let lost: u64 = flowed.iter().map(|flow| flow.delivery.lost()).sum();
    stage.check(Check::eq("lost", lost, 0_u64, "frames"));
    stage.check(Check::eq("cuts", done, cuts, ""));
    check_clean(stage, &flowed);
    two_paths::check_counters(stage, &statuses, &flowed);
    for (path, count) in ["path1", "path2"].into_iter().zip(by_path) {
        stage.figure(format!("cuts of {path}"), Measurement::new("", count));
    }
    figures::all(stage, &flowed, &course, &statuses);
    Ok(())
}

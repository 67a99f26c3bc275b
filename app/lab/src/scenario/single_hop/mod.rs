//! The experiments of the paper "On limits of embedded systems in network packet processing"
//! (Vondrouš, Macejko, Kocur, 2016): what a packet waits in one hop, by several methods at the same
//! time, on an idle host, under the CPU load of its table 1, and beside other traffic on a second
//! interface; with one CPU and with two.
//!
//! ```text
//!   sender eth0 ------ eth0 [ hop ] eth1 ------ eth0 receiver      probes, 192 octets
//!     | capture  eth1 -- eth2                     | capture        parallel load
//! ```
//!
//! The hop routes, bridges, relays a stream of FRER, or answers by a process. It works on the last CPU,
//! or on that and the first; all else works on the first.
//!
//! `measurement` is what a method is and reports, `method` lists them, `mirror` is the first of them, `hooks`
//! the second; `rig` is the network, `frame` a probe in it, `cell` is one measurement, `matrix` all of a run;
//! `figures` makes the result of the scenario; `compare` (--compare) that of the methods on the same packets,
//! with hops and loads that the caller chooses.

mod cell;
mod compare;
mod figures;
mod frame;
mod hooks;
mod matrix;
mod measurement;
mod method;
mod mirror;
mod plots;
mod rig;

use self::compare::CompareOptions;
use self::matrix::Matrix;
use self::measurement::{HopCpus, Length, Load};
use self::rig::Hop;
use super::options::{FrameOptions, PhaseOptions};
use super::stage::Stage;
use crate::{Result, Topology, rounds};

/// Probes a second.
const RATE: u64 = 1_000;
/// How long a cell is measured, in seconds.
const CELL_S: f64 = 1.0;

/// Options of the scenario.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    frames: FrameOptions,
    #[command(flatten)]
    phases: PhaseOptions,
    #[command(flatten)]
    compare: CompareOptions,
}

pub(super) fn network() -> Topology {
    Hop::Router.network()
}

pub(super) fn play(stage: &mut Stage<'_>, options: &Options) -> Result<()> {
    let Options { frames, phases, compare } = options;
    let (rate, octets) = (frames.rate(RATE), matrix::octets(frames.size)?);
    if compare.is_wanted() {
        return compare::play(stage, compare, rate, octets);
    }
    let length = Length { rate, for_ns: phases.ns(CELL_S)?, octets };
    stage.draw(&network());
    let matrix = Matrix {
        hops: Hop::ALL.to_vec(),
        places: HopCpus::all()?.to_vec(),
        loads: Load::ALL.to_vec(),
        length,
    };
    let takes = rounds::in_words(matrix.takes_ns());
    stage.progress.line(&format!("this takes about {takes}"));
    let found = matrix.measure(stage.onbeat_bin(), &mut |line| stage.show_step(line))?;
    figures::fill(stage, &found, length);
    Ok(())
}

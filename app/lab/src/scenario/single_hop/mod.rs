//! The experiments of the paper "On limits of embedded systems in network packet processing" (Vondrouš,
//! Macejko, Kocur, 2016): packet delay in one hop, by several methods at the same time, on an idle
//! host, under the CPU load of its table 1, and with other traffic on a second interface; with one CPU
//! and with two.
//!
//! ```text
//!   sender eth0 ------ eth0 [ hop ] eth1 ------ eth0 receiver      probes, 192 octets
//!     | capture  eth1 -- eth2                     | capture        parallel load
//! ```
//!
//! The hop routes, bridges, relays a FRER stream, or is a reflector process. It runs on the last CPU,
//! or on the last and the first; everything else runs on the first.
//!
//! `measurement` defines methods and results, `method` lists the methods, `mirror` is the first of
//! them, `hooks` the second; `rig` is the network, `frame` decodes its probes, `cell` is one
//! measurement, `matrix` all of a run; `figures` builds the result of the scenario; `compare`
//! (--compare) compares the methods on the same packets, with hops and loads of the caller's choice.

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
    let (rate, octets) = (frames.rate, matrix::octets(frames.size)?);
    if compare.is_wanted() {
        return compare::play(stage, compare, rate, octets);
    }
    let length = Length { rate, for_ns: phases.ns()?, octets };
    stage.draw(&network());
    let matrix = Matrix {
        hops: Hop::ALL.to_vec(),
        places: HopCpus::all()?.to_vec(),
        loads: Load::ALL.to_vec(),
        length,
    };
    let takes = rounds::in_words(matrix.takes_ns());
    stage.progress.line(&format!("estimated duration: {takes}"));
    let found = matrix.measure(stage.onbeat_bin(), &mut |line| stage.show_step(line))?;
    figures::fill(stage, &found, length);
    Ok(())
}

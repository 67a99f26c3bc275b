//! The experiments of the paper "On limits of embedded systems in network packet processing"
//! (Vondrouš, Macejko, Kocur, 2016): what a packet waits in one hop, by several methods at the same
//! time, on an idle host, under the CPU load of its table 1, and beside other traffic on a second
//! interface; with one CPU and with two.
//!
//! ```text
//!   sender eth0 ------ eth0 [ hop ] eth1 ------ eth0 receiver      probes, 192 octets
//!     | tap  eth1 ------ eth2                     | tap            parallel load
//! ```
//!
//! The hop routes, bridges, relays a stream of FRER, or answers by a process. It works on the last CPU,
//! or on that and the first; all else works on the first.
//!
//! `method` is what a method is and lists them, `mirror` is the first of them, `hooks` the second; `rig` is the network,
//! `cell` is one measurement; `figures` makes the result.

mod cell;
mod figures;
mod hooks;
mod method;
mod mirror;
mod rig;

use onbeat_realtime::{CpuSet, Profile};

use self::cell::{Cell, Length, Load};
use self::rig::{Hop, Rig};
use super::stage::Stage;
use crate::{Error, Result, Topology, cpus, interrupt, rounds};

/// Probes a second.
const RATE: u64 = 1_000;
/// Octets of a probe's frame, as in the paper.
const OCTETS: usize = 192;
/// How long a cell is measured, in seconds.
const CELL_S: f64 = 1.0;

pub(super) fn network() -> Topology {
    Hop::Router.network()
}

/// CPUs of the hop.
#[derive(Debug, Clone)]
struct Place {
    /// As figures name it.
    name: &'static str,
    cpus: CpuSet,
}

pub(super) fn play(stage: &mut Stage<'_>) -> Result<()> {
    let usable = cpus::usable()?;
    let [first, .., last] = usable[..] else {
        return Err(Error::Invalid(
            "it takes two CPUs: one for the hop, one for who sends and measures".to_owned(),
        ));
    };
    let places = [
        Place { name: "1", cpus: [last].into_iter().collect() },
        Place { name: "2", cpus: [first, last].into_iter().collect() },
    ];
    let octets = stage.options.size.unwrap_or(OCTETS);
    if !(cell::LEAST_OCTETS..=1514).contains(&octets) {
        return Err(Error::Option {
            option: "size",
            value: octets.to_string(),
            reason: format!("a probe's frame has {} to 1514 octets", cell::LEAST_OCTETS),
        });
    }
    let length = Length { rate: stage.rate(RATE), for_ns: stage.phase_ns(CELL_S)?, octets };
    stage.draw(&network());
    let cells = Hop::ALL.len() * places.len() * Load::ALL.len();
    let takes = rounds::in_words(cells as u64 * (length.for_ns + crate::clock::SECOND / 2));
    stage.progress.line(&format!("this takes about {takes}"));
    // This program is not where the hop works.
    let outside = [first].into_iter().collect::<CpuSet>();
    let _place = Profile::default().on_cpus(outside).enter()?;
    let mut found: Vec<Cell> = Vec::new();
    for hop in Hop::ALL {
        stage.tell_line(&format!("{}: building the network", hop.name()));
        let rig = Rig::build(hop, &stage.options.onbeat_bin)?;
        for place in &places {
            rig.steer(&place.cpus)?;
            for load in Load::ALL {
                interrupt::check()?;
                stage.tell_line(&format!("{}, {}, {} CPU(s)", hop.name(), load.name(), place.name));
                found.push(cell::measure(&rig, place, load, length)?);
            }
        }
    }
    figures::fill(stage, &found, length);
    Ok(())
}

//! Hops, CPUs and loads, measured one after the other.

use std::path::Path;

use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_realtime::{CpuSet, Profile};

use super::cell::{self, Cell};
use super::frame::LEAST_OCTETS;
use super::measurement::{HopCpus, Length, Load, ends};
use super::rig::{Hop, Rig};
use crate::{Error, Result};

/// Octets of a probe's frame, as in the paper.
const OCTETS: usize = 192;
/// What a cell takes beside its probes, about.
const BESIDE_NS: u64 = SECOND / 2;

/// Octets of a probe's frame: the paper's, unless others are asked for.
pub(super) fn octets(asked: Option<usize>) -> Result<usize> {
    let octets = asked.unwrap_or(OCTETS);
    if (LEAST_OCTETS..=1514).contains(&octets) {
        return Ok(octets);
    }
    Err(Error::Option {
        option: "size",
        value: octets.to_string(),
        reason: format!("a probe's frame has {LEAST_OCTETS} to 1514 octets"),
    })
}

/// What is measured: each hop, at each place, under each load.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) hops: Vec<Hop>,
    pub(super) places: Vec<HopCpus>,
    pub(super) loads: Vec<Load>,
    pub(super) length: Length,
}

impl Matrix {
    /// How long it takes, about.
    pub(super) fn takes_ns(&self) -> u64 {
        let cells = self.hops.len() * self.places.len() * self.loads.len();
        cells as u64 * (self.length.for_ns + BESIDE_NS)
    }

    /// Measures all of it; `program` is what a node runs, `tell` is told what is at hand.
    pub(super) fn measure(&self, program: &Path, tell: &mut dyn FnMut(&str)) -> Result<Vec<Cell>> {
        // This program is not where the hop works.
        let outside = [ends()?.0].into_iter().collect::<CpuSet>();
        let _place = Profile::default().on_cpus(outside).enter()?;
        let mut found = Vec::new();
        for hop in &self.hops {
            tell(&format!("{}: building the network", hop.name()));
            let rig = Rig::build(*hop, program)?;
            for place in &self.places {
                rig.steer(&place.cpus)?;
                for load in &self.loads {
                    interrupt::check()?;
                    tell(&format!("{}, {}, {} CPU(s)", hop.name(), load.name(), place.name));
                    found.push(cell::measure(&rig, place, *load, self.length)?);
                }
            }
        }
        Ok(found)
    }
}

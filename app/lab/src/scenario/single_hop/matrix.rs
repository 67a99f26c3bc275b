//! Hops, CPUs and loads, measured in order.

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
/// Approximate overhead of a cell in addition to its probes.
const BESIDE_NS: u64 = SECOND / 2;

/// Checks the octets of a probe's frame.
pub(super) fn octets(octets: usize) -> Result<usize> {
    if (LEAST_OCTETS..=1514).contains(&octets) {
        return Ok(octets);
    }
    Err(Error::Option {
        option: "size",
        value: octets.to_string(),
        reason: format!("use {LEAST_OCTETS} to 1514"),
    })
}

/// The measured combinations: each hop, with each set of CPUs, under each load.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) hops: Vec<Hop>,
    pub(super) places: Vec<HopCpus>,
    pub(super) loads: Vec<Load>,
    pub(super) length: Length,
}

impl Matrix {
    /// Approximate duration.
    pub(super) fn takes_ns(&self) -> u64 {
        let cells = self.hops.len() * self.places.len() * self.loads.len();
        cells as u64 * (self.length.for_ns + BESIDE_NS)
    }

    /// Measures all combinations; `program` is the program of nodes, `report` receives the current
    /// step.
    pub(super) fn measure(
        &self,
        program: &Path,
        report: &mut dyn FnMut(&str),
    ) -> Result<Vec<Cell>> {
        // This program does not run on the hop's CPUs.
        let outside = [ends()?.0].into_iter().collect::<CpuSet>();
        let _place = Profile::default().on_cpus(outside).enter()?;
        let mut found = Vec::new();
        for hop in &self.hops {
            report(&format!("{}: building the network", hop.name()));
            let rig = Rig::build(*hop, program)?;
            for place in &self.places {
                rig.steer(&place.cpus)?;
                for load in &self.loads {
                    interrupt::check()?;
                    report(&format!("{}, {}, {} CPU(s)", hop.name(), load.name(), place.name));
                    found.push(cell::measure(&rig, place, *load, self.length)?);
                }
            }
        }
        Ok(found)
    }
}

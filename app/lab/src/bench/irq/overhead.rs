//! Overhead of the ledger: the same packets with it, with programs that return at once, and without it, alternating, on
//! one CPU.

use std::time::Instant;

use onbeat_bpf::statistics::Statistics;
use onbeat_realtime::interrupt;
use onbeat_report::Progress;

use super::super::cpu::Cpus;
use super::super::program_costs::ProgramCosts;
use super::Options;
use super::flow::{BATCH, Flow, PacketKind};
use super::ledger::Ledger;
use super::rig::{Cable, Rig};
use crate::Result;

/// Readings of the ledger before the first round.
const WARM_UP: u32 = 5;

/// A receive mode.
#[derive(Debug)]
pub(super) struct OverheadCase {
    pub(super) name: &'static str,
    pub(super) rounds: Vec<OverheadRound>,
    /// Run times of the ledger's programs.
    pub(super) programs: ProgramCosts,
}

/// The same packets in each variant.
#[derive(Debug, Clone, Copy)]
pub(super) struct OverheadRound {
    /// With the ledger.
    pub(super) with: PacketRate,
    /// With its programs, which return at once.
    pub(super) idle: PacketRate,
    pub(super) without: PacketRate,
}

/// Throughput of packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketRate {
    pub(super) packets_per_s: f64,
    /// Run time of the NAPI thread per packet; `None` in softirq.
    pub(super) thread_ns: Option<f64>,
}

/// The objects under measurement.
struct OverheadBed<'a> {
    cable: Cable,
    flow: Flow,
    cpus: &'a Cpus,
}

pub(super) fn measure(
    options: &Options,
    cpus: &Cpus,
    progress: &mut Progress,
) -> Result<Vec<OverheadCase>> {
    let rig = Rig::new()?;
    let mut cases = Vec::new();
    let mut ledger = Ledger::new(options.sample)?;
    for (number, name, threaded) in [(0, "threaded NAPI", true), (1, "softirq", false)] {
        let cable = rig.lay(number, threaded)?;
        cable.pin(cpus.measured)?;
        let flow = Flow::new(&rig, &cable, PacketKind::Small(BATCH))?;
        let bed = OverheadBed { cable, flow, cpus };
        let mut rounds = Vec::new();
        // The ledger detaches programs that these packets do not need.
        for _ in 0..WARM_UP {
            bed.rate_with(&mut ledger, options)?;
        }
        for round in 0..options.rounds {
            progress
                .update(|| format!("overhead, {name}, round {} of {}", round + 1, options.rounds));
            rounds.push(bed.round(round, &mut ledger, options)?);
        }
        let programs = bed.programs(&mut ledger, options)?;
        cases.push(OverheadCase { name, rounds, programs });
    }
    Ok(cases)
}

impl OverheadBed<'_> {
    /// The first variant changes from round to round.
    fn round(&self, number: u32, ledger: &mut Ledger, options: &Options) -> Result<OverheadRound> {
        let mut rates = [PacketRate { packets_per_s: 0.0, thread_ns: None }; 3];
        for turn in 0..3 {
            let variant = (number as usize + turn) % 3;
            rates[variant] = match variant {
                0 => self.rate(options)?.0,
                1 => self.rate_with(ledger, options)?,
                _ => ledger.idle_during(|| Ok(self.rate(options)?.0))?,
            };
        }
        let [without, with, idle] = rates;
        Ok(OverheadRound { with, idle, without })
    }

    fn rate_with(&self, ledger: &mut Ledger, options: &Options) -> Result<PacketRate> {
        Ok(ledger.during(|| self.rate(options))?.0.0)
    }

    /// Passes packets for a slice; returns the rate and the number of packets.
    fn rate(&self, options: &Options) -> Result<(PacketRate, u64)> {
        let _pinned = self.cpus.pin()?;
        for _ in 0..BATCH {
            self.flow.pass()?;
        }
        let ran_ns = self.cable.ran_ns()?;
        let (begun, mut packets) = (Instant::now(), 0);
        loop {
            self.flow.pass()?;
            packets += BATCH as u64;
            if begun.elapsed() >= options.slice {
                break;
            }
            interrupt::check()?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let ran_ns = self.cable.ran_ns()? - ran_ns;
        let thread_ns = (ran_ns > 0).then(|| ran_ns as f64 / packets as f64);
        Ok((PacketRate { packets_per_s: packets as f64 / seconds, thread_ns }, packets))
    }

    /// Measures the run time of each program in a round of its own, as counting has a cost.
    fn programs(&self, ledger: &mut Ledger, options: &Options) -> Result<ProgramCosts> {
        let _statistics = Statistics::enable()?;
        let before = ledger.runs()?;
        let ((_, packets), _) = ledger.during(|| self.rate(options))?;
        Ok(ProgramCosts::between(before, ledger.runs()?, packets))
    }
}

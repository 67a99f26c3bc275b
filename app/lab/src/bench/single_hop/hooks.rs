//! Overhead of the hooks: the same packets through a router with and without them, alternating, on one
//! CPU; and with the limit, the same programs while no packet is followed.

use std::time::Duration;

use onbeat_bpf::statistics::Statistics;
use onbeat_hooks::{Detail, Hop, Tracer};
use onbeat_report::Progress;

use super::super::cpu::Cpus;
use super::super::program_costs::ProgramCosts;
use super::Options;
use super::router::{ArrivalMode, Router};
use crate::Result;

/// The compared cases.
pub(super) const CASES: [(ArrivalMode, Detail); 4] = [
    (ArrivalMode::Polled, Detail::Stages),
    (ArrivalMode::Polled, Detail::Whole),
    (ArrivalMode::Queued, Detail::Stages),
    (ArrivalMode::Queued, Detail::Whole),
];

/// Nanoseconds per packet in a round.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HookRound {
    pub(super) without: f64,
    /// With the programs, while no packet is followed.
    pub(super) called: f64,
    pub(super) with: f64,
}

pub(super) struct HookResults {
    pub(super) arrivals: ArrivalMode,
    pub(super) detail: Detail,
    pub(super) rounds: Vec<HookRound>,
    /// Packets forwarded while they were followed, and those that the tracer reported.
    pub(super) passed: u64,
    pub(super) reported: u64,
    /// Run times of the programs.
    pub(super) programs: ProgramCosts,
}

/// The objects under measurement.
struct HookBed {
    router: Router,
    hop: Hop,
    slice: Duration,
    passed: u64,
    reported: u64,
}

pub(super) fn measure(
    options: &Options,
    cpus: &Cpus,
    progress: &mut Progress,
) -> Result<Vec<HookResults>> {
    let _pinned = cpus.pin()?;
    CASES
        .into_iter()
        .map(|(arrivals, detail)| {
            let router = Router::new(arrivals)?;
            let hop = router.hop(detail)?;
            let mut bed = HookBed { router, hop, slice: options.slice, passed: 0, reported: 0 };
            bed.measure_without_hooks()?;
            let mut rounds = Vec::new();
            for round in 0..options.rounds {
                progress.update(|| {
                    let of = format!("round {} of {}", round + 1, options.rounds);
                    format!("hooks, packets {}, {of}", arrivals.name())
                });
                rounds.push(bed.round(round)?);
            }
            let programs = bed.programs()?;
            let HookBed { passed, reported, .. } = bed;
            Ok(HookResults { arrivals, detail, rounds, passed, reported, programs })
        })
        .collect()
}

impl HookBed {
    /// Measures all three variants in an order that changes.
    fn round(&mut self, number: u32) -> Result<HookRound> {
        let mut round = HookRound::default();
        for turn in 0..3 {
            match (number + turn) % 3 {
                0 => round.without = self.measure_without_hooks()?,
                1 => round.called = self.measure_idle_hooks()?,
                _ => round.with = self.measure_hooks()?,
            }
        }
        Ok(round)
    }

    fn measure_without_hooks(&mut self) -> Result<f64> {
        Ok(self.router.pass(self.slice)?.1)
    }

    fn measure_idle_hooks(&mut self) -> Result<f64> {
        let tracer = Tracer::start(&self.hop)?;
        tracer.follow(false)?;
        self.measure_without_hooks()
    }

    /// Measures with the hooks, which report each packet.
    fn measure_hooks(&mut self) -> Result<f64> {
        let mut tracer = Tracer::start(&self.hop)?;
        // In pieces; reports are read between them: none is lost, and reading is not measured.
        let pieces = 1 + (self.slice.as_millis() / 20) as u32;
        let (mut time_ns, mut packets) = (0.0, 0);
        for _ in 0..pieces {
            let (piece, ns) = self.router.pass(self.slice / pieces)?;
            time_ns += ns * piece as f64;
            packets += piece;
            self.reported += tracer.take()?.len() as u64;
        }
        self.reported += tracer.stop()?.len() as u64;
        self.passed += packets;
        Ok(time_ns / packets.max(1) as f64)
    }

    /// Measures the run time of each program in a round of its own, as counting has a cost.
    fn programs(&mut self) -> Result<ProgramCosts> {
        let _statistics = Statistics::enable()?;
        let tracer = Tracer::start(&self.hop)?;
        let before = tracer.runs()?;
        let (packets, _) = self.router.pass(self.slice)?;
        Ok(ProgramCosts::between(before, tracer.runs()?, packets))
    }
}

//! What the hooks cost: the same packets through a router with and without them, in turns, on one CPU.

use std::time::Duration;

use onbeat_hooks::{Hop, Tracer};
use onbeat_irq::statistics::Statistics;
use onbeat_report::Progress;

use super::super::counted::Counted;
use super::super::cpu::Cpus;
use super::Options;
use super::router::Router;
use crate::Result;

pub(super) struct Found {
    /// Nanoseconds of a packet with the hooks, and without.
    pub(super) rounds: Vec<(f64, f64)>,
    /// Packets that came out while they were followed, and those that were told.
    pub(super) passed: u64,
    pub(super) told: u64,
    /// The programs, while they were counted.
    pub(super) programs: Counted,
    pub(super) cpu: usize,
}

/// What is measured.
struct Bed {
    router: Router,
    hop: Hop,
    slice: Duration,
    passed: u64,
    told: u64,
}

pub(super) fn measure(options: &Options, cpus: &Cpus, progress: &mut Progress) -> Result<Found> {
    let router = Router::new()?;
    let hop = router.hop()?;
    let mut bed = Bed { router, hop, slice: options.slice, passed: 0, told: 0 };
    let _pinned = cpus.pin()?;
    bed.without()?;
    let mut rounds = Vec::new();
    for round in 0..options.rounds {
        progress.update(|| format!("hooks, round {} of {}", round + 1, options.rounds));
        // Neither is always the first.
        rounds.push(if round % 2 == 0 {
            let without = bed.without()?;
            (bed.with()?, without)
        } else {
            (bed.with()?, bed.without()?)
        });
    }
    let programs = bed.programs()?;
    Ok(Found { rounds, passed: bed.passed, told: bed.told, programs, cpu: cpus.measured })
}

impl Bed {
    /// Nanoseconds of a packet without the hooks.
    fn without(&mut self) -> Result<f64> {
        Ok(self.router.pass(self.slice)?.1)
    }

    /// Nanoseconds of a packet with the hooks, which tell of each.
    fn with(&mut self) -> Result<f64> {
        let mut tracer = Tracer::start(&self.hop)?;
        // In pieces, between which they are taken: nothing is lost, and taking is not measured.
        let pieces = 1 + (self.slice.as_millis() / 20) as u32;
        let (mut time_ns, mut packets) = (0.0, 0);
        for _ in 0..pieces {
            let (piece, ns) = self.router.pass(self.slice / pieces)?;
            time_ns += ns * piece as f64;
            packets += piece;
            self.told += tracer.take()?.len() as u64;
        }
        self.told += tracer.stop()?.len() as u64;
        self.passed += packets;
        Ok(time_ns / packets.max(1) as f64)
    }

    /// What each program takes, in a round of its own: counting costs, too.
    fn programs(&mut self) -> Result<Counted> {
        let _statistics = Statistics::enable()?;
        let tracer = Tracer::start(&self.hop)?;
        let before = tracer.runs()?;
        let (packets, _) = self.router.pass(self.slice)?;
        Ok(Counted::between(before, tracer.runs()?, packets))
    }
}

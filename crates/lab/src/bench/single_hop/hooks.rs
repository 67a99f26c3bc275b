//! What the hooks cost: the same packets through a router with and without them, in turns, on one CPU.

use onbeat_hooks::Tracer;
use onbeat_irq::statistics::{Runs, Statistics};
use onbeat_report::Progress;

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
    /// The programs, while they were counted, and packets meanwhile.
    pub(super) programs: Vec<(String, Runs)>,
    pub(super) packets: u64,
    pub(super) cpu: usize,
}

pub(super) fn measure(options: &Options, cpus: &Cpus, progress: &mut Progress) -> Result<Found> {
    let mut router = Router::new()?;
    let hop = router.hop()?;
    let _pinned = cpus.pin()?;
    router.pass(options.slice)?;
    let (mut rounds, mut passed, mut told) = (Vec::new(), 0, 0);
    for round in 0..options.rounds {
        progress.update(|| format!("hooks, round {} of {}", round + 1, options.rounds));
        // Neither is always the first.
        let without_first = round % 2 == 0;
        let mut without = if without_first { router.pass(options.slice)?.1 } else { 0.0 };
        let mut tracer = Tracer::start(&hop)?;
        // In pieces, between which they are taken: nothing is lost, and taking is not measured.
        let pieces = 1 + (options.slice.as_millis() / 20) as u32;
        let mut time_ns = 0.0;
        let mut packets = 0;
        for _ in 0..pieces {
            let (piece, ns) = router.pass(options.slice / pieces)?;
            time_ns += ns * piece as f64;
            packets += piece;
            told += tracer.take()?.len() as u64;
        }
        told += tracer.stop()?.len() as u64;
        drop(tracer);
        passed += packets;
        if !without_first {
            without = router.pass(options.slice)?.1;
        }
        rounds.push((time_ns / packets.max(1) as f64, without));
    }
    let statistics = Statistics::enable()?;
    let tracer = Tracer::start(&hop)?;
    let before = tracer.runs()?;
    let (packets, _) = router.pass(options.slice)?;
    let since = tracer.runs()?.into_iter().zip(before);
    let programs = since.map(|((name, now), (_, then))| (name, now.since(then))).collect();
    drop(statistics);
    Ok(Found { rounds, passed, told, programs, packets, cpu: cpus.measured })
}

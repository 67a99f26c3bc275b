//! Frames per second: a source that sends as fast as the chain takes, on one CPU.
//!
//! The kernel runs the source by BPF_PROG_TEST_RUN on live frames, a batch at a time, and what they
//! cause - every program of the chain and all that moves frames between them - in softirq of the
//! same CPU before the next batch. A frame's share of the time is the sum of what it costs.

use std::time::Duration;

use super::Options;
use super::chain::{Chain, Stations};
use super::cpu::Cpus;
use super::programs::Programs;
use crate::{Result, interrupt};

/// Frames of one system call.
const FRAMES: std::ops::RangeInclusive<u32> = 1 << 12..=1 << 24;

/// Within this time the sink has what is not lost.
const BOUND: Duration = Duration::from_millis(100);

/// What measurements need.
#[derive(Debug)]
pub(super) struct Bed<'a> {
    pub(super) stations: &'a Stations,
    pub(super) programs: &'a mut Programs,
    pub(super) cpus: Cpus,
    pub(super) options: &'a Options,
    /// Whether other work on the machine could not take the CPU away in a measurement.
    pub(super) undisturbed: bool,
}

impl Bed<'_> {
    /// Sends frames of `streams` streams through a chain, as fast as it goes; how many the sink
    /// received per second.
    pub(super) fn measure(&mut self, chain: &mut Chain, streams: u32) -> Result<f64> {
        let Bed { stations, programs, cpus, options, undisturbed } = self;
        // The source writes the header.
        let frame = vec![0; options.frame_octets];
        programs.aim(&chain.talker, streams)?;
        let (rate, received) = stations.talker.namespace().run(|| {
            let _pinned = cpus.pin()?;
            // In softirq the chain runs as the thread does that it interrupts.
            *undisturbed &= Cpus::go_first();
            let received_before = programs.received()?;
            // Each stream once or more, so that tables and code are where they will be.
            let warm_up = streams.max(*FRAMES.start());
            let frame_ns = programs.send(&frame, warm_up, options.batch)?;
            let warm = settled(programs, received_before)?;
            interrupt::check()?;
            let frames = (options.slice.as_nanos() as f64 / frame_ns) as u32;
            let frames = frames.clamp(*FRAMES.start(), *FRAMES.end());
            let frame_ns = programs.send(&frame, frames, options.batch)?;
            let received = settled(programs, received_before)?;
            let seconds = f64::from(frames) * frame_ns / 1e9;
            Ok::<_, crate::Error>(((received - warm) as f64 / seconds, received))
        })??;
        chain.sent += programs.sent()?;
        chain.received += received;
        Ok(rate)
    }
}

/// Frames received, once all are there or will not come any more.
fn settled(programs: &mut Programs, before: u64) -> Result<u64> {
    let sent = programs.sent()?;
    let mut received = Ok(0);
    interrupt::wait_until(BOUND, || {
        received = programs.received().map(|now| now - before);
        received.as_ref().map_or(true, |received| *received >= sent)
    })?;
    received
}

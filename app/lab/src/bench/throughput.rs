//! Frames per second of a source that sends as fast as the chain accepts, on one CPU, or offers a number of frames
//! per second from another CPU.
//!
//! The kernel does all work for a frame - every program of the chain and all forwarding between them -
//! in softirq of the sending CPU, before the source continues. A frame's share of the time is the sum
//! of its costs. A packet socket passes one frame at a time to the chain; BPF_PROG_TEST_RUN runs the
//! source of `bpf/bench.bpf.c` on live frames, a batch at a time.

use std::time::Duration;

use onbeat_realtime::interrupt;

use super::chain::{Chain, Stations};
use super::cpu::Cpus;
use super::programs::Programs;
use super::talker::{Pace, Talker};
use super::{Options, Source};
use crate::Result;

/// Frames of one measurement.
const FRAMES: std::ops::RangeInclusive<u32> = 1 << 12..=1 << 24;

/// Time within which the sink has received all frames that are not lost.
pub(super) const BOUND: Duration = Duration::from_millis(100);

/// The objects of a measurement.
#[derive(Debug)]
pub(super) struct ThroughputBed<'a> {
    pub(super) stations: &'a Stations,
    pub(super) programs: &'a mut Programs,
    pub(super) cpus: Cpus,
    pub(super) options: &'a Options,
    /// The source runs at real-time priority, so that other work cannot preempt the measurement.
    pub(super) undisturbed: bool,
}

/// A source, ready to send.
#[derive(Debug)]
enum FrameSender {
    Socket(Talker),
    /// The program writes the header into these octets.
    Kernel {
        octets: Vec<u8>,
        batch: u32,
    },
}

impl FrameSender {
    /// Sends this number of frames; returns nanoseconds per frame.
    fn send(&mut self, programs: &mut Programs, frames: u32) -> Result<f64> {
        match self {
            FrameSender::Socket(talker) => talker.send(frames),
            FrameSender::Kernel { octets, batch } => {
                programs.send("source", octets, frames, *batch)
            }
        }
    }

    /// Frames sent so far.
    fn sent(&self, programs: &mut Programs) -> Result<u64> {
        match self {
            FrameSender::Socket(talker) => Ok(talker.sent()),
            FrameSender::Kernel { .. } => programs.sent(),
        }
    }

    /// Frames received since `before`, once all sent frames have arrived or are lost.
    fn settled(&self, programs: &mut Programs, before: u64) -> Result<u64> {
        let sent = self.sent(programs)?;
        let mut received = Ok(0);
        interrupt::wait_until(BOUND, || {
            received = programs.received().map(|now| now - before);
            received.as_ref().map_or(true, |received| *received >= sent)
        })?;
        received
    }
}

impl ThroughputBed<'_> {
    /// Sends frames of `streams` streams through a chain at full speed; returns the number received per
    /// second.
    pub(super) fn measure(
        &mut self,
        chain: &mut Chain,
        streams: u32,
        source: Source,
    ) -> Result<f64> {
        let ThroughputBed { stations, programs, cpus, options, undisturbed } = self;
        let offered = options.offered.filter(|_| chain.of_threads);
        // The programs for stream 0 read its address, whatever the source is.
        programs.configure_source(&chain.talker, 0..streams)?;
        let mut sender = match source {
            Source::Socket => {
                let talker = stations.talker.namespace();
                let opened = Talker::open(talker, &chain.talker, streams, options.frame_octets)?;
                FrameSender::Socket(opened.paced(match offered {
                    Some(rate) => Pace::Rate(rate),
                    None if chain.of_threads => Pace::InTurn,
                    None => Pace::Full,
                }))
            }
            Source::Kernel => {
                FrameSender::Kernel { octets: vec![0; options.frame_octets], batch: options.batch }
            }
        };
        let (rate, received) = stations.talker.namespace().run(|| {
            let _pinned = if offered.is_some() { cpus.pin_to_others() } else { cpus.pin() }?;
            // In softirq the chain runs at the priority of the interrupted thread.
            *undisturbed &= Cpus::raise_priority();
            let received_before = programs.received()?;
            // Each stream at least once, so that caches are warm.
            let warm_up = streams.max(*FRAMES.start());
            let frame_ns = sender.send(programs, warm_up)?;
            let warm = sender.settled(programs, received_before)?;
            interrupt::check()?;
            let frames = (options.slice.as_nanos() as f64 / frame_ns) as u32;
            let frames = frames.clamp(*FRAMES.start(), *FRAMES.end());
            let frame_ns = sender.send(programs, frames)?;
            // Frames that still wait are not part of the rate at which a slower chain forwards.
            let forwarded = programs.received()? - received_before;
            let received = sender.settled(programs, received_before)?;
            let counted = if offered.is_some() { forwarded } else { received };
            let seconds = f64::from(frames) * frame_ns / 1e9;
            Ok::<_, crate::Error>(((counted - warm) as f64 / seconds, received))
        })??;
        chain.sent += sender.sent(programs)?;
        chain.received += received;
        Ok(rate)
    }
}

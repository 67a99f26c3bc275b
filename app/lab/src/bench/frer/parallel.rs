//! Throughput of two CPUs that process frames at the same time, compared with one.
//!
//! Each interface has a receive queue for each CPU, and each CPU a source, made in its kernel. A source's frames
//! stay on its CPU, as those of a stream that a NIC assigns to a queue by RSS. Both CPUs run the same programs on the
//! same nodes. A third stream is sent by both CPUs: its frames overtake each other.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use libbpf_rs::Link;
use onbeat_realtime::interrupt;
use onbeat_report::Progress;

use super::super::Options;
use super::super::account::FrameAccount;
use super::super::chain::{Chain, Stations};
use super::super::cpu::Cpus;
use super::super::frer_chain::{FrerNodeCounters, ProtectedChain, Protection};
use super::super::programs::{FrameProgram, Programs};
use super::super::redirect::{Redirect, RedirectChain};
use super::super::throughput::BOUND;
use crate::rounds::{Variant, pair};
use crate::{Error, Result};

/// Streams: one for each CPU, and one for both.
const STREAMS: u32 = 3;
const SHARED: u32 = 2;

/// Paths of the chains.
const PATHS: usize = 2;

/// Slices of the other measurements in one of these.
const SLICES: f64 = 4.0;

/// Frames before the first measurement of a chain.
const WARM_UP: u32 = 1 << 14;

/// Frames per second of a data plane, per round: both CPUs, and one CPU measured directly before or after.
#[derive(Debug, Default)]
pub(super) struct ParallelCase {
    pub(super) name: &'static str,
    pub(super) pairs: Vec<(f64, f64)>,
}

/// Accepted frames that did not follow the previous one of their stream.
#[derive(Debug, Default)]
pub(super) struct Disorder {
    /// In streams of one CPU.
    pub(super) own: u64,
    /// In the stream of both.
    pub(super) shared: u64,
    /// Frames of the stream of both that the recovery function passed.
    pub(super) shared_passed: u64,
}

/// Results of the measurement with two CPUs.
#[derive(Debug)]
pub(in crate::bench) struct ParallelResults {
    pub(super) cpus: [usize; 2],
    pub(super) cases: [ParallelCase; 3],
    pub(super) disorder: Disorder,
    pub(super) redirected: FrameAccount,
    pub(super) protected: FrameAccount,
}

/// One source per CPU.
struct CpuSources<'a> {
    stations: &'a Stations,
    options: &'a Options,
    cpus: [Cpus; 2],
    programs: [Programs; 2],
    senders: [FrameProgram; 2],
}

impl CpuSources<'_> {
    /// Sends `frames` frames of each stream by its CPU, the first of `streams` by the first one; returns the number
    /// sent per second.
    fn send(&self, chain: &mut Chain, streams: &[u32], frames: u32) -> Result<f64> {
        let sources = || self.cpus.iter().zip(&self.programs).zip(&self.senders).zip(streams);
        for (((_, programs), _), stream) in sources() {
            programs.configure_source(&chain.talker, *stream..stream + 1)?;
        }
        let start = Barrier::new(streams.len());
        let send = |cpus: &Cpus, sender: &FrameProgram| {
            let send = || {
                let pinned = cpus.pin();
                start.wait();
                let _pinned = pinned?;
                let octets = vec![0; self.options.frame_octets];
                // At normal priority: the kernel's threads, for which a call waits before its first frame, could not run.
                let begin = Instant::now();
                sender.send(&octets, frames, self.options.batch)?;
                Ok::<_, Error>((begin, Instant::now()))
            };
            self.stations.talker.namespace().run(send)?
        };
        let times: Result<Vec<(Instant, Instant)>> = thread::scope(|scope| {
            let threads: Vec<_> = sources()
                .map(|(((cpus, _), sender), _)| scope.spawn(|| send(cpus, sender)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a source")).collect()
        });
        for (((_, programs), _), _) in sources() {
            chain.sent += programs.sent()?;
        }
        let times = times?;
        let begin = times.iter().map(|(begin, _)| *begin).min();
        let end = times.iter().map(|(_, end)| *end).max();
        let seconds = begin.zip(end).map_or(f64::NAN, |(begin, end)| (end - begin).as_secs_f64());
        Ok(f64::from(frames) * times.len() as f64 / seconds)
    }

    /// As [`CpuSources::send`] for a slice of time; returns the number received per second.
    fn measure(&self, chain: &mut Chain, sinks: &Programs, streams: &[u32]) -> Result<f64> {
        interrupt::check()?;
        let (sent_before, received_before) = (chain.sent, sinks.received()?);
        let rate = self.send(chain, streams, WARM_UP)?;
        // A call has an overhead of milliseconds, which is part of the time.
        let seconds = SLICES * self.options.slice.as_secs_f64() / streams.len() as f64;
        let frames = (rate * seconds) as u32;
        let rate = self.send(chain, streams, frames.max(WARM_UP))?;
        let sent = chain.sent - sent_before;
        let mut received = Ok(0);
        interrupt::wait_until(BOUND, || {
            received = sinks.received().map(|now| now - received_before);
            received.as_ref().map_or(true, |received| *received >= sent)
        })?;
        let received = received?;
        chain.received += received;
        Ok(rate * received as f64 / sent as f64)
    }
}

/// Measures both data planes with one CPU and with two.
pub(in crate::bench) fn measure(
    options: &Options,
    cpus: Cpus,
    progress: &mut Progress,
) -> Result<ParallelResults> {
    let other = cpus.another().ok_or_else(|| Error::Option {
        option: "cpus",
        value: "2".into(),
        reason: "this process may use one CPU only".into(),
    })?;
    let stations = Stations::new()?;
    let mut sinks = Programs::load()?;
    let programs = [Programs::load()?, Programs::load()?];
    let senders = [programs[0].source("source")?, programs[1].source("source")?];
    let sources =
        CpuSources { stations: &stations, options, cpus: [cpus, other], programs, senders };
    let chain = |number| Chain::with_queues(&stations, number, true, 2);
    let mut redirects = RedirectChain::start(&stations, chain(0)?, &mut sinks)?;
    redirects.set(Redirect::TwoPaths, &mut sinks)?;
    let mut frer = ProtectedChain::start(&stations, chain(1)?, PATHS, STREAMS, options.functions)?;
    let _sinks: Vec<Link> = [&redirects.chain, &frer.chain]
        .map(|chain| sinks.attach("sink", &stations.listener, &chain.listener))
        .into_iter()
        .collect::<Result<_>>()?;

    let case = |name| ParallelCase { name, pairs: Vec::new() };
    let mut cases = ["redirect", "FRER", "FRER, one stream on both CPUs"].map(case);
    for round in 0..options.rounds {
        progress.update(|| format!("round {} of {}: two CPUs", round + 1, options.rounds));
        for (number, case) in cases.iter_mut().enumerate() {
            let chain = if number == 0 { &mut redirects.chain } else { &mut frer.chain };
            let both: &[u32] = if number == 2 { &[SHARED, SHARED] } else { &[0, 1] };
            case.pairs.push(pair(round, |variant| {
                let streams = match variant {
                    Variant::Subject => both,
                    Variant::Reference => &both[..1],
                };
                sources.measure(chain, &sinks, streams)
            })?);
        }
    }
    let account = |chain: &Chain, protection, counted| {
        let (sent, received, dropped) = (chain.sent, chain.received, chain.dropped(&stations)?);
        Ok::<_, Error>(FrameAccount { paths: PATHS, protection, sent, received, dropped, counted })
    };
    Ok(ParallelResults {
        cpus: [cpus.measured, other.measured],
        cases,
        disorder: disorder(&frer)?,
        redirected: account(&redirects.chain, Protection::Streams(0), FrerNodeCounters::default())?,
        protected: account(&frer.chain, frer.protection, frer.counted()?)?,
    })
}

fn disorder(frer: &ProtectedChain) -> Result<Disorder> {
    let mut disorder = Disorder::default();
    for stream in 0..STREAMS {
        let counters = frer.recovery(stream)?;
        if stream == SHARED {
            (disorder.shared, disorder.shared_passed) = (counters.out_of_order, counters.passed);
        } else {
            disorder.own += counters.out_of_order;
        }
    }
    Ok(disorder)
}

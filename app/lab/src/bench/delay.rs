//! One-way delay of single frames, on an idle CPU and with a CPU hog.
//!
//! A frame is stamped just before it is passed to the kernel, and again when the kernel of the listener
//! receives it. Source, softirq and hog share the measured CPU; the sink, which only reads stamps, runs
//! elsewhere.

use std::time::Duration;

use onbeat_realtime::clock::SECOND;
use onbeat_realtime::interrupt;
use onbeat_report::format::count;
use onbeat_report::{Distribution, Progress, Recorder};

use super::chain::Chain;
use super::frames;
use super::throughput::ThroughputBed;
use crate::traffic::{Delivery, ExpectedStream, Rate, Sink, Source, SourceConfig};
use crate::{Error, Result};

/// Probes per slice.
const SLICE: Duration = Duration::from_secs(1);

/// Time after the last transmission within which a frame has arrived or is lost.
const BOUND: Duration = Duration::from_secs(2);

const STREAM: u32 = 1;

/// Results of the probes of one chain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProbeCounts {
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    /// Frames with a difference: changed, tagged, of another VLAN, out of order.
    pub(super) wrong: u64,
}

impl ProbeCounts {
    fn add(&mut self, delivery: &Delivery, corrupted: u64) {
        let record = &delivery.record;
        self.sent += delivery.sent();
        self.lost += delivery.lost();
        self.duplicated += record.duplicated();
        self.wrong +=
            corrupted + record.sequence_tagged + record.wrong_vlan + record.out_of_order();
    }
}

/// Measures the delays of all four cases, and the results of the probes: by redirect, by FRER.
pub(super) fn measure(
    bed: &ThroughputBed<'_>,
    chains: [&Chain; 2],
    progress: &mut Progress,
) -> Result<(Distribution, [ProbeCounts; 2])> {
    const NAMES: [[&str; 2]; 2] =
        [["redirect, idle", "FRER, idle"], ["redirect, CPU hog", "FRER, CPU hog"]];
    let options = bed.options;
    let mut recorder = Recorder::new();
    let mut fates = [ProbeCounts::default(); 2];
    let slices = (options.probes * SECOND / options.probe_rate).div_ceil(SLICE.as_nanos() as u64);
    let mut left = options.probes;
    for slice in 0..slices {
        let probes = left / (slices - slice);
        left -= probes;
        for (loaded, names) in NAMES.iter().enumerate() {
            let _hog = (loaded == 1).then(|| bed.cpus.hog()).transpose()?;
            for turn in 0..2 {
                // The order alternates.
                let which = (turn + slice as usize) % 2;
                let name = names[which];
                progress.update(|| format!("delay {} of {slices}: {name}", slice + 1));
                let (delivery, corrupted) = probe(bed, chains[which], probes)?;
                fates[which].add(&delivery, corrupted);
                let phase = recorder.phase(name);
                recorder.lose(phase, delivery.lost());
                for number in 0..delivery.sent() {
                    if let Some(delay_ns) = delivery.delay_ns(number) {
                        recorder.record(phase, delay_ns);
                    }
                }
            }
        }
    }
    let mut figure = recorder.figure();
    figure.series.sort_by_key(|series| NAMES.as_flattened().iter().position(|n| *n == series.name));
    Ok((figure, fates))
}

fn probe(bed: &ThroughputBed<'_>, chain: &Chain, probes: u64) -> Result<(Delivery, u64)> {
    let ThroughputBed { stations, options, cpus, .. } = bed;
    let frame = frames::spec(options.probe_octets);
    let expected = ExpectedStream { stream: STREAM, vlans: frame.vlans.clone() };
    let sink = {
        let _elsewhere = cpus.pin_to_others()?;
        Sink::start(stations.listener.namespace(), &chain.listener.name, &[expected])?
    };
    let source = {
        let _here = cpus.pin()?;
        let config = SourceConfig {
            stream: STREAM,
            frame,
            rate: Rate::PerSecond(options.probe_rate),
            limit: Some(probes),
            spin: Duration::ZERO,
        };
        Source::start(stations.talker.namespace(), &chain.talker.name, config)?
    };
    let expected_time = Duration::from_nanos(probes * SECOND / options.probe_rate);
    if !interrupt::wait_until(expected_time * 4 + BOUND, || source.is_finished())? {
        return Err(Error::Invalid(format!(
            "the source did not get enough CPU time to send {} within {} s",
            count(probes, "frame"),
            (expected_time * 4 + BOUND).as_secs()
        )));
    }
    let report = source.stop()?;
    interrupt::wait_until(BOUND, || sink.complete_below(STREAM) >= report.sent)?;
    let mut sink = sink.stop()?;
    let corrupted = sink.corrupted;
    Ok((Delivery::new(report, sink.take(STREAM)?), corrupted))
}

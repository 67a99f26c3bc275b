//! Measurements: CPUs, load, methods and their results.

use std::str::FromStr;

use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::Sample;
use onbeat_delay::summary::DelaySummary;
use onbeat_realtime::CpuSet;

use super::rig::Rig;
use crate::{Error, Result, cpus};

/// CPUs of the hop.
#[derive(Debug, Clone)]
pub(super) struct HopCpus {
    /// Name in figures: the number of CPUs.
    pub(super) name: &'static str,
    pub(super) cpus: CpuSet,
}

impl HopCpus {
    /// The last CPU, and the last with the first, on which everything else runs.
    pub(super) fn all() -> Result<[HopCpus; 2]> {
        let (first, last) = ends()?;
        Ok([
            HopCpus { name: "1", cpus: [last].into_iter().collect() },
            HopCpus { name: "2", cpus: [first, last].into_iter().collect() },
        ])
    }
}

/// The first and the last CPU that may be used.
pub(super) fn ends() -> Result<(u16, u16)> {
    match cpus::usable()?[..] {
        [first, .., last] => Ok((first, last)),
        _ => Err(Error::Invalid(
            "requires two CPUs: one for the hop, one for the sender and the measurement".to_owned(),
        )),
    }
}

/// Load of the hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// None.
    Idle,
    /// A process with the duty cycles of table 1 of the paper.
    Cpu,
    /// Datagrams per second by another interface.
    Net(u32),
}

impl Load {
    /// The loads of the paper's matrix.
    pub(super) const ALL: [Load; 5] =
        [Load::Idle, Load::Cpu, Load::Net(1_000), Load::Net(5_000), Load::Net(20_000)];

    /// Name in figures.
    pub(super) fn name(self) -> String {
        match self {
            Load::Idle => "idle".into(),
            Load::Cpu => "CPU load".into(),
            Load::Net(rate) => format!("network load, {rate}/s"),
        }
    }
}

impl FromStr for Load {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("idle", _) => Ok(Load::Idle),
            ("cpu", _) => Ok(Load::Cpu),
            (_, Ok(rate @ 1..)) => Ok(Load::Net(rate)),
            _ => Err("use idle, cpu, or datagrams per second, such as 5000"),
        }
    }
}

/// Duration, rate and size of probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    pub(super) rate: u64,
    pub(super) for_ns: u64,
    pub(super) octets: usize,
}

/// A method of measurement, used with others at the same time on the same packets.
pub(super) trait Method: Sync {
    /// Name in figures.
    fn name(&self) -> &'static str;

    /// Starts to measure; the traffic starts after all methods. `None`: this method does not observe
    /// packets of this hop.
    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measurement>>>;
}

/// A running measurement.
pub(super) trait Measurement {
    /// Stops it. All probes have been answered or given up.
    fn end(self: Box<Self>, traffic: &[Sample]) -> Result<MethodResult>;
}

/// Result of a method.
#[derive(Debug, Default)]
pub(super) struct MethodResult {
    pub(super) delays: DelaySummary,
    /// Delays in order of time.
    pub(super) each: Vec<DelaySample>,
    /// Known maximum positive error of a delay, in nanoseconds.
    pub(super) too_long_ns: f64,
    /// Packets that did not leave.
    pub(super) lost: u64,
    /// Packets that left without having arrived.
    pub(super) unmatched: u64,
    /// Maximum number of packets not observed, by cause, as detected by the method. Only hooks can miss
    /// packets: the kernel of some virtual machines runs no BPF program during certain tasks.
    pub(super) unseen: Vec<(&'static str, u64)>,
}

/// A delay with its context.
#[derive(Debug, Clone, Copy)]
pub(super) struct DelaySample {
    /// Arrival of the packet, in nanoseconds of the method's clock.
    pub(super) time_ns: i64,
    pub(super) delay_ns: i64,
    /// Number of packets before it in the hop, if observed.
    pub(super) depth: Option<u32>,
}

impl MethodResult {
    /// Packets with a delay or a loss.
    fn reported(&self) -> u64 {
        self.delays.delays.count() + self.lost
    }

    /// Of `sent` packets, those not observed for a detected cause.
    pub(super) fn unseen_of(&self, sent: u64) -> u64 {
        let known: u64 = self.unseen.iter().map(|(_, packets)| packets).sum();
        sent.saturating_sub(self.reported()).min(known)
    }

    /// Of `sent` packets, those missing without a cause, or reported more than once.
    pub(super) fn unaccounted_of(&self, sent: u64) -> u64 {
        sent.abs_diff(self.reported() + self.unseen_of(sent))
    }

    pub(super) fn record(&mut self, time_ns: i64, delay_ns: i64, verdict: Verdict) {
        self.delays.record(time_ns, delay_ns, verdict);
        if verdict != Verdict::Ambiguous {
            self.each.push(DelaySample { time_ns, delay_ns, depth: None });
        }
    }

    pub(super) fn lose(&mut self) {
        self.delays.lose();
        self.lost += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(measured: i64, lost: u64, unseen: &[u64]) -> MethodResult {
        let mut found = MethodResult::default();
        (0..measured).for_each(|at| found.record(at, 1, Verdict::Certain));
        (0..lost).for_each(|_| found.lose());
        found.unseen = unseen.iter().map(|packets| ("a cause", *packets)).collect();
        found
    }

    #[test]
    fn every_packet_is_measured_lost_or_missed_for_a_cause() {
        for (found, unseen, unaccounted) in [
            (found(9, 1, &[]), 0, 0),
            (found(5, 1, &[1, 3]), 4, 0),
            // A cause counts other packets as well.
            (found(5, 1, &[9]), 4, 0),
            (found(9, 1, &[9]), 0, 0),
            (found(5, 1, &[]), 0, 4),
            (found(5, 1, &[1]), 1, 3),
            (found(10, 1, &[1]), 0, 1),
        ] {
            assert_eq!(found.unseen_of(10), unseen, "{found:?}");
            assert_eq!(found.unaccounted_of(10), unaccounted, "{found:?}");
        }
    }
}

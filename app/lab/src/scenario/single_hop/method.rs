//! Ways to measure what packets wait in a hop.

use onbeat_delay::collected::Collected;
use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::Sample;

use super::hooks::Hooks;
use super::mirror::Mirror;
use super::rig::{Hop, Rig};
use crate::Result;

/// A way to measure, beside others at the same time and of the same packets.
pub(super) trait Method: Sync {
    /// As figures name it.
    fn name(&self) -> &'static str;

    /// Begins to measure; the traffic begins once all methods have. `None` where this method sees nothing
    /// of this hop.
    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measuring>>>;
}

/// A measurement that has begun.
pub(super) trait Measuring {
    /// Ends it. All probes were answered, or given up, by now.
    fn end(self: Box<Self>, traffic: &[Sample]) -> Result<Found>;
}

/// What a method found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) delays: Collected,
    /// The delays one by one, in order of time.
    pub(super) each: Vec<Each>,
    /// What a delay is measured too long by, at most, as the method itself knows, in nanoseconds.
    pub(super) too_long_ns: f64,
    /// Packets that did not leave.
    pub(super) lost: u64,
    /// Packets that left without having arrived.
    pub(super) unmatched: u64,
    /// Packets that the method itself detected that it did not see, at most, by cause. Only hooks can miss
    /// packets: the kernel of some virtual machines runs no BPF program in the time of certain tasks.
    pub(super) unseen: Vec<(&'static str, u64)>,
}

/// A delay, and what was seen beside.
#[derive(Debug, Clone, Copy)]
pub(super) struct Each {
    /// When the packet arrived, in nanoseconds of the method's clock.
    pub(super) time_ns: i64,
    pub(super) delay_ns: i64,
    /// Packets before it in the hop, where that is seen.
    pub(super) depth: Option<u32>,
}

impl Found {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            delays: Collected::new(),
            each: Vec::new(),
            too_long_ns: 0.0,
            lost: 0,
            unmatched: 0,
            unseen: Vec::new(),
        }
    }

    /// Packets with a delay or a loss.
    fn reported(&self) -> u64 {
        self.delays.delays.count() + self.lost
    }

    /// Of `sent` packets, those that the method did not see, as far as it detected a cause.
    pub(super) fn unseen_of(&self, sent: u64) -> u64 {
        let known: u64 = self.unseen.iter().map(|(_, packets)| packets).sum();
        sent.saturating_sub(self.reported()).min(known)
    }

    /// Of `sent` packets, those that are missing without a cause, or reported more than once.
    pub(super) fn unaccounted_of(&self, sent: u64) -> u64 {
        sent.abs_diff(self.reported() + self.unseen_of(sent))
    }

    pub(super) fn record(&mut self, time_ns: i64, delay_ns: i64, verdict: Verdict) {
        self.delays.record(time_ns, delay_ns, verdict);
        if verdict != Verdict::Ambiguous {
            self.each.push(Each { time_ns, delay_ns, depth: None });
        }
    }

    pub(super) fn lose(&mut self) {
        self.delays.lose();
        self.lost += 1;
    }
}

/// All methods, in the order in which figures show them. The first is what others are compared with.
pub(super) const METHODS: [&dyn Method; 4] = [&Mirror, &Hooks, &ONE_WAY, &ROUND_TRIP];

/// Places of methods in [`METHODS`].
pub(super) const MIRROR: usize = 0;
pub(super) const HOOKS: usize = 1;
pub(super) const PROBE_ONE_WAY: usize = 2;
pub(super) const PROBE_ROUND_TRIP: usize = 3;

/// End to end, as the sender sees it.
struct Probe {
    name: &'static str,
    /// Of a probe through this hop.
    delay_ns: fn(Hop, &Sample) -> Option<i64>,
}

/// The way that others measure, too: there, by the one clock of both ends; where the hop is what answers,
/// there and back with the time that the answer takes.
const ONE_WAY: Probe = Probe {
    name: "probe, one way",
    delay_ns: |hop, sample| match hop {
        Hop::Reflector => sample.answer.map(|answer| answer.received_ns - sample.sent_ns),
        _ => sample.there_ns(),
    },
};

/// The round trip, without the time in the reflector.
const ROUND_TRIP: Probe =
    Probe { name: "probe, round trip", delay_ns: |_, sample| sample.round_trip_ns() };

impl Method for Probe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measuring>>> {
        Ok(Some(Box::new(Probing { hop: rig.hop, delay_ns: self.delay_ns })))
    }
}

struct Probing {
    hop: Hop,
    delay_ns: fn(Hop, &Sample) -> Option<i64>,
}

impl Measuring for Probing {
    fn end(self: Box<Self>, traffic: &[Sample]) -> Result<Found> {
        let mut found = Found::new();
        for sample in traffic {
            match (self.delay_ns)(self.hop, sample) {
                Some(delay_ns) => found.record(sample.sent_ns, delay_ns, Verdict::Certain),
                None => found.lose(),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(measured: i64, lost: u64, unseen: &[u64]) -> Found {
        let mut found = Found::new();
        (0..measured).for_each(|at| found.record(at, 1, Verdict::Certain));
        (0..lost).for_each(|_| found.lose());
        found.unseen = unseen.iter().map(|packets| ("a cause", *packets)).collect();
        found
    }

    #[test]
    fn every_packet_is_measured_lost_or_unseen_for_a_cause() {
        for (found, unseen, unaccounted) in [
            (found(9, 1, &[]), 0, 0),
            (found(5, 1, &[1, 3]), 4, 0),
            // A cause counts other packets, too.
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

//! Methods to measure packet delay in a hop.

use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::Sample;

use super::hooks::Hooks;
use super::measurement::{Measurement, Method, MethodResult};
use super::mirror::Mirror;
use super::rig::{Hop, Rig};
use crate::Result;

/// All methods in the order of figures. The first is the reference of the others.
pub(super) const METHODS: [&dyn Method; 6] =
    [&Mirror, &Hooks, &ONE_WAY, &ROUND_TRIP, &APPLICATION_ONE_WAY, &APPLICATION_ROUND_TRIP];

/// Indices of methods in [`METHODS`].
pub(super) const MIRROR: usize = 0;
pub(super) const HOOKS: usize = 1;
pub(super) const PROBE_ONE_WAY: usize = 2;
pub(super) const PROBE_ROUND_TRIP: usize = 3;
pub(super) const APPLICATION_THERE: usize = 4;
pub(super) const APPLICATION: usize = 5;

/// End-to-end measurement by the sender.
struct Probe {
    name: &'static str,
    /// Computes the delay of a probe through this hop.
    delay_ns: fn(Hop, &Sample) -> Option<i64>,
}

/// The path that other methods measure as well: one way, by the one clock of both ends; if the hop is
/// the reflector, the round trip including the time in the reflector.
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

/// The view of the application: from the scheduled transmission until the reflector has handled the probe.
const APPLICATION_ONE_WAY: Probe =
    Probe { name: "application, one way", delay_ns: |_, sample| sample.application_there_ns() };

/// From the scheduled transmission until the sending process has the reply.
const APPLICATION_ROUND_TRIP: Probe =
    Probe { name: "application, round trip", delay_ns: |_, sample| sample.application_ns() };

impl Method for Probe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self, rig: &Rig) -> Result<Option<Box<dyn Measurement>>> {
        Ok(Some(Box::new(ProbeMeasurement { hop: rig.hop, delay_ns: self.delay_ns })))
    }
}

struct ProbeMeasurement {
    hop: Hop,
    delay_ns: fn(Hop, &Sample) -> Option<i64>,
}

impl Measurement for ProbeMeasurement {
    fn end(self: Box<Self>, traffic: &[Sample]) -> Result<MethodResult> {
        let mut found = MethodResult::default();
        for sample in traffic {
            match (self.delay_ns)(self.hop, sample) {
                Some(delay_ns) => found.record(sample.sent_ns, delay_ns, Verdict::Certain),
                None => found.lose(),
            }
        }
        Ok(found)
    }
}

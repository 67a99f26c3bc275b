//! Ways to measure what packets wait in a hop.

use onbeat_delay::collected::Collected;
use onbeat_delay::matching::Verdict;
use onbeat_delay::probe::Sample;

use super::hooks::Hooks;
use super::mirror::Mirror;
use super::rig::Rig;
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
    /// Packets that did not leave.
    pub(super) lost: u64,
    /// Packets that left without having arrived.
    pub(super) unmatched: u64,
    /// Packets of which the method cannot say for sure what became of them, and says nothing.
    pub(super) untold: u64,
}

/// All methods, in the order in which figures show them. The first is what others are compared with.
pub(super) const METHODS: [&dyn Method; 3] = [&Mirror, &Hooks, &Probe];

/// End to end: the round trip as the sender sees it, without the time in the reflector.
struct Probe;

impl Method for Probe {
    fn name(&self) -> &'static str {
        "probe, round trip"
    }

    fn begin(&self, _: &Rig) -> Result<Option<Box<dyn Measuring>>> {
        Ok(Some(Box::new(Probing)))
    }
}

struct Probing;

impl Measuring for Probing {
    fn end(self: Box<Self>, traffic: &[Sample]) -> Result<Found> {
        let mut found = Found { delays: Collected::new(), lost: 0, unmatched: 0, untold: 0 };
        for sample in traffic {
            match sample.round_trip_ns() {
                Some(delay_ns) => found.delays.record(sample.sent_ns, delay_ns, Verdict::Certain),
                None => {
                    found.delays.lose();
                    found.lost += 1;
                }
            }
        }
        Ok(found)
    }
}

//! Intake of one side's packets for a matcher: selects, keys, counts and samples them.

use std::collections::HashSet;
use std::fmt;

use super::{Side, Tally};
use crate::capture::{CaptureError, Packet};
use crate::diagnosis::{Sample, SideEvidence, TimeOrder};
use crate::key::{NoKeyReason, Recognition, endpoints};

type PacketPredicate = dyn FnMut(&Packet<'_>) -> Result<bool, String>;

/// Selects packets of one side; returns an error if it does not apply to them.
pub struct PacketFilter(Box<PacketPredicate>);

impl PacketFilter {
    /// A filter that keeps the packets for which `keep` returns `true`.
    pub fn new(keep: impl FnMut(&Packet<'_>) -> Result<bool, String> + 'static) -> Self {
        PacketFilter(Box::new(keep))
    }
}

impl fmt::Debug for PacketFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketFilter")
    }
}

/// The reading plan of one side, from an earlier reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SidePlan {
    /// Numbers of the packets at which the clock was set back, in order.
    pub steps: Vec<u64>,
    /// Hashes of senders on the link whose packets go in the other direction.
    pub excluded: HashSet<u64>,
}

/// The reading plan of both sides. The default is that of a first reading.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Of arrivals.
    pub arrivals: SidePlan,
    /// Of departures.
    pub departures: SidePlan,
    /// The time by which time stamps of a capture go back, in nanoseconds, without clock steps; 0 if it is within
    /// the normal range.
    pub disorder_ns: i64,
}

#[derive(Debug)]
pub(super) struct Intake {
    side: Side,
    filter: Option<PacketFilter>,
    plan: SidePlan,
    pub(super) tally: Tally,
    pub(super) sample: Sample,
    order: TimeOrder,
}

impl Intake {
    pub(super) fn new(side: Side) -> Self {
        Intake {
            side,
            filter: None,
            plan: SidePlan::default(),
            tally: Tally::default(),
            sample: Sample::default(),
            order: TimeOrder::default(),
        }
    }

    pub(super) fn filter(&mut self, filter: Option<PacketFilter>) {
        self.filter = filter;
    }

    pub(super) fn plan(&mut self, plan: SidePlan) {
        self.plan = plan;
    }

    /// Returns the packet's key; `None`, and counted, if it has none or is not selected. A packet whose link type
    /// cannot be matched is an error.
    #[inline]
    pub(super) fn key(
        &mut self,
        recognition: &Recognition,
        packet: &Packet<'_>,
    ) -> Result<Option<u64>, CaptureError> {
        self.tally.packets += 1;
        let backward = self.order.observe(packet.number, packet.time_ns);
        if let Some(filter) = &mut self.filter {
            let error = |reason| CaptureError::Filter { number: packet.number, reason };
            if !(filter.0)(packet).map_err(error)? {
                self.tally.filtered += 1;
                return Ok(None);
            }
        }
        if !self.plan.excluded.is_empty()
            && endpoints(packet).is_some_and(|ends| self.plan.excluded.contains(&ends.source))
        {
            self.tally.other_direction += 1;
            return Ok(None);
        }
        let key = match recognition.key_on(self.side, packet) {
            Ok(key) => Some(key),
            Err(NoKeyReason::Link(link)) => {
                return Err(CaptureError::Link { number: packet.number, link });
            }
            Err(unrecognized) => {
                self.tally.count(unrecognized);
                None
            }
        };
        self.sample.observe(packet, backward);
        Ok(key)
    }

    pub(super) fn evidence(&self, unit_ns: u32) -> SideEvidence<'_> {
        let order = self.order.summary();
        SideEvidence { tally: self.tally, sample: &self.sample, order, unit_ns }
    }

    /// The number of clock steps before this packet.
    #[inline]
    pub(super) fn steps_before(&self, packet: u64) -> usize {
        if self.plan.steps.is_empty() {
            return 0;
        }
        self.plan.steps.partition_point(|step| *step <= packet)
    }
}

/// Samples each side again from the start of the other, once packets of both sides were read. Returns true if they
/// were.
pub(super) fn meet(arrivals: &mut Sample, departures: &mut Sample) -> bool {
    let start = |sample: &Sample| sample.times_ns().map(|(first_ns, _)| first_ns);
    let (Some(first), Some(second)) = (start(arrivals), start(departures)) else { return false };
    arrivals.expect_other(second);
    departures.expect_other(first);
    true
}

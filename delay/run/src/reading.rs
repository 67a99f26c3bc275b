//! Complete readings of captures.

use onbeat_delay::diagnosis::{Diagnosis, Evidence, MatchSummary, MatchingOptions};
use onbeat_delay::matching::{Counts, Event};
use onbeat_delay::pairing::Plan;
use onbeat_delay::stats::StampError;
use onbeat_delay::summary::DelaySummary;
use onbeat_report::format::{count, duration_ns};

use super::samples::SampleFiles;
use super::sink::DelaySink;
use crate::error::Result;

/// The result of a reading.
pub(super) struct Reading {
    pub(super) counts: Counts,
    /// Packets of the smaller side.
    pub(super) smaller: u64,
    pub(super) diagnosis: Diagnosis,
    /// The error of each delay due to the resolution of the time stamps.
    pub(super) stamp_error: StampError,
    /// True if the captures were read by the plan of the diagnosis.
    pub(super) planned: bool,
    pub(super) notes: Vec<String>,
}

impl Reading {
    pub(super) fn new(
        counts: Counts,
        evidence: &Evidence<'_>,
        matching: &MatchingOptions,
        notes: Vec<String>,
    ) -> Self {
        let (arrivals, departures) = (evidence.arrivals.tally, evidence.departures.tally);
        let mut notes = notes;
        notes.extend(stamp_notes(evidence));
        Reading {
            counts,
            smaller: arrivals.selected().min(departures.selected()),
            diagnosis: evidence.diagnose(matching),
            stamp_error: evidence.stamp_error(),
            planned: false,
            notes,
        }
    }

    /// The summary of the measurement.
    pub(super) fn matched(&self, sink: &DelaySink) -> MatchSummary {
        let DelaySummary { delays, ambiguous, .. } = &sink.collected;
        let recorded = delays.count() + delays.negative();
        // Some matches were found to be ambiguous after they were recorded.
        let matched = recorded.min(self.counts.measured());
        MatchSummary {
            matched,
            ambiguous: ambiguous.count() + ambiguous.negative() + recorded - matched,
            smaller: self.smaller,
            equal_times: sink.collected.equal_times,
            strays: self.counts.strays,
            negative: delays.negative() + ambiguous.negative(),
            most_negative_ns: delays.most_negative_ns().min(ambiguous.most_negative_ns()),
        }
    }
}

/// Notes on the quality of time stamps, and its effect on the figures.
fn stamp_notes(evidence: &Evidence<'_>) -> Vec<String> {
    let sides = [("arrivals", &evidence.arrivals), ("departures", &evidence.departures)];
    let mut notes = Vec::new();
    for (name, side) in sides {
        let (quality, resolution_ns) = (side.sample.quality(), side.resolution_ns());
        if resolution_ns > 1 {
            notes.push(format!(
                "{name}: the resolution of time stamps is {}; intervals contain this error, which no number of packets \
                 reduces; capture with `tcpdump --time-stamp-precision=nano`",
                duration_ns(resolution_ns as f64)
            ));
        }
        if let Some(share) = quality.batched() {
            notes.push(format!(
                "{name}: {:.0} % of the packets follow another in less than the wire time at 10 Gbit/s; they are \
                 stamped in batches, up to {} late; intervals contain this error; use NIC stamps, or \
                 `ethtool -C IFACE rx-usecs 0`",
                100.0 * share,
                duration_ns(quality.late_ns() as f64)
            ));
        }
        if quality.long() > 0 {
            notes.push(format!(
                "{name}: {} longer than a frame; unless they are jumbo frames, the host merged them, and they do \
                 not match; capture with `ethtool -K IFACE gro off lro off tso off gso off`",
                count(quality.long(), "packet")
            ));
        }
    }
    notes
}

/// Reads captures, and a second time if that is possible and the first reading shows how more packets match. Files
/// of samples hold rows of the last reading only.
pub(super) fn read(
    can_repeat: bool,
    files: &SampleFiles,
    sink: &mut DelaySink,
    mut reading: impl FnMut(Plan, &str, &mut dyn FnMut(Event<()>)) -> Result<Reading>,
) -> Result<Reading> {
    let inspects = can_repeat && files.are_enabled();
    let first = match inspects {
        true => reading(Plan::default(), "inspecting", &mut |_| {})?,
        false => reading(Plan::default(), "matching", &mut |event| sink.take(&event))?,
    };
    let plan = first.diagnosis.plan.clone();
    if !inspects {
        if !can_repeat || plan == Plan::default() {
            return Ok(first);
        }
        *sink = DelaySink::new(files)?;
    }
    let second = reading(plan, "matching", &mut |event| sink.take(&event))?;
    Ok(Reading { diagnosis: first.diagnosis, planned: true, ..second })
}

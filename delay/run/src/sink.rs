//! Where delays go as they are found: what is said of them, the curves, a file.

use onbeat_delay::summary::DelaySummary;
use onbeat_delay::matching::{Event, Verdict};
use onbeat_report::distribution::PhaseId;
use onbeat_report::{Distribution, Recorder};

use super::samples::{Column, SampleFiles, Samples, SampleValue};
use crate::error::Result;

/// What is written of each packet.
const COLUMNS: &[Column] =
    &[Column::number("arrival_ns"), Column::maybe_number("delay_ns"), Column::text("verdict")];

/// Takes delays.
pub(super) struct DelaySink {
    pub(super) collected: DelaySummary,
    curves: Recorder,
    phases: [PhaseId; 2],
    samples: Samples,
}

impl DelaySink {
    pub(super) fn new(files: &SampleFiles) -> Result<Self> {
        let mut curves = Recorder::new();
        let phases = ["delay", "delay of packets that may be another's"];
        let phases = phases.map(|name| curves.phase(name));
        let samples = Samples::create(files, COLUMNS)?;
        Ok(Self { collected: DelaySummary::new(), curves, phases, samples })
    }

    /// What came of a packet, by one clock.
    pub(super) fn take<T: Copy>(&mut self, event: &Event<T>) {
        match event {
            Event::Matched { arrival, departure, verdict } => {
                let delay_ns = departure.time_ns.saturating_sub(arrival.time_ns);
                self.collected.equal_times += u64::from(delay_ns == 0);
                self.record(arrival.time_ns, Some(delay_ns), *verdict);
            }
            Event::Lost(arrival) => self.lose(arrival.time_ns),
            Event::Unmatched(_) | Event::Duplicate(_) => {}
        }
    }

    /// A packet that was matched; its delay where it is known.
    pub(super) fn record(&mut self, time_ns: i64, delay_ns: Option<i64>, verdict: Verdict) {
        if self.samples.are_enabled() {
            let verdict = SampleValue::Text(name(verdict));
            self.samples.row(&[time_ns.into(), SampleValue::maybe(delay_ns), verdict]);
        }
        let Some(delay_ns) = delay_ns else { return self.collected.lose() };
        self.collected.record(time_ns, delay_ns, verdict);
        let phase = self.phases[usize::from(verdict == Verdict::Ambiguous)];
        if let Ok(delay_ns) = u64::try_from(delay_ns) {
            self.curves.record(phase, delay_ns);
        }
    }

    /// A packet that was lost.
    pub(super) fn lose(&mut self, time_ns: i64) {
        self.collected.lose();
        self.curves.lose(self.phases[0], 1);
        self.samples.row(&[time_ns.into(), SampleValue::Nothing, SampleValue::Text("lost")]);
    }

    /// The distributions of delays that are surely the packets' own, and of others where there are any.
    pub(super) fn curves(&self) -> Distribution {
        let mut figure = self.curves.figure();
        figure.series.truncate(1 + usize::from(self.curves.count(self.phases[1]) > 0));
        figure
    }

    /// Writes what of the files is not written yet.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.samples.finish()
    }
}

/// A verdict as files and tables have it.
pub(super) fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Certain => "certain",
        Verdict::Ordered => "ordered",
        Verdict::Ambiguous => "ambiguous",
    }
}

//! Destination of delays: the summary, the curves, the files of samples.

use onbeat_delay::matching::{Event, Verdict};
use onbeat_delay::summary::DelaySummary;
use onbeat_report::{Distribution, Recorder};

use super::samples::{Column, SampleFiles, SampleValue, Samples};
use crate::error::Result;

/// The columns of samples.
const COLUMNS: &[Column] =
    &[Column::number("arrival_ns"), Column::maybe_number("delay_ns"), Column::text("verdict")];

/// Collects delays.
pub(super) struct DelaySink {
    pub(super) collected: DelaySummary,
    samples: Samples,
}

impl DelaySink {
    pub(super) fn new(files: &SampleFiles) -> Result<Self> {
        let samples = Samples::create(files, COLUMNS)?;
        Ok(Self { collected: DelaySummary::new(), samples })
    }

    /// Processes the event of a packet, by one clock.
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

    /// Records a matched packet, with its delay if it is known.
    pub(super) fn record(&mut self, time_ns: i64, delay_ns: Option<i64>, verdict: Verdict) {
        if self.samples.are_enabled() {
            let verdict = SampleValue::Text(name(verdict));
            self.samples.row(&[time_ns.into(), SampleValue::maybe(delay_ns), verdict]);
        }
        let Some(delay_ns) = delay_ns else { return self.collected.skip() };
        self.collected.record(time_ns, delay_ns, verdict);
    }

    /// Records a lost packet.
    pub(super) fn lose(&mut self, time_ns: i64) {
        self.collected.lose();
        self.samples.row(&[time_ns.into(), SampleValue::Nothing, SampleValue::Text("lost")]);
    }

    /// The distributions of certain delays, and of ambiguous ones if there are any.
    pub(super) fn curves(&self) -> Distribution {
        let DelaySummary { delays, ambiguous, .. } = &self.collected;
        let mut curves = Recorder::new();
        for (name, delays) in [("delay", delays), ("delay of ambiguous packets", ambiguous)] {
            let phase = curves.phase(name);
            delays.buckets().for_each(|(ns, count)| curves.record_repeated(phase, ns, count));
            curves.lose(phase, delays.lost());
        }
        let mut figure = curves.figure();
        for (series, delays) in figure.series.iter_mut().zip([delays, ambiguous]) {
            // Not of the rounded delays.
            series.mean = delays.mean_ns();
            series.clamped = delays.clamped();
        }
        figure.series.truncate(1 + usize::from(ambiguous.count() > 0));
        figure
    }

    /// Flushes the files.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.samples.finish()
    }
}

/// The name of a verdict in files and tables.
pub(super) fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Certain => "certain",
        Verdict::Ordered => "ordered",
        Verdict::Ambiguous => "ambiguous",
    }
}

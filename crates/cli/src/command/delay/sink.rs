//! Where delays go as they are found: what is said of them, the curves, a file.

use std::path::Path;

use onbeat_delay::collected::Collected;
use onbeat_delay::matching::{Event, Verdict};
use onbeat_report::distribution::PhaseId;
use onbeat_report::{Distribution, Recorder};

use super::csv::{Csv, cell};
use crate::exit::Result;

/// Takes delays.
pub(super) struct Sink {
    pub(super) collected: Collected,
    curves: Recorder,
    phases: [PhaseId; 2],
    csv: Option<Csv>,
}

impl Sink {
    pub(super) fn new(csv: Option<&Path>) -> Result<Self> {
        let mut curves = Recorder::new();
        let phases = ["delay", "delay of packets that may be another's"];
        let phases = phases.map(|name| curves.phase(name));
        let csv = csv.map(|path| Csv::create(path, "arrival_ns,delay_ns,verdict")).transpose()?;
        Ok(Self { collected: Collected::new(), curves, phases, csv })
    }

    /// What came of a packet, by one clock.
    pub(super) fn take<T: Copy>(&mut self, event: &Event<T>) {
        match event {
            Event::Matched { arrival, departure, verdict } => {
                let delay_ns = departure.time_ns.saturating_sub(arrival.time_ns);
                self.record(arrival.time_ns, Some(delay_ns), *verdict);
            }
            Event::Lost(arrival) => self.lose(arrival.time_ns),
            Event::Unmatched(_) | Event::Duplicate(_) => {}
        }
    }

    /// A packet that was matched; its delay where it is known.
    pub(super) fn record(&mut self, time_ns: i64, delay_ns: Option<i64>, verdict: Verdict) {
        if let Some(csv) = &mut self.csv {
            csv.row(format_args!("{time_ns},{},{}", cell(delay_ns), name(verdict)));
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
        if let Some(csv) = &mut self.csv {
            csv.row(format_args!("{time_ns},,lost"));
        }
    }

    /// The distributions of delays that are surely the packets' own, and of others where there are any.
    pub(super) fn curves(&self) -> Distribution {
        let mut figure = self.curves.figure();
        figure.series.truncate(1 + usize::from(self.curves.count(self.phases[1]) > 0));
        figure
    }

    /// Writes what of the file is not written yet.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.csv.as_mut().map_or(Ok(()), Csv::finish)
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

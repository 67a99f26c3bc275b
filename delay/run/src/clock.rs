//! The clock of the host during a measurement, as a condition of its result.

use onbeat_host::ptp::{ClockWatch, PtpState};
use onbeat_report::{Outcome, PtpClock};

/// The clock of the host, if ptp4l keeps it: sampled from the start of a measurement to its end.
#[derive(Debug)]
pub struct ClockCondition(Option<ClockWatch>);

impl ClockCondition {
    /// Starts to sample the clock.
    #[must_use]
    pub fn begin() -> Self {
        Self(ClockWatch::start())
    }

    /// Adds the clock to the conditions of the result.
    pub fn finish(self, outcome: &mut Outcome) {
        let record = self.0.map(ClockWatch::finish);
        outcome.conditions.ptp = record.map(|record| PtpClock {
            locked: record.status.state == PtpState::Locked,
            state: record.status.state.name().to_owned(),
            cause: record.status.cause,
            samples: record.samples as u64,
            worst_offset_ns: record.status.worst_offset_ns,
        });
    }
}

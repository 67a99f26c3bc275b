//! The lateness of a node: how much later than the bus its process acts.

use onbeat_link::{Stamp, StampSource};
use onbeat_realtime::clock::realtime_ns;
use onbeat_report::distribution::PhaseId;
use onbeat_report::{Distribution, Recorder};

/// The series of SoC.
const SOC: &str = "SoC sent after its instant";

/// Records the lateness of a node.
#[derive(Debug)]
pub(crate) struct Lateness {
    recorder: Recorder,
    handling: PhaseId,
    soc: PhaseId,
    /// Frames received before the node was turned on, in nanoseconds of CLOCK_REALTIME, do not count.
    from_ns: u64,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        let mut recorder = Recorder::new();
        let [handling, soc] =
            ["frame handled after its reception", SOC].map(|name| recorder.phase(name));
        Self { recorder, handling, soc, from_ns: 0 }
    }

    /// The node is turned on.
    pub(crate) fn start(&mut self) {
        self.from_ns = now_ns();
    }

    /// Records the handling of a frame.
    pub(crate) fn handled(&mut self, received: Stamp, late_ns: u64) {
        if received.ns >= self.from_ns {
            self.recorder.record(self.handling, late_ns);
        }
    }

    /// Records a SoC.
    pub(crate) fn sent_soc(&mut self, late_ns: u64) {
        self.recorder.record(self.soc, late_ns);
    }

    /// Records a SoC that left at `sent`, and was due at an instant of a clock that is `clock_ns` now.
    pub(crate) fn launched_soc(&mut self, sent: Stamp, due_ns: u64, clock_ns: u64) {
        if sent.source == StampSource::Software {
            // Both ago.
            let sent_ns = now_ns().saturating_sub(sent.ns);
            self.sent_soc(clock_ns.saturating_sub(due_ns).saturating_sub(sent_ns));
        }
    }

    /// The recorded series; instants of SoC that were skipped count as lost.
    pub(crate) fn figure(&self, skipped_cycles: u64) -> Distribution {
        let mut figure = self.recorder.figure();
        for series in &mut figure.series {
            series.lost = if series.name == SOC { skipped_cycles } else { 0 };
        }
        figure.series.retain(|series| series.count > 0 || series.lost > 0);
        figure
    }
}

/// The time since a frame was received, in nanoseconds. `None`: its time stamp is not of the kernel, or of a clock of
/// the NIC.
pub(crate) fn since(received: Stamp) -> Option<u64> {
    let is_comparable = received.source == StampSource::Software;
    is_comparable.then(|| now_ns().saturating_sub(received.ns))
}

/// CLOCK_REALTIME, the clock of the kernel's time stamps.
fn now_ns() -> u64 {
    realtime_ns().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_instants_are_lost_soc() {
        let mut lateness = Lateness::new();
        assert_eq!(lateness.figure(0).series.len(), 0);
        // A thread that was stopped in every cycle: no value, but no empty figure either.
        let [only] = &lateness.figure(3).series[..] else { panic!("one series") };
        assert_eq!((&*only.name, only.count, only.lost), (SOC, 0, 3));
        lateness.sent_soc(700);
        lateness.handled(Stamp { ns: u64::MAX, source: StampSource::Software }, 5);
        let figure = lateness.figure(2);
        let counts = figure.series.iter().map(|series| (series.count, series.lost));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, 0), (1, 2)]);
    }
}

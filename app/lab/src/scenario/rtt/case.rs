//! The result of one row under one load, over all rounds.

use onbeat_realtime::clock::SECOND;
use onbeat_report::{CpuTimes, Loss, Recorder};

use super::Load;
use super::row::Row;
use crate::load::UdpReport;
use crate::traffic::{Delivery, SettledStream};

/// The result of one row under one load, over all rounds.
#[derive(Debug)]
pub(super) struct RttCase {
    pub(super) row: Row,
    pub(super) load: Load,
    /// Time from passing a probe to the kernel until its return; one phase, with the row's name.
    pub(super) actual: Recorder,
    /// Time from the due time of a probe until its return: includes delays of the sender.
    pub(super) intended: Recorder,
    /// Time of transmission in seconds since the start of the run, and round-trip time in ns.
    pub(super) over_time: Vec<(f64, f64)>,
    pub(super) losses: Vec<Loss>,
    /// Counters of probes, including those of warm-up, as in all counters here.
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    pub(super) changed: u64,
    /// Maximum delay of a transmission, in ns.
    pub(super) latest_ns: u64,
    /// CPU usage meanwhile.
    pub(super) cpu: CpuTimes,
    pub(super) background: UdpReport,
}

impl RttCase {
    pub(super) fn new(row: Row, load: Load) -> Self {
        Self {
            row,
            load,
            actual: Recorder::new(),
            intended: Recorder::new(),
            over_time: Vec::new(),
            losses: Vec::new(),
            sent: 0,
            lost: 0,
            duplicated: 0,
            reordered: 0,
            changed: 0,
            latest_ns: 0,
            cpu: CpuTimes::default(),
            background: UdpReport::default(),
        }
    }

    /// Adds the result of a turn whose first `warm_up` probes do not count, in a run that started at
    /// `start_ns`.
    pub(super) fn add(&mut self, settled: &SettledStream, warm_up: u64, start_ns: u64) {
        let delivery = &settled.delivery;
        self.sent += delivery.sent();
        self.lost += delivery.lost();
        self.duplicated += delivery.record.duplicated();
        self.reordered += delivery.record.out_of_order();
        self.changed += settled.changed;
        self.latest_ns = self.latest_ns.max(delivery.source.latest_ns);
        let seconds = |at_ns: u64| (at_ns as f64 - start_ns as f64) / SECOND as f64;
        for probe in warm_up..delivery.sent() {
            self.probe(delivery, probe, seconds(delivery.sent_ns(probe)));
        }
        self.losses.extend(delivery.lost.iter().map(|gap| Loss {
            from_s: seconds(delivery.sent_ns(gap.first)),
            to_s: seconds(delivery.sent_ns(gap.first + gap.frames - 1)),
            frames: gap.frames,
        }));
    }

    fn probe(&mut self, delivery: &Delivery, probe: u64, at_s: f64) {
        let name = self.row.name;
        let (actual, intended) = (self.actual.phase(name), self.intended.phase(name));
        let (Some(took_ns), Some(back_ns)) =
            (delivery.delay_ns(probe), delivery.record.arrival_ns(probe))
        else {
            self.actual.lose(actual, 1);
            self.intended.lose(intended, 1);
            return;
        };
        self.actual.record(actual, took_ns);
        let due_ns = delivery.source.intended_ns(probe);
        self.intended.record(intended, back_ns.saturating_sub(due_ns));
        self.over_time.push((at_s, took_ns as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::ROWS;
    use super::*;
    use crate::traffic::{Rate, SourceReport, Stamp, StreamRecord};

    /// 10 probes, one per 100 ns starting at 1000: number 7 is lost, and number 5, sent 30 ns late,
    /// arrives after number 6.
    fn turn() -> SettledStream {
        let sent = SourceReport {
            stream: 1,
            sent: 10,
            retries: 0,
            latest_ns: 30,
            start_ns: 1000,
            end_ns: 2000,
            rate: Rate::PerSecond(10_000_000),
        };
        let mut record = StreamRecord::default();
        for sequence in [0, 1, 2, 3, 4, 6, 5, 8, 9] {
            let intended_ns = sent.intended_ns(sequence);
            let late = if sequence == 5 { 30 } else { 0 };
            let actual_ns = intended_ns + late;
            let stamp = Stamp { stream: 1, sequence, intended_ns, actual_ns };
            assert!(record.take(&stamp, actual_ns + 50 + sequence));
        }
        SettledStream { delivery: Delivery::new(sent, record), changed: 2 }
    }

    #[test]
    fn the_delay_of_a_late_probe_starts_at_its_due_time() {
        let mut case = RttCase::new(ROWS[1], Load::Idle);
        case.add(&turn(), 2, 1000);
        let [actual, intended] =
            [&case.actual, &case.intended].map(|recorder| recorder.figure().series.remove(0));
        assert_eq!((actual.count, actual.lost, actual.min, actual.max), (7, 1, Some(52), Some(59)));
        assert_eq!((intended.count, intended.lost, intended.max), (7, 1, Some(85)));
        assert_eq!(actual.name, ROWS[1].name);
    }

    #[test]
    fn turns_add_up_and_keep_their_times() {
        let mut case = RttCase::new(ROWS[1], Load::Idle);
        case.add(&turn(), 2, 1000);
        case.add(&turn(), 8, 0);
        assert_eq!((case.sent, case.lost, case.changed, case.reordered), (20, 2, 4, 2));
        assert_eq!((case.duplicated, case.latest_ns), (0, 30));
        assert_eq!(case.over_time.len(), 7 + 2);
        assert!((case.over_time[0].0 - 200e-9).abs() < 1e-12);
        assert_eq!(case.losses.iter().map(|loss| loss.frames).sum::<u64>(), 2);
    }
}

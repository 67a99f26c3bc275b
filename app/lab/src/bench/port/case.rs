//! The result of one row at one period under one load, over all rounds.

use onbeat_report::Recorder;

use super::node::PortNodeCounters;
use super::round::{RoundCycles, RoundRecord};
use super::series;
use super::wire::WireCounters;
use crate::bench::cyclic::{self, CycleCase, Load, Values};

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// From the request on the wire to its response.
    Delay,
    /// From `first + n * period` to the request on the wire.
    Lateness,
    /// Deviation of the interval between two requests on the wire from the period.
    Jitter,
}

impl Quantity {
    pub(super) const ALL: [Quantity; 3] = [Quantity::Delay, Quantity::Lateness, Quantity::Jitter];
}

impl cyclic::Quantity for Quantity {
    fn name(self) -> &'static str {
        match self {
            Quantity::Delay => "response delay",
            Quantity::Lateness => "lateness of requests",
            Quantity::Jitter => "cycle-to-cycle jitter of requests",
        }
    }
}

/// The result of one row at one period under one load.
#[derive(Debug, Default)]
pub(super) struct PortCase {
    pub(super) backend: &'static str,
    pub(super) period_ns: u64,
    pub(super) load: Load,
    /// It was measured together with others, interleaved in time.
    pub(super) together: bool,
    /// Values by quantity.
    pub(super) values: [Values; 3],
    /// Wake-up latency of the sleeping thread, if it can measure it.
    pub(super) wakeups: Recorder,
    /// Planned requests, including warm-up.
    pub(super) planned: u64,
    pub(super) counted: u64,
    pub(super) passed: [WireCounters; 2],
    /// Counters of the managing and the controlled node.
    pub(super) counters: [PortNodeCounters; 2],
    /// Requests of rounds in which responses could not be matched.
    pub(super) unmatched: u64,
    /// Requests answered after the next request was due.
    pub(super) late: u64,
    /// CPU time per cycle and round: managing node, controlled node.
    pub(super) cpu_ns: [Vec<f64>; 2],
}

impl PortCase {
    pub(super) fn new(backend: &'static str, period_ns: u64, load: Load, together: bool) -> Self {
        Self { backend, period_ns, load, together, ..Self::default() }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, cycles: RoundCycles, taken: RoundRecord) {
        self.planned += cycles.all();
        self.counted += cycles.counted;
        for (sum, passed) in self.passed.iter_mut().zip(taken.passed) {
            sum.count += passed.count;
            sum.wrong += passed.wrong;
            sum.foreign += passed.foreign;
        }
        for (sum, counters) in self.counters.iter_mut().zip(taken.counters) {
            *sum += counters;
        }
        for (rounds, ns) in self.cpu_ns.iter_mut().zip(taken.cpu_ns) {
            rounds.push(ns as f64 / cycles.counted as f64);
        }
        let (first, period) = (taken.first_ns, self.period_ns);
        let all = series::cycles(&taken.requests, first, period);
        // A node without CPU time at the end of a round sends requests in some more cycles, which do
        // not count.
        let of = |cycles: u64| all.partition_point(|cycle| *cycle < cycles);
        let counted = of(cycles.warm_up)..of(cycles.all());
        let (requests, numbers) = (&taken.requests[counted.clone()], &all[counted.clone()]);
        let [response, lateness, jitter] = &mut self.values;
        match series::delays(&taken.requests, &taken.responses) {
            Some(delays) => {
                let delays = &delays[counted];
                self.late += delays.iter().filter(|delay| **delay > period).count() as u64;
                response.add(self.backend, delays.to_vec());
            }
            None => {
                self.unmatched += requests.len() as u64;
                response.lose(self.backend, requests.len() as u64);
            }
        }
        lateness.add(self.backend, series::lateness(requests, numbers, first, period));
        jitter.add(self.backend, series::deviation(requests, numbers, period));
        let phase = self.wakeups.phase("clock_nanosleep only");
        let wakeups = taken.wakeups.iter().skip(cycles.warm_up as usize);
        let counted = wakeups.take(cycles.counted as usize);
        counted.for_each(|late| self.wakeups.record(phase, *late));
    }
}

impl CycleCase for PortCase {
    type Quantity = Quantity;

    fn backend(&self) -> &'static str {
        self.backend
    }

    fn condition(&self) -> (u64, Load) {
        (self.period_ns, self.load)
    }

    fn values(&self, quantity: Quantity) -> &Values {
        &self.values[quantity as usize]
    }

    fn reference(&self, quantity: Quantity) -> Option<&Recorder> {
        (quantity == Quantity::Lateness).then_some(&self.wakeups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLES: RoundCycles = RoundCycles { period_ns: 1_000, warm_up: 2, counted: 4, round: 0 };

    fn taken(requests: &[u64], responses: &[u64]) -> RoundRecord {
        let passed =
            |stamps: &[u64]| WireCounters { count: stamps.len() as u64, wrong: 0, foreign: 0 };
        RoundRecord {
            first_ns: 10_000,
            requests: requests.to_vec(),
            responses: responses.to_vec(),
            passed: [passed(requests), passed(responses)],
            cpu_ns: [400, 800],
            counters: Default::default(),
            wakeups: Vec::new(),
        }
    }

    #[test]
    fn warm_up_cycles_do_not_count() {
        let mut case = PortCase::new("packet", 1_000, Load::Idle, true);
        // The cycle after the warm-up is missed, the last one is answered late.
        let requests = [10_900, 11_800, 13_007, 14_005, 15_001];
        let responses = [11_000, 11_900, 13_057, 14_065, 16_071];
        case.add(CYCLES, taken(&requests, &responses));
        assert_eq!((case.planned, case.counted, case.late, case.unmatched), (6, 4, 1, 0));
        let [delay, lateness, jitter] = &case.values;
        assert_eq!(delay.rounds[0], [60.0, 1_070.0]);
        assert_eq!(lateness.rounds[0], [5.0, 7.0]);
        assert_eq!(jitter.rounds[0][1], 4.0);
        assert_eq!(case.cpu_ns, [vec![100.0], vec![200.0]]);
    }

    #[test]
    fn cycles_after_the_last_one_do_not_count() {
        let requests: Vec<u64> = (0..9).map(|cycle| 10_000 + 1_000 * cycle + cycle).collect();
        let mut responses: Vec<u64> = requests.iter().map(|asked| asked + 50).collect();
        // Late, but in a cycle that does not count.
        responses[8] += 1_000;
        let round = || RoundRecord { wakeups: (0..9).collect(), ..taken(&requests, &responses) };
        let mut case = PortCase::new("packet", 1_000, Load::Idle, true);
        case.add(CYCLES, round());
        assert_eq!((case.late, case.passed[0].count), (0, 9));
        let counts = [Quantity::Delay, Quantity::Lateness, Quantity::Jitter]
            .map(|quantity| case.values(quantity).pooled.figure().series[0].count);
        assert_eq!(counts, [4, 4, 3]);
        assert_eq!(case.values.map(|values| values.rounds[0][1]), [50.0, 5.0, 1.0]);
        let wakeups = case.wakeups.figure();
        assert_eq!((wakeups.series[0].count, wakeups.series[0].max), (4, Some(5)));

        // Responses cannot be matched to the requests that count.
        responses.pop();
        let mut case = PortCase::new("packet", 1_000, Load::Idle, true);
        case.add(CYCLES, taken(&requests, &responses));
        assert_eq!(case.unmatched, 4);
    }

    #[test]
    fn a_round_with_a_loss_yields_no_delay() {
        let mut case = PortCase::new("packet", 1_000, Load::Idle, true);
        case.add(CYCLES, taken(&[10_000, 11_000, 12_000], &[10_050, 11_050]));
        assert_eq!(case.unmatched, 1);
        assert!(case.values[0].rounds.is_empty() && !case.values[1].rounds.is_empty());
        let figure = case.values[0].pooled.figure();
        assert_eq!((figure.series[0].count, figure.series[0].lost), (0, 1));
    }
}

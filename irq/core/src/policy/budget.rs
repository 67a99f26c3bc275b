//! Budgets for the softirq time of processes.
//!
//! A packet must be dropped before it causes cost, so a budget of time becomes a limit of packets: the budget
//! divided by the observed cost of a packet of this process (early demultiplexing, as in "Lazy Receiver
//! Processing", Druschel and Banga, OSDI 1996).

use crate::charge::Amount;

/// Softirq time that a process may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nanoseconds in each second: 100,000,000 is a tenth of a CPU.
    pub ns_per_s: u64,
}

/// The admitted packet rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    None,
    /// This many packets/s; excess packets are dropped early.
    PacketsPerSecond(u64),
}

/// Weight of a new measurement in the smoothed cost of a packet: 1 in 4.
const SMOOTHING: f64 = 0.25;
/// The cost of a packet while it is unknown, in nanoseconds: several times the cost on a slow machine.
const ASSUMED_NS_PER_PACKET: f64 = 10_000.0;
/// An interval repays this part of what former ones took above the budget, or left below it.
const REPAID: f64 = 0.5;
/// A limit is removed when the offered load would cost less than this part of the budget,
const RELEASE: f64 = 0.9;
/// in this many consecutive intervals.
const RELEASE_INTERVALS: u32 = 3;

/// Compares a process with its budget.
#[derive(Debug, Clone)]
pub struct Meter {
    budget: Budget,
    ns_per_packet: Option<f64>,
    limit: Limit,
    /// Time that the limit admitted below the budget, in nanoseconds; negative: above it.
    credit_ns: f64,
    calm: u32,
}

impl Meter {
    /// Sets no limit before the first interval.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { budget, ns_per_packet: None, limit: Limit::None, credit_ns: 0.0, calm: 0 }
    }

    /// Evaluates an interval of `interval_ns`: the time that the process caused, and the number of its packets
    /// dropped early. Their cost is not charged to the process: they were dropped to save it.
    ///
    /// `complete` is false if the ledger had no room for some of the time, which may be the process's: it is
    /// then limited to the packets that its budget affords.
    pub fn observe(
        &mut self,
        interval_ns: u64,
        caused: Amount,
        dropped: u64,
        complete: bool,
    ) -> Limit {
        if interval_ns == 0 {
            return self.limit;
        }
        if let Some(now) = caused.ns_per_packet() {
            self.ns_per_packet = Some(match self.ns_per_packet {
                Some(before) => before + SMOOTHING * (now - before),
                None => now,
            });
        }
        let known = self.ns_per_packet.filter(|cost| *cost > 0.0);
        let ns_per_packet = match known {
            Some(ns_per_packet) => ns_per_packet,
            // A limit that was set without a known cost is removed as any other.
            None if !complete || self.limit != Limit::None => ASSUMED_NS_PER_PACKET,
            None => return self.limit,
        };
        let seconds = interval_ns as f64 / 1e9;
        let budget = self.budget.ns_per_s as f64;
        let rate = budget + self.repay(interval_ns, caused, dropped, complete);
        // One packet a second, so that a lower cost can be observed.
        let affordable = ((rate / ns_per_packet) as u64).max(1);
        let passed = caused.ns as f64 / seconds;
        let offered = passed + dropped as f64 * ns_per_packet / seconds;

        match self.limit {
            Limit::None if passed > budget || !complete => {
                self.limit = Limit::PacketsPerSecond(affordable);
            }
            Limit::None => {}
            Limit::PacketsPerSecond(_) => {
                let calm = complete && offered < RELEASE * budget;
                self.calm = if calm { self.calm + 1 } else { 0 };
                self.limit = Limit::PacketsPerSecond(affordable);
                if self.calm == RELEASE_INTERVALS {
                    (self.limit, self.calm) = (Limit::None, 0);
                }
            }
        }
        self.limit
    }

    /// Updates the credit, and returns the nanoseconds per second that repay it. A packet's cost varies between intervals:
    /// a limit of packets alone would not keep a budget of time.
    fn repay(&mut self, interval_ns: u64, caused: Amount, dropped: u64, complete: bool) -> f64 {
        if self.limit == Limit::None || !complete {
            self.credit_ns = 0.0;
            return 0.0;
        }
        let budget_ns = self.budget.ns_per_s as f64 * interval_ns as f64 / 1e9;
        // Time that was not in demand is not saved. Neither side exceeds the budget of an interval: no limit is below half of the
        // budget, since a packet at a tiny limit would use the credit of seconds.
        let most = if dropped > 0 { budget_ns } else { 0.0 };
        let credit = self.credit_ns + budget_ns - caused.ns as f64;
        self.credit_ns = credit.clamp(-budget_ns, most);
        self.credit_ns * REPAID * 1e9 / interval_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A process with an offered load of a given cost per packet, with the limit applied.
    fn intervals(meter: &mut Meter, offered: u64, ns_per_packet: u64, count: usize) -> Vec<Limit> {
        let once = |_| {
            let passed = match meter.limit {
                Limit::None => offered,
                Limit::PacketsPerSecond(limit) => offered.min(limit),
            };
            let caused = Amount { ns: passed * ns_per_packet, packets: passed };
            meter.observe(SECOND, caused, offered - passed, true)
        };
        (0..count).map(once).collect()
    }

    #[test]
    fn traffic_above_the_budget_is_limited_until_it_decreases() {
        // A tenth of a CPU, at 1 us for each packet: 100,000 packets.
        let mut meter = Meter::new(Budget { ns_per_s: SECOND / 10 });
        let limited = Limit::PacketsPerSecond(100_000);
        for (offered, count, expected) in [
            (90_000, 3, vec![Limit::None; 3]),
            (500_000, 3, vec![limited; 3]),
            // Too close to the budget for a release.
            (95_000, 4, vec![limited; 4]),
            (80_000, 2, vec![limited; 2]),
            (500_000, 1, vec![limited]),
            (80_000, 3, vec![limited, limited, Limit::None]),
        ] {
            assert_eq!(intervals(&mut meter, offered, 1000, count), expected, "{offered}");
        }
    }

    #[test]
    fn the_limit_follows_the_cost_of_packets() {
        let mut meter = Meter::new(Budget { ns_per_s: SECOND / 10 });
        intervals(&mut meter, 500_000, 1000, 1);
        let limits = intervals(&mut meter, 500_000, 2000, 30);
        // By the cost 80,000; the debt is the budget of an interval, of which the next one repays half.
        assert_eq!(limits.first(), Some(&Limit::PacketsPerSecond(40_000)));
        let Some(Limit::PacketsPerSecond(last)) = limits.last() else { panic!("{limits:?}") };
        assert!(last.abs_diff(50_000) < 100, "{last}");
    }

    /// Intervals of 0.1 s with a flood; each packet costs 1 to 2 us, the same within an interval.
    #[test]
    fn each_second_of_packets_of_any_cost_is_within_a_tenth_of_the_budget() {
        const INTERVAL: u64 = SECOND / 10;
        const OFFERED: u64 = 50_000;
        let budget = SECOND / 10;
        let mut meter = Meter::new(Budget { ns_per_s: budget });
        let mut random = 1_u64;
        let mut second = || {
            let interval = |_| {
                random = (random * 1_103_515_245 + 12_345) % (1 << 31);
                let passed = match meter.limit {
                    Limit::None => OFFERED,
                    Limit::PacketsPerSecond(limit) => OFFERED.min(limit / 10),
                };
                let ns = passed * (1000 + (random >> 16) % 1000);
                let caused = Amount { ns, packets: passed };
                meter.observe(INTERVAL, caused, OFFERED - passed, true);
                ns
            };
            (0..10).map(interval).sum::<u64>()
        };
        second();
        let seconds: Vec<u64> = (0..40).map(|_| second()).collect();
        let is_held = |ns: &u64| ns.abs_diff(budget) <= budget / 10;
        assert!(seconds.iter().all(is_held), "{seconds:?}");
    }

    #[test]
    fn unrecorded_time_makes_each_budget_a_limit() {
        let budget = Budget { ns_per_s: SECOND / 10 };
        // At the known cost, and at an assumed one.
        for (before, affordable) in
            [(Amount { ns: 90_000_000, packets: 90_000 }, 100_000), (Amount::default(), 10_000)]
        {
            let mut meter = Meter::new(budget);
            assert_eq!(meter.observe(SECOND, before, 0, true), Limit::None);
            let limited = Limit::PacketsPerSecond(affordable);
            let quiet = Amount::default();
            for (complete, expected) in [
                (false, limited),
                (true, limited),
                (true, limited),
                // Again, before it was released.
                (false, limited),
                (true, limited),
                (true, limited),
                (true, Limit::None),
            ] {
                assert_eq!(meter.observe(SECOND, quiet, 0, complete), expected);
            }
        }
    }

    #[test]
    fn a_budget_of_less_than_a_packet_admits_one_a_second() {
        let mut meter = Meter::new(Budget { ns_per_s: 10 });
        let limit = intervals(&mut meter, 500, 1000, 1);
        assert_eq!(limit, [Limit::PacketsPerSecond(1)]);
    }

    #[test]
    fn an_interval_without_packets_keeps_the_cost() {
        let mut meter = Meter::new(Budget { ns_per_s: 1 });
        assert_eq!(meter.observe(SECOND, Amount::default(), 0, true), Limit::None);
        assert_eq!(meter.observe(0, Amount { ns: 100, packets: 1 }, 0, true), Limit::None);
        // All of it was dropped early: the limit stays, and repays the unused time.
        let mut meter = Meter::new(Budget { ns_per_s: SECOND / 10 });
        intervals(&mut meter, 500_000, 1000, 1);
        let limit = meter.observe(SECOND, Amount::default(), 400_000, true);
        assert_eq!(limit, Limit::PacketsPerSecond(150_000));
    }
}

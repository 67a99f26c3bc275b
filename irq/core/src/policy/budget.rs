//! Budgets for the softirq time of processes.
//!
//! A packet must be dropped before it causes cost (early demultiplexing, as in "Lazy Receiver Processing", Druschel
//! and Banga, OSDI 1996). Programs in the kernel start a limit when a process exceeds its budget, and admit packets by the
//! time that the ledger charges for them (irq/guard/bpf/limit.bpf.c). [`Meter`] stops limits.

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
    /// About this many packets/s, at their recent cost; packets above the budget are dropped early.
    PacketsPerSecond(u64),
}

/// A limit stops when the offered load would cost less than this part of the budget,
const STOP: f64 = 0.9;
/// in this many consecutive intervals.
const CALM_INTERVALS: u32 = 3;

impl Budget {
    /// The limit that this budget pays for; at least one packet a second, so that a lower cost can be observed.
    #[must_use]
    pub fn limit(self, ns_per_packet: u64) -> Limit {
        Limit::PacketsPerSecond((self.ns_per_s / ns_per_packet.max(1)).max(1))
    }
}

/// An interval of a limited process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offer {
    /// Length of the interval.
    pub interval_ns: u64,
    /// The time that the process caused.
    pub caused_ns: u64,
    /// Its packets dropped early. Their cost is not charged to the process: they were dropped to save it.
    pub dropped: u64,
    /// What each of them would have cost.
    pub ns_per_packet: u64,
    /// Whether it still repays what it used above its budget.
    pub in_debt: bool,
}

/// Compares a limited process with its budget.
#[derive(Debug, Clone)]
pub struct Meter {
    budget: Budget,
    calm: u32,
}

impl Meter {
    /// Of a process without a limit so far.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { budget, calm: 0 }
    }

    /// Returns whether the limit stops after an interval; `None`: there was no limit.
    pub fn stops(&mut self, offer: Option<Offer>) -> bool {
        let Some(Offer { interval_ns, caused_ns, dropped, ns_per_packet, in_debt }) = offer else {
            self.calm = 0;
            return false;
        };
        let offered_ns = caused_ns as f64 + dropped as f64 * ns_per_packet as f64;
        let most_ns = STOP * self.budget.ns_per_s as f64 * interval_ns as f64 / 1e9;
        let calm = offered_ns < most_ns && !in_debt;
        self.calm = if calm { self.calm + 1 } else { 0 };
        let stops = self.calm == CALM_INTERVALS;
        if stops {
            self.calm = 0;
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_limit_stops_after_three_calm_intervals() {
        // A tenth of a CPU, at 1 us for each packet: 100,000 packets.
        let mut meter = Meter::new(Budget { ns_per_s: SECOND / 10 });
        let mut interval = |offered: u64, passed: u64| {
            let dropped = offered - passed;
            let caused_ns = passed * 1000;
            let offer = Offer {
                interval_ns: SECOND,
                caused_ns,
                dropped,
                ns_per_packet: 1000,
                in_debt: false,
            };
            meter.stops(Some(offer))
        };
        for (offered, passed, count, ends) in [
            (500_000, 100_000, 3, false),
            // Too close to the budget.
            (95_000, 95_000, 4, false),
            (80_000, 80_000, 2, false),
            (500_000, 100_000, 1, false),
            // Dropped packets are in demand, too.
            (80_000, 0, 2, false),
            (80_000, 40_000, 1, true),
            // From the start.
            (80_000, 80_000, 2, false),
            (80_000, 80_000, 1, true),
        ] {
            for at in 0..count {
                assert_eq!(interval(offered, passed), ends, "{offered}, {passed}: {at}");
            }
        }
    }

    #[test]
    fn calm_before_a_limit_and_before_a_debt_does_not_count() {
        let mut meter = Meter::new(Budget { ns_per_s: SECOND });
        let calm = Some(Offer { interval_ns: SECOND, ..Offer::default() });
        let in_debt = calm.map(|offer| Offer { in_debt: true, ..offer });
        let stops = [calm, calm, None, calm, calm, in_debt, calm, calm, calm];
        let stops = stops.map(|offer| meter.stops(offer));
        assert_eq!(stops, [false, false, false, false, false, false, false, false, true]);
    }

    #[test]
    fn a_budget_of_less_than_a_packet_admits_one_a_second() {
        let budget = Budget { ns_per_s: 10 };
        assert_eq!(budget.limit(1000), Limit::PacketsPerSecond(1));
        assert_eq!(budget.limit(0), Limit::PacketsPerSecond(10));
        assert_eq!(Budget { ns_per_s: SECOND / 10 }.limit(1000), Limit::PacketsPerSecond(100_000));
    }
}

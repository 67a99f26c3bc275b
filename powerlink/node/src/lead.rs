//! The time by which a thread wakes before an instant that it must not miss.

/// Largest lead. Longer wake-ups are rare, and their cause (CPU steal, interrupts disabled) also delays a thread that
/// waits actively.
const MAX_NS: u64 = 400_000;
/// A wake-up within the lead shortens it by one step, a longer one extends it by `LATE_STEPS` steps: the lead
/// approaches the length which one of `LATE_STEPS + 1` wake-ups exceeds.
const STEP_NS: u64 = 20;
const LATE_STEPS: u64 = 199;

/// The lead of a periodic instant: an estimate of the 99.5 % quantile of the thread's wake-up latency, with bounds.
///
/// A sleeping thread runs some microseconds after the end of its sleep, and this latency varies. If it wakes earlier
/// by the lead and waits actively for the rest, only latencies beyond the lead are seen on the bus.
#[derive(Debug)]
pub(crate) struct WakeLead {
    lead_ns: u64,
}

impl WakeLead {
    /// Starts with the upper bound.
    pub(crate) fn new() -> Self {
        Self { lead_ns: MAX_NS }
    }

    /// The end of a sleep before an instant, at most `most_ns` before it: a bound of the CPU time of the active wait.
    pub(crate) fn before(&self, instant_ns: u64, most_ns: u64) -> u64 {
        instant_ns.saturating_sub(self.lead_ns.min(most_ns))
    }

    /// Adapts the lead to a wake-up, `latency_ns` after the end of its sleep.
    pub(crate) fn woke(&mut self, latency_ns: u64) {
        self.lead_ns = if latency_ns > self.lead_ns {
            (self.lead_ns + LATE_STEPS * STEP_NS).min(MAX_NS)
        } else {
            self.lead_ns.saturating_sub(STEP_NS)
        };
    }
}

#[cfg(test)]
mod tests {
    use onbeat_wire::random::Random;

    use super::*;

    const CYCLE_NS: u64 = 10_000_000;

    #[test]
    fn the_lead_covers_all_but_a_few_wake_ups() {
        let mut random = Random::new(1);
        // Uniform from 5 to 45 us: the quantile is 44.8 us.
        let mut latency = || 5_000 + random.below(40_000);
        let mut lead = WakeLead::new();
        (0..40_000).for_each(|_| lead.woke(latency()));
        let mut late = 0;
        for _ in 0..20_000 {
            let latency_ns = latency();
            late += u32::from(lead.before(CYCLE_NS, CYCLE_NS) + latency_ns > CYCLE_NS);
            lead.woke(latency_ns);
        }
        assert!((50..=200).contains(&late), "{late} of 20,000 late; expected about 100");
    }

    #[test]
    fn the_lead_has_bounds() {
        let mut lead = WakeLead::new();
        (0..1000).for_each(|_| lead.woke(3_000_000));
        assert_eq!(lead.before(CYCLE_NS, CYCLE_NS), CYCLE_NS - MAX_NS);
        assert_eq!(lead.before(400_000, 20_000), 380_000);
        assert_eq!(lead.before(1_000, CYCLE_NS), 0);
    }

    #[test]
    fn fast_wake_ups_shorten_the_lead() {
        let mut lead = WakeLead::new();
        (0..20_000).for_each(|_| lead.woke(2_000));
        assert!(lead.before(CYCLE_NS, CYCLE_NS) > CYCLE_NS - 2_000 - (LATE_STEPS + 1) * STEP_NS);
    }
}

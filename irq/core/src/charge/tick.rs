//! The accounting algorithm of the paper "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS
//! 2006), which a kernel can run at each clock tick: it counts interrupts, and corrects system times by whole
//! ticks.
//!
//! Used for comparison with the exact compensation
//! ([`Accounts::compensation_ns`](super::Accounts::compensation_ns)).

use std::collections::BTreeMap;

/// The weight of the newest measurement in N'(t). The paper gives no value.
pub const GAMMA: f64 = 0.25;

/// Smoothed number of interrupts whose bottom halves take one tick: N'(t).
#[derive(Debug, Clone, PartialEq)]
pub struct InterruptsPerTick {
    gamma: f64,
    tick_ns: u64,
    smoothed: Option<f64>,
}

impl InterruptsPerTick {
    /// `gamma` is the weight of the newest measurement; `tick_ns` the length of a tick in nanoseconds.
    ///
    /// `None` unless 0 < `gamma` < 1 and `tick_ns` > 0.
    #[must_use]
    pub fn new(gamma: f64, tick_ns: u64) -> Option<Self> {
        let valid = gamma > 0.0 && gamma < 1.0 && tick_ns > 0;
        valid.then_some(Self { gamma, tick_ns, smoothed: None })
    }

    /// Adds the measurement of a tick: `interrupts` whose bottom halves took `bottom_half_ns`. A tick without
    /// interrupts is ignored.
    pub fn measure(&mut self, interrupts: u64, bottom_half_ns: u64) {
        if interrupts == 0 || bottom_half_ns == 0 {
            return;
        }
        let now = self.tick_ns as f64 * interrupts as f64 / bottom_half_ns as f64;
        self.smoothed = Some(match self.smoothed {
            Some(before) => (1.0 - self.gamma) * before + self.gamma * now,
            None => now,
        });
    }

    /// N'(t), at least 1; `None` before the first measurement.
    #[must_use]
    pub fn interrupts(&self) -> Option<u32> {
        self.smoothed.map(|smoothed| smoothed.round().clamp(1.0, u32::MAX.into()) as u32)
    }
}

/// System CPU time compensation: x_k(t) of each process, and its correction in ticks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compensation<P: Ord> {
    handled: i64,
    processes: BTreeMap<P, Balance>,
}

/// The error of a process's system time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Balance {
    /// x_k(t): interrupts not accounted for; above 0 the process is charged too little.
    pub interrupts: i64,
    /// Ticks added to its system time and subtracted from its time slice.
    pub ticks: i64,
}

impl<P: Ord> Compensation<P> {
    /// Without processes.
    #[must_use]
    pub fn new() -> Self {
        Self { handled: 0, processes: BTreeMap::new() }
    }

    /// Adds handled interrupts: m(t). Their processes are known later, or never.
    pub fn handle(&mut self, interrupts: u64) {
        self.handled += interrupts as i64;
    }

    /// Adds packets delivered to a process: its own interrupts.
    pub fn deliver(&mut self, to: P, packets: u64) {
        self.processes.entry(to).or_default().interrupts += packets as i64;
    }

    /// Applies a clock tick, while `running` runs; `per_tick` is N(t), where 0 counts as 1.
    pub fn tick(&mut self, running: P, per_tick: u32) {
        let per_tick = i64::from(per_tick.max(1));
        let balance = self.processes.entry(running).or_default();
        balance.interrupts -= self.handled;
        // The paper's loop, and its sign: toward zero by N(t) for each whole tick.
        let ticks = balance.interrupts / per_tick;
        balance.ticks += ticks;
        balance.interrupts -= ticks * per_tick;
        self.handled = 0;
    }

    /// The balance of a process.
    #[must_use]
    pub fn balance(&self, of: &P) -> Balance {
        self.processes.get(of).copied().unwrap_or_default()
    }

    /// Removes a process that has exited, and returns its balance.
    pub fn remove(&mut self, process: &P) -> Balance {
        self.processes.remove(process).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's example, with a tick that takes more interrupts than occur in it: the running process,
    /// interrupts handled, packets delivered to it before, and its x at the tick.
    ///
    /// The slides name the process of tick 5 P1 and that of tick 7 P3. Their sums start from the values of P4
    /// (-2) and P1 (-1), so it is these.
    #[test]
    fn the_worked_example() {
        let mut compensation = Compensation::new();
        for (tick, running, delivered, handled, x) in [
            (1, 1, 2, 3, -1),
            (2, 2, 1, 1, 0),
            (3, 3, 2, 2, 0),
            (4, 4, 1, 3, -2),
            (5, 4, 0, 4, -6),
            (6, 2, 2, 2, 0),
            (7, 1, 4, 2, 1),
            (8, 3, 4, 3, 1),
        ] {
            compensation.deliver(running, delivered);
            compensation.handle(handled);
            compensation.tick(running, 100);
            assert_eq!(
                compensation.balance(&running),
                Balance { interrupts: x, ticks: 0 },
                "{tick}"
            );
        }
    }

    #[test]
    fn whole_ticks_are_moved_towards_zero() {
        for (delivered, handled, per_tick, interrupts, ticks) in [
            (0, 9, 10, -9, 0),
            (0, 10, 10, 0, -1),
            (0, 25, 10, -5, -2),
            (25, 0, 10, 5, 2),
            (30, 5, 10, 5, 2),
            (5, 5, 10, 0, 0),
            (0, 3, 0, 0, -3),
        ] {
            let mut compensation = Compensation::new();
            compensation.deliver("p", delivered);
            compensation.handle(handled);
            compensation.tick("p", per_tick);
            assert_eq!(
                compensation.balance(&"p"),
                Balance { interrupts, ticks },
                "{delivered} - {handled} at {per_tick} a tick"
            );
        }
    }

    #[test]
    fn the_average_follows() {
        let mut n = InterruptsPerTick::new(0.25, 4_000_000).unwrap();
        assert_eq!(n.interrupts(), None);
        n.measure(100, 400_000); // 4 us each: 1000 in a tick
        assert_eq!(n.interrupts(), Some(1000));
        n.measure(100, 800_000); // 8 us each: 500
        assert_eq!(n.interrupts(), Some(875));
        n.measure(0, 0);
        assert_eq!(n.interrupts(), Some(875));
        n.measure(1, 1_000_000_000);
        (0..40).for_each(|_| n.measure(1, 1_000_000_000));
        assert_eq!(n.interrupts(), Some(1), "never 0");
    }

    #[test]
    fn invalid_weights_are_refused() {
        for (gamma, tick_ns) in [(0.0, 1), (1.0, 1), (-0.5, 1), (f64::NAN, 1), (0.5, 0)] {
            assert_eq!(InterruptsPerTick::new(gamma, tick_ns), None, "{gamma}, {tick_ns}");
        }
    }

    #[test]
    fn a_process_that_exits_is_removed() {
        let mut compensation = Compensation::new();
        compensation.deliver(7, 1);
        assert_eq!(compensation.remove(&7), Balance { interrupts: 1, ticks: 0 });
        assert_eq!(compensation.remove(&7), Balance::default());
    }
}

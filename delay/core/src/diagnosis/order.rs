//! Backward steps of a capture's time stamps: a clock that was set back, or packets out of order.

/// A time stamp this far behind the latest one is normal: receive queues are drained in turn.
const ORDINARY_NS: i64 = 1_000_000;

/// Minimum number of packets behind the latest time stamp after a clock step. Fewer are disorder, which a window as
/// long as the disorder matches as well.
const STEP_PACKETS: u64 = 64;
/// Maximum number of steps kept for a capture.
const MOST_STEPS: usize = 64;
/// A clock is rarely set back. A capture with more steps than this, each shorter than [`BLOCK_NS`], was merged from
/// blocks of several queues.
const RARE: usize = 2;
/// The maximum time span of a block of a capture ring, in nanoseconds.
const BLOCK_NS: i64 = 1_000_000_000;

/// A backward step of a capture's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// Number of the first packet after the step, starting at 1.
    pub packet: u64,
    /// The latest time stamp before the step, in nanoseconds.
    pub from_ns: i64,
    /// The first time stamp after the step, in nanoseconds.
    pub to_ns: i64,
}

impl ClockStep {
    /// The size of the step, in nanoseconds: less the time between the two packets.
    pub fn size_ns(&self) -> i64 {
        self.from_ns.saturating_sub(self.to_ns)
    }

    /// Returns true if both may be the same step in two captures.
    fn is_same(&self, other: &Self) -> bool {
        let (one, other) = (self.size_ns(), other.size_ns());
        one.abs_diff(other) <= one.max(other).unsigned_abs() / 4
    }
}

/// A run of packets whose time stamps are behind the latest one.
#[derive(Debug, Clone, Copy)]
struct Run {
    step: ClockStep,
    latest_ns: i64,
    earliest_ns: i64,
    packets: u64,
}

/// Tracks the order of a capture's time stamps.
#[derive(Debug, Clone, Default)]
pub struct TimeOrder {
    latest_ns: Option<i64>,
    run: Option<Run>,
    steps: Vec<ClockStep>,
    disorder_ns: i64,
}

impl TimeOrder {
    /// Processes the next packet of the capture. Returns true if time went back by more than is normal.
    #[inline]
    pub fn observe(&mut self, packet: u64, time_ns: i64) -> bool {
        let latest_ns = *self.latest_ns.get_or_insert(time_ns);
        if self.run.is_none() {
            if latest_ns.saturating_sub(time_ns) <= ORDINARY_NS {
                self.latest_ns = Some(latest_ns.max(time_ns));
                return false;
            }
            self.start(packet, latest_ns, time_ns);
            return true;
        }
        self.follow(packet, time_ns)
    }

    fn start(&mut self, packet: u64, from_ns: i64, to_ns: i64) {
        let step = ClockStep { packet, from_ns, to_ns };
        self.run = Some(Run { step, latest_ns: to_ns, earliest_ns: to_ns, packets: 1 });
    }

    /// Processes a packet while time stamps are behind.
    fn follow(&mut self, packet: u64, time_ns: i64) -> bool {
        let Some(run) = &mut self.run else { return false };
        let ahead_ns = time_ns.saturating_sub(run.latest_ns);
        if time_ns >= run.step.from_ns.saturating_sub(ORDINARY_NS) {
            // A clock that was set back repeats the time before the step. After disorder, time stamps return to
            // their former level.
            let jumped = ahead_ns > ORDINARY_NS && ahead_ns > run.step.size_ns() / 2;
            self.end(!jumped);
            self.latest_ns = self.latest_ns.map(|latest_ns| latest_ns.max(time_ns));
            return false;
        }
        if ahead_ns < -ORDINARY_NS {
            if run.packets >= STEP_PACKETS {
                let from_ns = run.latest_ns;
                self.end(true);
                self.start(packet, from_ns, time_ns);
            } else {
                run.earliest_ns = run.earliest_ns.min(time_ns);
                run.packets += 1;
            }
            return true;
        }
        run.latest_ns = run.latest_ns.max(time_ns);
        run.packets += 1;
        false
    }

    fn end(&mut self, smoothly: bool) {
        let Some(run) = self.run.take() else { return };
        if smoothly && run.packets >= STEP_PACKETS && self.steps.len() < MOST_STEPS {
            self.steps.push(run.step);
            self.latest_ns = Some(run.latest_ns);
        } else {
            self.disorder(run.step.from_ns.saturating_sub(run.earliest_ns));
            self.latest_ns = Some(run.step.from_ns.max(run.latest_ns));
        }
    }

    fn disorder(&mut self, extent_ns: i64) {
        self.disorder_ns = self.disorder_ns.max(extent_ns);
    }

    /// The summary of the whole capture.
    pub fn summary(&self) -> OrderSummary {
        let mut all = self.clone();
        all.end(true);
        if all.steps.len() > RARE && all.steps.iter().all(|step| step.size_ns() <= BLOCK_NS) {
            all.steps_are_disorder();
        }
        all.into_summary()
    }

    fn steps_are_disorder(&mut self) {
        for step in std::mem::take(&mut self.steps) {
            self.disorder(step.size_ns());
        }
    }

    fn into_summary(self) -> OrderSummary {
        OrderSummary { steps: self.steps, disorder_ns: self.disorder_ns }
    }
}

/// A summary of the order of a capture's time stamps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderSummary {
    /// The backward steps of its clock.
    pub steps: Vec<ClockStep>,
    /// The maximum lag of a packet behind the latest time stamp, in nanoseconds, without steps; 0 if the order is
    /// normal.
    pub disorder_ns: i64,
}

impl OrderSummary {
    /// Returns true if two captures of one clock have the same steps.
    pub fn has_steps_of(&self, other: &Self) -> bool {
        let mut pairs = self.steps.iter().zip(&other.steps);
        self.steps.len() == other.steps.len() && pairs.all(|(one, other)| one.is_same(other))
    }

    /// The size of the largest backward step, in nanoseconds.
    pub fn furthest_step_ns(&self) -> i64 {
        self.steps.iter().map(ClockStep::size_ns).max().unwrap_or(0)
    }

    /// The largest backward movement of time, in nanoseconds, by a step or by disorder.
    pub fn furthest_back_ns(&self) -> i64 {
        self.furthest_step_ns().max(self.disorder_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn of(times_ns: impl IntoIterator<Item = i64>) -> OrderSummary {
        let mut order = TimeOrder::default();
        for (number, time_ns) in (1..).zip(times_ns) {
            order.observe(number, time_ns);
        }
        order.summary()
    }

    #[test]
    fn a_step_is_distinguished_from_disorder() {
        let steady = |from: i64, to: i64| (from..to).map(|n| n * MS);
        assert_eq!(of(steady(0, 1000)), OrderSummary::default());
        // Set back by 700 ms after a second.
        let step = ClockStep { packet: 1001, from_ns: 999 * MS, to_ns: 300 * MS };
        for end in [400, 1500] {
            let found = of(steady(0, 1000).chain(steady(300, end)));
            assert_eq!((found.steps, found.disorder_ns), (vec![step], 0), "{end}");
        }
        // Set back twice, the second time before it caught up.
        let found = of(steady(0, 1000).chain(steady(300, 500)).chain(steady(200, 2000)));
        let second = ClockStep { packet: 1201, from_ns: 499 * MS, to_ns: 200 * MS };
        assert_eq!(found.steps, [step, second]);
        // Every tenth packet 50 ms late.
        let late = (0..1000).map(|n| if n % 10 == 9 { n - 50 } else { n } * MS);
        let found = of(late);
        assert_eq!((found.steps.len(), found.disorder_ns), (0, 49 * MS));
        // Blocks of two queues, each of 200 packets.
        let blocks = (0..10).flat_map(|block| {
            let queue = move |_| steady(200 * block, 200 * block + 200);
            (0..2).flat_map(queue)
        });
        let found = of(blocks);
        assert_eq!((found.steps.len(), found.disorder_ns), (0, 199 * MS));
    }

    #[test]
    fn two_captures_of_one_clock_have_the_same_steps() {
        let with = |from_ns, to_ns| OrderSummary {
            steps: vec![ClockStep { packet: 1, from_ns, to_ns }],
            ..OrderSummary::default()
        };
        assert!(with(1000, 300).has_steps_of(&with(990, 310)));
        assert!(!with(1000, 300).has_steps_of(&with(1000, 700)));
        assert!(!with(1000, 300).has_steps_of(&OrderSummary::default()));
    }
}

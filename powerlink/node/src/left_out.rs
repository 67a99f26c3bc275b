//! Cycles without a SoC, by RelativeTime and by the time of observation.

/// Counts cycles that were left out, or whose SoC was not observed.
///
/// RelativeTime alone does not show them: one wrong value, of a managing node whose time was set or of a forged SoC,
/// would count as any number of cycles, or make each later cycle count as many. Cycles were left out if both times
/// have advanced by more than one.
#[derive(Debug, Default)]
pub(crate) struct LeftOutCycles {
    /// The shortest increment that the time of observation confirms: the nominal cycle time.
    cycle_ns: Option<u64>,
    count: u64,
}

impl LeftOutCycles {
    /// Adds the interval between two SoC, and the increment of RelativeTime, which is not 0.
    pub(crate) fn add(&mut self, interval_ns: u64, step_ns: u64) {
        // A managing node that sends late does not change RelativeTime.
        if interval_ns / 2 <= step_ns && step_ns / 2 <= interval_ns {
            let shortest_ns = self.cycle_ns.map_or(step_ns, |known| known.min(step_ns));
            self.cycle_ns = Some(shortest_ns);
        }
        let Some(cycle_ns) = self.cycle_ns else { return };
        let by_interval = interval_ns.saturating_add(cycle_ns / 2) / cycle_ns;
        self.count += (step_ns / cycle_ns).min(by_interval).saturating_sub(1);
    }

    /// The number of cycles.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn count(steps: &[(u64, u64)]) -> u64 {
        let mut cycles = LeftOutCycles::default();
        steps.iter().for_each(|(interval_ns, step_ns)| cycles.add(*interval_ns, *step_ns));
        cycles.count()
    }

    #[test]
    fn cycles_are_left_out_if_both_times_advance() {
        assert_eq!(count(&[(MS, MS); 10]), 0);
        assert_eq!(count(&[(MS, MS), (2 * MS, 2 * MS), (MS, MS), (5 * MS, 5 * MS)]), 1 + 4);
        // A late SoC, and the next one in time.
        assert_eq!(count(&[(MS, MS), (MS + 800_000, MS), (200_000, MS), (MS, MS)]), 0);
        // The same before and after a cycle that was left out.
        assert_eq!(count(&[(MS, MS), (2 * MS + 400_000, 2 * MS), (600_000, MS), (MS, MS)]), 1);
        // SoC start again after a pause in which RelativeTime stood.
        assert_eq!(count(&[(MS, MS), (900 * MS, MS), (MS, MS)]), 0);
    }

    /// One SoC with a wrong RelativeTime, between two others.
    #[test]
    fn a_wrong_relative_time_has_no_effect() {
        let cycles = [(MS, MS); 100];
        for wrong in [(300_000, 1000), (300_000, u64::MAX), (10, 1000 * MS), (700 * MS, 1)] {
            assert_eq!(count(&[&[wrong], &cycles[..]].concat()), 0, "{wrong:?} first");
            assert_eq!(count(&[&cycles[..], &[wrong], &cycles].concat()), 0, "{wrong:?}");
        }
        assert_eq!(count(&[(0, 1); 100]), 0);
    }
}

//! Order and interleaving of rows. Pure.

/// Minimum distance between the cycles of back ends measured together: the effects of one are over
/// before the next one starts.
pub(super) const LEAST_DISTANCE_NS: u64 = 200_000;

/// Rows measured one after another, or interleaved in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Rows that are measured at the same time, in order.
    pub(super) groups: Vec<Vec<usize>>,
}

impl Plan {
    /// `spins`: for each row, whether it needs a CPU of its own.
    pub(super) fn new(period_ns: u64, spins: &[bool]) -> Self {
        let alone = |row: usize| vec![row];
        let (spinning, sleeping): (Vec<usize>, Vec<usize>) =
            (0..spins.len()).partition(|row| spins[*row]);
        let mut groups = Vec::new();
        if !sleeping.is_empty() && period_ns / sleeping.len() as u64 >= LEAST_DISTANCE_NS {
            groups.push(sleeping);
        } else {
            groups.extend(sleeping.into_iter().map(alone));
        }
        groups.extend(spinning.into_iter().map(alone));
        Self { groups }
    }

    /// Start of member `position` of a group within the period, in a round: the first member changes
    /// each round, so that none always follows the same one.
    pub(super) fn offset_ns(period_ns: u64, group: usize, position: usize, round: u32) -> u64 {
        let turn = (position + round as usize) % group;
        period_ns * turn as u64 / group as u64
    }
}

/// Cycles before the measured ones: caches are warm and memory is mapped.
pub(super) fn warm_up(period_ns: u64) -> u64 {
    (50_000_000 / period_ns).clamp(10, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_run_together_if_the_period_allows_and_spinning_rows_separately() {
        let groups = |period_ns, spins: &[bool]| Plan::new(period_ns, spins).groups;
        assert_eq!(groups(1_000_000, &[false; 5]), [vec![0, 1, 2, 3, 4]]);
        assert_eq!(groups(1_000_000, &[false, true, false]), [vec![0, 2], vec![1]]);
        assert_eq!(groups(250_000, &[false; 2]), [[0], [1]]);
        assert_eq!(groups(999_999, &[false; 5]).len(), 5);
        assert_eq!(groups(250_000, &[false, true]), [[0], [1]]);
        assert_eq!(groups(250_000, &[true]), [[0]]);
    }

    #[test]
    fn offsets_are_distinct_and_rotate() {
        let offsets = |round| -> Vec<u64> {
            (0..4).map(|position| Plan::offset_ns(1_000, 4, position, round)).collect()
        };
        assert_eq!(offsets(0), [0, 250, 500, 750]);
        assert_eq!(offsets(5), [250, 500, 750, 0]);
    }

    #[test]
    fn warm_up_depends_on_the_period() {
        assert_eq!((warm_up(5_000_000), warm_up(1_000_000), warm_up(250_000)), (10, 50, 200));
    }
}

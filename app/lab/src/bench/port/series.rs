//! Computes delays and jitter from stamps. Pure.

/// Response delays: the n-th response belongs to the n-th request. `None` if they cannot be matched:
/// the numbers differ, or a response came before its request.
pub(super) fn delays(requests: &[u64], responses: &[u64]) -> Option<Vec<u64>> {
    if requests.len() != responses.len() {
        return None;
    }
    requests.iter().zip(responses).map(|(asked, answered)| answered.checked_sub(*asked)).collect()
}

/// Assigns a cycle to each request, if instants may have passed without one: the latest cycle that had
/// started, with at most one request each.
pub(super) fn cycles(requests: &[u64], first: u64, period: u64) -> Vec<u64> {
    let mut cycles: Vec<u64> =
        requests.iter().map(|seen| seen.saturating_sub(first) / period).collect();
    for later in (1..cycles.len()).rev() {
        // A request so late that the next one was sent in the same cycle.
        cycles[later - 1] = cycles[later - 1].min(cycles[later].saturating_sub(1));
    }
    cycles
}

/// Delay of each request after `first + n * period`.
pub(super) fn lateness(requests: &[u64], cycles: &[u64], first: u64, period: u64) -> Vec<u64> {
    let late = |(seen, cycle): (&u64, &u64)| seen.saturating_sub(first + cycle * period);
    requests.iter().zip(cycles).map(late).collect()
}

/// Absolute deviation of the interval between two requests from the period. Intervals over a cycle
/// without a request are left out.
pub(super) fn deviation(requests: &[u64], cycles: &[u64], period: u64) -> Vec<u64> {
    let pairs = requests.windows(2).zip(cycles.windows(2));
    let next = pairs.filter(|(_, cycle)| cycle[1] == cycle[0] + 1);
    next.map(|(seen, _)| (seen[1] - seen[0]).abs_diff(period)).collect()
}

/// The smallest value that at most a share `exceedance` of the values exceeds; `None` without values.
pub(in crate::bench) fn exceeded_by(sorted: &[u64], exceedance: f64) -> Option<u64> {
    // The number of values that may exceed it, rounded so that a decimal share is exact.
    let above = (exceedance * sorted.len() as f64 + 1e-9) as usize;
    sorted.get(sorted.len().checked_sub(1 + above)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_late_response_is_matched_to_its_own_request() {
        assert_eq!(delays(&[0, 100, 200], &[30, 250, 260]), Some(vec![30, 150, 60]));
        assert_eq!(delays(&[0, 100], &[30]), None, "one response is lost");
        assert_eq!(delays(&[0, 100], &[30, 60]), None, "a request was answered twice");
        assert_eq!(delays(&[], &[]), Some(vec![]));
    }

    #[test]
    fn missed_cycles_are_left_out() {
        let seen = [1_005, 1_110, 1_409, 1_500];
        let cycles = cycles(&seen, 1_000, 100);
        assert_eq!(cycles, [0, 1, 4, 5]);
        assert_eq!(lateness(&seen, &cycles, 1_000, 100), [5, 10, 9, 0]);
        assert_eq!(deviation(&seen, &cycles, 100), [5, 9]);
    }

    #[test]
    fn a_request_later_than_a_period_stays_in_its_cycle() {
        let seen = [1_005, 1_203, 1_206];
        let cycles = cycles(&seen, 1_000, 100);
        assert_eq!(cycles, [0, 1, 2]);
        assert_eq!(lateness(&seen, &cycles, 1_000, 100), [5, 103, 6]);
    }

    #[test]
    fn percentiles_follow_the_share_above() {
        let values: Vec<u64> = (1..=1000).collect();
        assert_eq!(exceeded_by(&values, 0.5), Some(500));
        assert_eq!(exceeded_by(&values, 0.001), Some(999));
        assert_eq!(exceeded_by(&values, 0.0001), Some(1000));
        assert_eq!(exceeded_by(&values, 0.0), Some(1000));
        assert_eq!(exceeded_by(&[7], 0.5), Some(7));
        assert_eq!(exceeded_by(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn each_request_has_its_own_started_cycle(
            first in 0..1_000_u64,
            period in 1..100_u64,
            steps in proptest::collection::vec((1..4_u64, 0..250_u64), 1..50),
        ) {
            // Realistic senders: one instant of the grid each, sent at it or later, in order.
            let (mut cycle, mut seen) = (0, first);
            let mut requests = Vec::new();
            for (skip, late) in steps {
                cycle += skip;
                seen = (first + cycle * period + late).max(seen + 1);
                requests.push(seen);
            }
            let found = cycles(&requests, first, period);
            prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", found);
            for (seen, cycle) in requests.iter().zip(&found) {
                prop_assert!(first + cycle * period <= *seen);
            }
        }
    }
}

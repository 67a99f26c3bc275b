//! Order of measurements. Pure.

use onbeat_realtime::clock::SECOND;

use super::Load;
use crate::rounds;

/// Number of rounds, if there are enough probes.
const ROUNDS: u32 = 10;
/// Minimum number of probes per round: a change for fewer is not worthwhile.
const LEAST: u64 = 100;
/// Maximum overhead of a row's turn in a round: start of load, return of the last probe, end of
/// threads.
const AROUND_NS: u64 = 150_000_000;

/// Measurements under one load in one round: the cases in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of the round, from 0.
    pub(super) round: u32,
    pub(super) load: Load,
    /// Indices into the list of cases.
    pub(super) cases: Vec<usize>,
    /// Measured probes per case.
    pub(super) probes: u64,
}

/// All blocks in order.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) blocks: Vec<Block>,
    pub(super) rounds: u32,
    rate: u64,
}

impl Schedule {
    /// Plans `probes` per case and load, at `rate` probes/s. `cases`: the cases of a load.
    pub(super) fn new(
        loads: &[Load],
        cases: impl Fn(Load) -> Vec<usize>,
        probes: u64,
        rate: u64,
    ) -> Self {
        let most = u32::try_from(probes / LEAST).unwrap_or(ROUNDS);
        let shares = rounds::split(probes, ROUNDS.min(most).max(1));
        let mut blocks = Vec::new();
        for (round, &probes) in shares.iter().enumerate() {
            for &load in loads {
                let mut cases = cases(load);
                // The first case rotates.
                let first = round % cases.len().max(1);
                cases.rotate_left(first);
                blocks.push(Block { round: round as u32, load, cases, probes });
            }
        }
        Self { blocks, rounds: shares.len() as u32, rate }
    }

    /// Probes of a turn before the measured ones: caches are warm and queues allocated.
    pub(super) fn warm_up(&self) -> u64 {
        (self.rate / 20).clamp(10, 1000)
    }

    /// Duration of a turn.
    pub(super) fn turn_ns(&self, block: &Block) -> u64 {
        let probes = u128::from(block.probes + self.warm_up());
        (probes * u128::from(SECOND) / u128::from(self.rate)) as u64 + AROUND_NS
    }

    /// Duration of the whole schedule.
    pub(super) fn duration_ns(&self) -> u64 {
        self.blocks.iter().map(|block| self.turn_ns(block) * block.cases.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(loads: &[Load], probes: u64) -> Schedule {
        let cases = |load| if load == Load::Idle { vec![0, 1, 2] } else { vec![0, 1, 2, 3] };
        Schedule::new(loads, cases, probes, 1000)
    }

    #[test]
    fn rounds_have_all_loads_and_start_with_different_rows() {
        let all = schedule(&Load::ALL, 10_000);
        assert_eq!((all.rounds, all.blocks.len()), (10, 30));
        let of = |place: usize| (all.blocks[place].load, all.blocks[place].cases.clone());
        assert_eq!(of(0), (Load::Idle, vec![0, 1, 2]));
        assert_eq!(of(1), (Load::Stress, vec![0, 1, 2, 3]));
        assert_eq!(of(3), (Load::Idle, vec![1, 2, 0]));
        assert_eq!(of(5), (Load::Background, vec![1, 2, 3, 0]));
        let probes: u64 =
            all.blocks.iter().filter(|b| b.load == Load::Idle).map(|b| b.probes).sum();
        assert_eq!(probes, 10_000);
    }

    #[test]
    fn few_probes_make_few_rounds() {
        let rounds = |probes| schedule(&[Load::Idle], probes).rounds;
        assert_eq!([1, 99, 100, 250, 1000, 5000].map(rounds), [1, 1, 1, 2, 10, 10]);
    }

    #[test]
    fn the_duration_is_the_sum_of_all_turns() {
        let idle = schedule(&[Load::Idle], 10_000);
        assert_eq!(idle.warm_up(), 50);
        // 10 rounds of 3 rows of 1,050 probes.
        assert_eq!(idle.duration_ns(), 30 * (1_050_000_000 + AROUND_NS));
    }
}

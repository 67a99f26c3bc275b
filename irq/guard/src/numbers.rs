//! Assigns limits to processes, by number: pure.

use std::collections::{BTreeMap, BTreeSet};

use onbeat_irq_core::charge::Process;

/// Gives each process with a budget a number of its own while any are free. All other processes of a rule share
/// one number, and so its budget: none is without.
#[derive(Debug)]
pub(super) struct Numbers {
    /// From 1 to this: the numbers that the processes of a rule share.
    shared: u32,
    free: BTreeSet<u32>,
    of: BTreeMap<Process, AssignedNumber>,
}

/// The number of a process, and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AssignedNumber {
    pub(super) number: u32,
    pub(super) rule: usize,
}

impl Numbers {
    /// Numbers 1 to `end` - 1, of which each of `rules` rules reserves one to share.
    pub(super) fn new(rules: usize, end: u32) -> Self {
        let shared = u32::try_from(rules).unwrap_or(u32::MAX).min(end - 1);
        Self { shared, free: (shared + 1..end).collect(), of: BTreeMap::new() }
    }

    pub(super) fn get(&self, process: Process) -> Option<AssignedNumber> {
        self.of.get(&process).copied()
    }

    /// The processes with a number.
    pub(super) fn processes(&self) -> impl Iterator<Item = Process> {
        self.of.keys().copied()
    }

    /// Gives a process a number.
    pub(super) fn assign(&mut self, process: Process, rule: usize) -> AssignedNumber {
        let number = self.free.pop_first().unwrap_or(self.number_of_rule(rule));
        self.insert(process, AssignedNumber { number, rule })
    }

    /// Gives a process the shared number of a rule.
    pub(super) fn share(&mut self, process: Process, rule: usize) -> AssignedNumber {
        self.insert(process, AssignedNumber { number: self.number_of_rule(rule), rule })
    }

    fn insert(&mut self, process: Process, assigned: AssignedNumber) -> AssignedNumber {
        self.of.insert(process, assigned);
        assigned
    }

    /// Releases the number of a process.
    pub(super) fn release(&mut self, process: Process) -> Option<AssignedNumber> {
        let assigned = self.of.remove(&process)?;
        if !self.is_shared(assigned.number) {
            self.free.insert(assigned.number);
        }
        Some(assigned)
    }

    /// The number that processes of a rule share.
    pub(super) fn number_of_rule(&self, rule: usize) -> u32 {
        (rule as u32).saturating_add(1).min(self.shared)
    }

    pub(super) fn is_shared(&self, number: u32) -> bool {
        number <= self.shared
    }

    /// Whether the next process shares a number.
    fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether a process that shares a number could have its own.
    pub(super) fn can_have_own_number(&self, assigned: AssignedNumber) -> bool {
        self.is_shared(assigned.number) && !self.is_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process { pid, start_ticks: pid }
    }

    /// Two rules, and seven numbers.
    #[test]
    fn no_process_is_without_a_number() {
        let mut numbers = Numbers::new(2, 8);
        let own: BTreeSet<u32> = (0..5).map(|pid| numbers.assign(process(pid), 0).number).collect();
        assert_eq!(own, (3..8).collect());
        assert!(numbers.is_full());
        for pid in 100..1100 {
            let rule = pid as usize % 2;
            let assigned = numbers.assign(process(pid), rule);
            assert_eq!(assigned, AssignedNumber { number: rule as u32 + 1, rule });
            assert!(numbers.is_shared(assigned.number) && !numbers.can_have_own_number(assigned));
        }
        // Processes that share a number free none.
        assert_eq!(numbers.release(process(100)).unwrap().number, 1);
        assert!(numbers.is_full());
        assert_eq!(numbers.release(process(100)), None);
        let freed = numbers.release(process(3)).unwrap().number;
        assert!(numbers.can_have_own_number(numbers.get(process(101)).unwrap()));
        assert_eq!(numbers.assign(process(2000), 1).number, freed);
        assert_eq!(numbers.processes().count(), 5 + 999);
    }

    #[test]
    fn short_lived_processes_release_their_numbers() {
        let mut numbers = Numbers::new(1, 8);
        for pid in 0..38_000 {
            let assigned = numbers.assign(process(pid), 0);
            assert!(!numbers.is_shared(assigned.number));
            numbers.release(process(pid));
        }
        assert_eq!(numbers.processes().count(), 0);
    }

    #[test]
    fn more_rules_than_numbers_share_the_last_one() {
        let mut numbers = Numbers::new(20, 8);
        for rule in 0..20 {
            assert!((1..8).contains(&numbers.assign(process(rule), rule as usize).number));
        }
    }
}

//! Assigns limits to processes, by number: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use onbeat_irq_core::charge::Process;
use onbeat_irq_core::names::Octets;

use crate::abi::guard_size;

/// Gives each group of processes with a budget a number of its own while any are free. All other processes of a rule
/// share one number, and so its budget: none is without.
#[derive(Debug)]
pub(super) struct Numbers {
    /// From 1 to this: the numbers that the processes of a rule share.
    shared: u32,
    free: BTreeSet<u32>,
    of: BTreeMap<Process, Assignment>,
    groups: BTreeMap<(usize, Group), GroupNumber>,
}

/// Processes that share a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Process(Process),
    Command(Octets),
    Cgroup(Octets),
    User(u32),
    /// All of the rule.
    Rule,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => write!(f, "process {}", process.pid),
            Self::Command(command) => write!(f, "command {command}"),
            Self::Cgroup(cgroup) => write!(f, "control group {cgroup}"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Rule => f.write_str("all of the rule"),
        }
    }
}

/// The number of a process, and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AssignedNumber {
    pub(super) number: u32,
    pub(super) rule: usize,
}

#[derive(Debug)]
struct Assignment {
    assigned: AssignedNumber,
    group: Group,
}

#[derive(Debug)]
struct GroupNumber {
    number: u32,
    members: u32,
}

impl Numbers {
    /// Numbers 1 to `end` - 1, of which each of `rules` rules reserves one to share. The others have another number with
    /// the same limit after each use: a socket may have that of an earlier process.
    pub(super) fn new(rules: usize, end: u32) -> Self {
        let shared = u32::try_from(rules).unwrap_or(u32::MAX).min(end - 1);
        let free = (shared + 1..end).collect();
        Self { shared, free, of: BTreeMap::new(), groups: BTreeMap::new() }
    }

    pub(super) fn get(&self, process: Process) -> Option<AssignedNumber> {
        self.of.get(&process).map(|one| one.assigned)
    }

    /// The processes with a number.
    pub(super) fn processes(&self) -> impl Iterator<Item = Process> {
        self.of.keys().copied()
    }

    /// Gives a process the number of its group.
    pub(super) fn assign(&mut self, process: Process, rule: usize, group: Group) -> AssignedNumber {
        let shared = self.number_of_rule(rule);
        let number = match self.groups.get_mut(&(rule, group.clone())) {
            Some(known) => {
                known.members += 1;
                known.number
            }
            None => match self.free.pop_first() {
                Some(number) => {
                    self.groups.insert((rule, group.clone()), GroupNumber { number, members: 1 });
                    number
                }
                None => shared,
            },
        };
        self.insert(process, AssignedNumber { number, rule }, group)
    }

    /// Gives a process the shared number of a rule.
    pub(super) fn share(&mut self, process: Process, rule: usize) -> AssignedNumber {
        let number = self.number_of_rule(rule);
        self.insert(process, AssignedNumber { number, rule }, Group::Process(process))
    }

    fn insert(
        &mut self,
        process: Process,
        assigned: AssignedNumber,
        group: Group,
    ) -> AssignedNumber {
        self.of.insert(process, Assignment { assigned, group });
        assigned
    }

    /// The group that has a number of its own.
    pub(super) fn group_of(&self, number: u32) -> Option<(usize, Group)> {
        self.groups.iter().find(|(_, known)| known.number == number).map(|(key, _)| key.clone())
    }

    /// Releases the number of a process. That of a group stays until [`Self::free`].
    pub(super) fn release(&mut self, process: Process) -> Option<AssignedNumber> {
        let Assignment { assigned, group } = self.of.remove(&process)?;
        let is_process = matches!(group, Group::Process(_));
        let group = (assigned.rule, group);
        if self.is_shared(assigned.number) {
            return Some(assigned);
        }
        if is_process {
            self.groups.remove(&group);
            self.free.insert(next(assigned.number));
        } else if let Some(known) = self.groups.get_mut(&group) {
            known.members -= 1;
        }
        Some(assigned)
    }

    pub(super) fn is_free(&self, number: u32) -> bool {
        self.free.contains(&next(number))
    }

    /// Frees the numbers of groups without processes for which `is_unused`, and returns them.
    pub(super) fn free(&mut self, is_unused: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut freed = Vec::new();
        self.groups.retain(|_, GroupNumber { number, members }| {
            let stays = *members > 0 || !is_unused(*number);
            if !stays {
                freed.push(*number);
            }
            stays
        });
        self.free.extend(freed.iter().copied().map(next));
        freed
    }

    /// The number that processes of a rule share.
    pub(super) fn number_of_rule(&self, rule: usize) -> u32 {
        (rule as u32).saturating_add(1).min(self.shared)
    }

    pub(super) fn is_shared(&self, number: u32) -> bool {
        number <= self.shared
    }

    /// Whether the process has the number that it would be assigned: not if its group has changed, or could have a
    /// number of its own.
    pub(super) fn is_current(&self, process: Process, rule: usize, group: &Group) -> bool {
        self.of.get(&process).is_some_and(|known| {
            let has_own = !self.is_shared(known.assigned.number);
            let could_have =
                !self.free.is_empty() || self.groups.contains_key(&(rule, group.clone()));
            known.assigned.rule == rule && known.group == *group && (has_own || !could_have)
        })
    }
}

/// The next number with the same limit.
fn next(number: u32) -> u32 {
    number.wrapping_add(guard_size::GUARD_SLOTS.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process { pid, start_ticks: pid }
    }

    fn own(pid: u32) -> Group {
        Group::Process(process(pid))
    }

    /// Two rules, and seven numbers.
    #[test]
    fn no_process_is_without_a_number() {
        let mut numbers = Numbers::new(2, 8);
        let assign =
            |numbers: &mut Numbers, pid, rule| numbers.assign(process(pid), rule, own(pid));
        let first: BTreeSet<u32> = (0..5).map(|pid| assign(&mut numbers, pid, 0).number).collect();
        assert_eq!(first, (3..8).collect());
        for pid in 100..1100 {
            let rule = pid as usize % 2;
            let assigned = assign(&mut numbers, pid, rule);
            assert_eq!(assigned, AssignedNumber { number: rule as u32 + 1, rule });
            assert!(numbers.is_current(process(pid), rule, &own(pid)));
        }
        // Processes that share a number free none.
        assert_eq!(numbers.release(process(100)).unwrap().number, 1);
        assert!(numbers.free(|_| true).is_empty());
        assert_eq!(numbers.release(process(100)), None);
        let freed = numbers.release(process(3)).unwrap().number;
        assert!(numbers.is_free(freed));
        assert!(!numbers.is_current(process(101), 1, &own(101)));
        // The limit is the same, the number is not.
        assert_eq!(assign(&mut numbers, 2000, 1).number, freed + guard_size::GUARD_SLOTS.0);
        assert!(!numbers.is_free(freed));
        assert_eq!(numbers.processes().count(), 5 + 999);
    }

    #[test]
    fn short_lived_processes_release_their_numbers() {
        let mut numbers = Numbers::new(1, 8);
        for pid in 0..38_000 {
            let assigned = numbers.assign(process(pid), 0, own(pid));
            assert!(!numbers.is_shared(assigned.number));
            numbers.release(process(pid));
        }
        assert_eq!(numbers.processes().count(), 0);
    }

    #[test]
    fn more_rules_than_numbers_share_the_last_one() {
        let mut numbers = Numbers::new(20, 8);
        for rule in 0..20 {
            let assigned = numbers.assign(process(rule), rule as usize, own(rule));
            assert!((1..8).contains(&assigned.number));
        }
    }

    #[test]
    fn a_group_has_one_number_until_its_limit_is_unused() {
        let mut numbers = Numbers::new(2, 16);
        let user = |id| Group::User(id);
        let first = numbers.assign(process(1), 0, user(7)).number;
        assert_eq!(numbers.assign(process(2), 0, user(7)).number, first);
        // Another user, the same user by another rule, another kind of group.
        for (pid, rule, group) in [(3, 0, user(8)), (4, 1, user(7)), (5, 0, Group::Rule)] {
            assert_ne!(numbers.assign(process(pid), rule, group).number, first);
        }
        assert_eq!(numbers.group_of(first), Some((0, user(7))));
        assert_eq!(numbers.group_of(15), None);
        // Its processes exit, and others start: all have the same limit.
        numbers.release(process(1));
        assert!(numbers.free(|_| true).is_empty());
        numbers.release(process(2));
        assert!(numbers.free(|number| number != first).is_empty());
        assert_eq!(numbers.assign(process(6), 0, user(7)).number, first);
        // It changes its user.
        assert!(numbers.is_current(process(6), 0, &user(7)));
        assert!(!numbers.is_current(process(6), 0, &user(8)));
        numbers.release(process(6));
        assert_eq!(numbers.free(|_| true), [first]);
    }
}

//! When each process that has changed is scanned: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::abi::guard_size;

/// CPU time for the scan of one process. One with more sockets is left to scans of all.
pub(super) const PROCESS_SLICE: Duration = Duration::from_millis(5);

/// CPU time after which scans of processes pause.
const BATCH: Duration = Duration::from_millis(2);

/// Scans of one process use at most one part in this many of a CPU.
const COST_OF_PROCESS: u32 = 20;

/// And those of all of them, whose number other users decide.
const COST: u32 = 10;

/// A change is reported before it is complete: a socket has no file yet, and a process that exits still has some.
const AGAIN_NS: u64 = 100_000_000;

/// Processes that are scanned again after a scan of all.
const MOST_SINCE: usize = 256;

/// Processes that wait for a scan, beyond which a scan of all replaces theirs: those that the kernel reports at a
/// time, each once and again.
const MOST_WAITING: usize = 2 * guard_size::GUARD_CHANGED.0 as usize;

/// The reason for a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Change,
    /// To find what an earlier scan may have missed.
    Again,
}

#[derive(Debug)]
struct ProcessScan {
    from_ns: u64,
    reason: Reason,
}

/// Processes to scan: the one that is due first comes first.
#[derive(Debug, Default)]
pub(super) struct ProcessScans {
    waiting: BTreeMap<u32, ProcessScan>,
    /// Since when each of them is due.
    order: BTreeSet<(u64, u32)>,
    /// Processes that were scanned, and until when their next scan waits.
    paused: BTreeMap<u32, u64>,
    /// CPU time of scans of this time, and until when all pause after the last ones.
    used: Duration,
    paused_until_ns: u64,
    /// Changed while a scan of all may have read them before.
    since: Vec<u32>,
}

impl ProcessScans {
    /// Notes processes that have changed. False: they are too many, and none waits any more; a scan of all is due.
    #[must_use]
    pub(super) fn note(&mut self, pids: Vec<u32>, now_ns: u64) -> bool {
        self.paused.retain(|_, until_ns| *until_ns > now_ns);
        for pid in pids {
            self.add(pid, now_ns, Reason::Change);
        }
        let is_complete = self.waiting.len() <= MOST_WAITING;
        if !is_complete {
            self.waiting.clear();
            self.order.clear();
        }
        is_complete
    }

    fn add(&mut self, pid: u32, from_ns: u64, reason: Reason) {
        let mut from_ns = self.paused.get(&pid).map_or(from_ns, |until_ns| from_ns.max(*until_ns));
        if let Some(known) = self.waiting.get(&pid) {
            if reason == Reason::Again {
                return;
            }
            self.order.remove(&(known.from_ns, pid));
            from_ns = from_ns.min(known.from_ns);
        }
        self.waiting.insert(pid, ProcessScan { from_ns, reason });
        self.order.insert((from_ns, pid));
    }

    /// Returns the process to scan now; [`Self::scanned`] follows.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u32> {
        if now_ns < self.paused_until_ns || self.used >= BATCH {
            return None;
        }
        let first = *self.order.first().filter(|(from_ns, _)| *from_ns <= now_ns)?;
        self.order.remove(&first);
        let (_, pid) = first;
        let ProcessScan { reason, .. } = self.waiting.remove(&pid)?;
        if reason == Reason::Change {
            self.add(pid, now_ns.saturating_add(AGAIN_NS), Reason::Again);
            if self.since.len() < MOST_SINCE && !self.since.contains(&pid) {
                self.since.push(pid);
            }
        }
        Some(pid)
    }

    /// When [`Self::next`] has a process.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let first = self.order.first().map(|(from_ns, _)| *from_ns);
        first.map(|from_ns| from_ns.max(self.paused_until_ns))
    }

    /// Records the cost of a scan.
    pub(super) fn scanned(&mut self, pid: u32, cpu_time: Duration, now_ns: u64) {
        self.used += cpu_time;
        self.paused.insert(pid, now_ns.saturating_add(pause_ns(cpu_time, COST_OF_PROCESS)));
    }

    /// Ends the scans of this time. `cpu_time` is theirs and that of all that followed from them.
    pub(super) fn end(&mut self, cpu_time: Duration, now_ns: u64) {
        if !std::mem::take(&mut self.used).is_zero() {
            self.paused_until_ns = now_ns.saturating_add(pause_ns(cpu_time, COST));
        }
    }

    /// A scan of all has ended: it may have read processes before they changed.
    pub(super) fn all_scanned(&mut self, now_ns: u64) {
        for pid in std::mem::take(&mut self.since) {
            self.add(pid, now_ns, Reason::Again);
        }
    }
}

/// The pause after scans that use one part in `parts` of a CPU.
fn pause_ns(cpu_time: Duration, parts: u32) -> u64 {
    cpu_time.saturating_mul(parts - 1).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const CHEAP: Duration = Duration::from_micros(50);

    /// A scan of all processes.
    const ALL: u32 = 0;

    /// Scans at each tick until `until_ns`; returns processes with times, or [`ALL`] where they are too many.
    fn run(
        scans: &mut ProcessScans,
        from_ns: u64,
        until_ns: u64,
        changes: impl Fn(u64) -> Vec<u32>,
        cost: impl Fn(u32) -> Duration,
    ) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        for now_ns in (from_ns..until_ns).step_by(10 * MS as usize) {
            if !scans.note(changes(now_ns), now_ns) {
                found.push((ALL, now_ns));
            }
            let mut used = Duration::ZERO;
            while let Some(pid) = scans.next(now_ns) {
                used += cost(pid);
                scans.scanned(pid, cost(pid), now_ns);
                found.push((pid, now_ns));
            }
            scans.end(used, now_ns);
        }
        found
    }

    #[test]
    fn a_change_is_scanned_at_once_and_again_after_it_is_complete() {
        let mut scans = ProcessScans::default();
        let changes = |now_ns: u64| if now_ns == 30 * MS { vec![7] } else { vec![] };
        let found = run(&mut scans, 0, 1000 * MS, changes, |_| CHEAP);
        assert_eq!(scans.next_ns(), None);
        assert_eq!(found, [(7, 30 * MS), (7, 130 * MS)]);
        // A scan of all has read it meanwhile, before or after.
        scans.all_scanned(1000 * MS);
        let found = run(&mut scans, 1000 * MS, 2000 * MS, |_| vec![], |_| CHEAP);
        assert_eq!(found, [(7, 1000 * MS)]);
        scans.all_scanned(2000 * MS);
        assert_eq!(run(&mut scans, 2000 * MS, 3000 * MS, |_| vec![], |_| CHEAP), []);
    }

    #[test]
    fn the_next_scan_is_after_its_pauses() {
        let mut scans = ProcessScans::default();
        assert!(scans.note(vec![7], MS));
        assert_eq!((scans.next_ns(), scans.next(MS)), (Some(MS), Some(7)));
        const COST_OF_SCAN: Duration = Duration::from_millis(1);
        scans.scanned(7, COST_OF_SCAN, MS);
        scans.end(COST_OF_SCAN, MS);
        // To find what this one may have missed,
        assert_eq!(scans.next_ns(), Some(101 * MS));
        // and sooner after another change, but not at once.
        assert!(scans.note(vec![7], 2 * MS));
        let next_ns = scans.next_ns().unwrap();
        assert_eq!(next_ns, MS + pause_ns(COST_OF_SCAN, COST_OF_PROCESS));
        assert_eq!((scans.next(next_ns - 1), scans.next(next_ns)), (None, Some(7)));
        // What follows from a scan counts as well,
        scans.scanned(7, COST_OF_SCAN, next_ns);
        scans.end(50 * COST_OF_SCAN, next_ns);
        let paused_until_ns = next_ns + pause_ns(50 * COST_OF_SCAN, COST);
        assert!(scans.note(vec![8], next_ns));
        assert_eq!(scans.next_ns(), Some(paused_until_ns));
        // and a time without a scan changes nothing.
        scans.end(50 * COST_OF_SCAN, paused_until_ns);
        assert_eq!(scans.next_ns(), Some(paused_until_ns));
    }

    /// One process with many sockets changes all the time, beside new ones at each tick.
    #[test]
    fn hostile_processes_delay_others_by_a_bounded_time() {
        // All that may wait before it, and the large process.
        let most = (CHEAP * MOST_WAITING as u32 + PROCESS_SLICE) * COST;
        let cost = |pid| match pid {
            ALL => Duration::ZERO,
            1 => PROCESS_SLICE,
            _ => CHEAP,
        };
        for new in [5, 40, 200] {
            let mut scans = ProcessScans::default();
            let flood = |now_ns: u64| {
                let tick = (now_ns / (10 * MS)) as u32;
                let victim = (tick % 7 == 0).then_some(1_000_000 + tick);
                (0..new).map(|n| 100 + tick * new + n).chain([1]).chain(victim).collect()
            };
            let found = run(&mut scans, 0, 4000 * MS, flood, cost);
            let of_large = found.iter().filter(|(pid, _)| *pid == 1).count() as u32;
            assert!(
                of_large * PROCESS_SLICE
                    <= Duration::from_secs(4) / COST_OF_PROCESS + PROCESS_SLICE
            );
            let used: Duration = found.iter().map(|(pid, _)| cost(*pid)).sum();
            assert!(used <= Duration::from_secs(4) / COST + 2 * BATCH + PROCESS_SLICE, "{used:?}");
            let victims = (0..300).step_by(7).map(|tick| 1_000_000 + tick);
            for victim in victims {
                let from_ns = u64::from(victim - 1_000_000) * 10 * MS;
                let finds =
                    |(pid, at_ns): &&(u32, u64)| [ALL, victim].contains(pid) && *at_ns >= from_ns;
                let (_, at_ns) = found.iter().find(finds).expect("it is found");
                let delay = Duration::from_nanos(at_ns - from_ns);
                assert!(delay <= most, "{delay:?} of {most:?} beside {new} at each tick");
            }
            // Without a reason, no scan of all.
            assert_eq!(found.iter().any(|(pid, _)| *pid == ALL), new > 5);
        }
    }
}

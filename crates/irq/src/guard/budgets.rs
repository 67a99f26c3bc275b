//! Budgets: what processes cause is held against what they may, and what exceeds it is dropped early.

use std::collections::{BTreeMap, BTreeSet};

use super::config::{Config, Rule};
use super::limiter::{Count, Limiter};
use super::waiting::{Scan, Waiter};
use super::walk::Walk;
use crate::charge::{Accounts, Amount, Cause, Process};
use crate::policy::{Budget, Limit, Meter};
use crate::{Description, Result, Tracer};

/// How a process stands to its budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The process.
    pub process: Process,
    /// Its name.
    pub command: String,
    /// What it may cause.
    pub budget: Budget,
    /// Bottom-half time that it caused in the last interval, in nanoseconds for each second.
    pub caused_ns_per_s: u64,
    /// What it receives at most, for now.
    pub limit: Limit,
    /// Its packets that were dropped early since it has a budget.
    pub dropped: u64,
}

/// Shortest interval over which costs are measured, in nanoseconds.
const INTERVAL_NS: u64 = 100_000_000;
/// How often processes are held against the rules anew: one may change its name or its group.
const RULES_NS: u64 = 1_000_000_000;

/// Keeps the ledger while there are budgets, and limits by it.
#[derive(Debug)]
pub(super) struct Budgets {
    rules: Vec<Rule>,
    netns: u32,
    tracer: Tracer,
    limiter: Limiter,
    held: BTreeMap<Process, Held>,
    free: BTreeSet<u32>,
    without: BTreeSet<Process>,
    last: Accounts,
    last_ns: u64,
    rules_ns: u64,
}

#[derive(Debug)]
struct Held {
    number: u32,
    rule: usize,
    meter: Meter,
    before: Count,
    last: Count,
    usage: Usage,
}

impl Budgets {
    pub(super) fn new(config: &Config, netns: u32, walk: &Walk, now_ns: u64) -> Result<Self> {
        let limiter = Limiter::new(&walk.numbers_of_sockets(), config.drop_at)?;
        let tracer = Tracer::start()?;
        Ok(Self {
            rules: config.budgets.clone(),
            netns,
            tracer,
            limiter,
            held: BTreeMap::new(),
            free: (1..Limiter::SLOTS).collect(),
            without: BTreeSet::new(),
            last: Accounts::default(),
            last_ns: now_ns,
            rules_ns: now_ns,
        })
    }

    /// On these devices.
    pub(super) fn set_devices(&mut self, devices: &[u32]) -> Result<()> {
        self.limiter.set_devices(devices)
    }

    /// How the processes stand that have a budget.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.held.values().map(|held| held.usage.clone()).collect()
    }

    /// Takes what there is now; sets limits once an interval is over.
    pub(super) fn step(&mut self, walk: &Walk, scan: &Scan, now_ns: u64) -> Result<()> {
        self.take_processes(walk, scan, now_ns)?;
        let interval_ns = now_ns.saturating_sub(self.last_ns);
        if interval_ns < INTERVAL_NS {
            return Ok(());
        }
        self.last_ns = now_ns;
        let now = self.accounts()?;
        let since = now.since(&self.last);
        self.last = now;
        for (process, held) in &mut self.held {
            let caused = caused(&since, *process, self.netns);
            let count = self.limiter.count(held.number)?;
            let dropped = count.dropped - held.last.dropped;
            held.last = count;
            held.usage.limit = held.meter.observe(interval_ns, caused, dropped);
            held.usage.dropped = count.dropped - held.before.dropped;
            held.usage.caused_ns_per_s =
                (u128::from(caused.ns) * 1_000_000_000 / u128::from(interval_ns)) as u64;
            self.limiter.limit(held.number, held.usage.limit)?;
        }
        Ok(())
    }

    fn accounts(&self) -> Result<Accounts> {
        let mut total = Accounts::default();
        self.tracer.accounts()?.iter().for_each(|cpu| total.add(cpu));
        total.resolve(|cookie| self.tracer.owner(cookie));
        Ok(total)
    }

    /// Gives new processes numbers, and takes back those of processes that have ended or have other
    /// names by now.
    fn take_processes(&mut self, walk: &Walk, scan: &Scan, now_ns: u64) -> Result<()> {
        let anew = now_ns.saturating_sub(self.rules_ns) >= RULES_NS;
        if anew {
            self.rules_ns = now_ns;
            self.without.clear();
        }
        let receivers: BTreeSet<u32> = scan.sockets.iter().map(|socket| socket.pid).collect();
        let alive: BTreeSet<Process> = scan
            .threads
            .iter()
            .map(|thread| thread.waiter)
            .filter(|Waiter { process, tid }| process.pid == *tid && receivers.contains(tid))
            .map(|waiter| waiter.process)
            .collect();
        self.without.retain(|process| alive.contains(process));
        let gone: Vec<Process> =
            self.held.keys().filter(|process| !alive.contains(process)).copied().collect();
        for process in gone {
            self.release(walk, process)?;
        }
        for process in alive {
            let known = self.held.get(&process).map(|held| held.rule);
            if (known.is_some() || self.without.contains(&process)) && !anew {
                continue;
            }
            let Some(description) = Description::of(process) else { continue };
            let rule = self.rules.iter().position(|rule| rule.fits(&description));
            if rule == known && known.is_some() {
                continue;
            }
            if known.is_some() {
                self.release(walk, process)?;
            }
            match rule {
                Some(rule) => self.hold(walk, process, description, rule)?,
                None => drop(self.without.insert(process)),
            }
        }
        Ok(())
    }

    fn hold(
        &mut self,
        walk: &Walk,
        process: Process,
        description: Description,
        rule: usize,
    ) -> Result<()> {
        let Some(number) = self.free.pop_first() else {
            if self.without.insert(process) {
                tracing::warn!(
                    "process {} ({}) has no budget: {} others have one already",
                    process.pid,
                    description.command,
                    self.held.len()
                );
            }
            return Ok(());
        };
        let before = self.limiter.count(number)?;
        walk.number(process.pid, Some(number))?;
        let budget = self.rules[rule].budget;
        let usage = Usage {
            process,
            command: description.command,
            budget,
            caused_ns_per_s: 0,
            limit: Limit::None,
            dropped: 0,
        };
        let meter = Meter::new(budget);
        self.held.insert(process, Held { number, rule, meter, before, last: before, usage });
        Ok(())
    }

    fn release(&mut self, walk: &Walk, process: Process) -> Result<()> {
        if let Some(held) = self.held.remove(&process) {
            self.limiter.limit(held.number, Limit::None)?;
            walk.number(process.pid, None)?;
            self.free.insert(held.number);
        }
        Ok(())
    }
}

/// What a process caused by packets of a namespace's devices.
fn caused(accounts: &Accounts, process: Process, netns: u32) -> Amount {
    let mut sum = Amount::default();
    for (cause, amount) in &accounts.caused {
        match cause {
            Cause::Process { process: of, device } if *of == process && device.netns == netns => {
                sum.ns += amount.ns;
                sum.packets += amount.packets;
            }
            _ => {}
        }
    }
    sum
}

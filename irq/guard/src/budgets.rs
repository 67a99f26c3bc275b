//! Budgets: numbers the processes that have them, and stops limits, which the ledger starts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::TimeSlice;
use super::candidates::{Scan, Thread, WaitingThread};
use super::config::{BudgetScope, Config, DropPoint, ProcessProperties, Rule};
use super::event::{Event, Usage};
use super::limiter::{Count, Limiter};
use super::numbers::{Group, Numbers};
use super::walk::Walk;
use crate::Result;
use onbeat_irq::names::describe;
use onbeat_irq::{Meter as Ledger, Tracer};
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Process};
use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::{Budget, Limit, Meter, Offer};
use onbeat_realtime::clock;

/// Shortest interval over which costs are measured, in nanoseconds.
const INTERVAL_NS: u64 = 100_000_000;
/// Interval at which all processes are matched against the rules again: a process may change its name or its
/// group.
const RULES_NS: u64 = 1_000_000_000;

/// Runs the ledger while there are budgets, and limits processes by it.
#[derive(Debug)]
pub(super) struct Budgets {
    rules: Vec<Rule>,
    netns: u32,
    ledger: Ledger,
    limiter: Limiter,
    numbers: Numbers,
    meters: BTreeMap<u32, LimitMeter>,
    processes: BTreeMap<Process, BudgetedProcess>,
    without_budget: BTreeSet<Process>,
    /// Living processes that read sockets and are not part of a complete scan yet, each with the number of
    /// complete walks over threads when it was recorded.
    readers: BTreeMap<u32, u32>,
    /// Whether there are more of them.
    any_reads: bool,
    /// Known processes that must be matched against the rules again.
    due: BTreeSet<Process>,
    /// Processes that the kernel's table has no room for: they have the default limit.
    unnumbered: BTreeSet<Process>,
    /// Entries of that table.
    table_size: usize,
    numbered: Vec<u32>,
    /// Whether processes share limits because all are in use, as last reported.
    limits_full: bool,
    /// Whether the ledger has the last interval completely.
    complete: bool,
    events: Vec<Event>,
    last_ns: u64,
    rules_ns: u64,
}

/// The meter of a limit: that of a process, or of all processes that share its number.
#[derive(Debug)]
struct LimitMeter {
    budget: Budget,
    meter: Meter,
    last: Count,
}

#[derive(Debug)]
struct BudgetedProcess {
    usage: Usage,
    /// Packets dropped by its limit before the process had that limit.
    dropped_before: u64,
}

impl Budgets {
    pub(super) fn new(config: &Config, netns: u32, walk: &Walk, now_ns: u64) -> Result<Self> {
        let table_size = walk.table_size();
        let tables = walk.tables_of_budgets();
        let limiter = Limiter::new(&tables, config.drop_at)?;
        let unmerged = config.drop_at == DropPoint::Xdp;
        let charged = onbeat_irq::Budgets { tables: &tables, netns, unmerged };
        let ledger = Ledger::new(Tracer::start_with_budgets(charged, config.ledger_rows)?);
        Ok(Self {
            numbers: Numbers::new(config.budgets.len(), Limiter::SLOTS),
            rules: config.budgets.clone(),
            netns,
            ledger,
            limiter,
            meters: BTreeMap::new(),
            processes: BTreeMap::new(),
            without_budget: BTreeSet::new(),
            readers: BTreeMap::new(),
            any_reads: false,
            due: BTreeSet::new(),
            unnumbered: BTreeSet::new(),
            table_size,
            numbered: Vec::new(),
            limits_full: false,
            complete: true,
            events: Vec::new(),
            last_ns: now_ns,
            rules_ns: now_ns,
        })
    }

    /// Charges the time for packets of these devices, and limits these packets if the guard `drops`.
    pub(super) fn set_devices(&mut self, devices: &[u32], drops: bool) -> Result<()> {
        self.limiter.charge_devices(devices)?;
        self.limiter.set_devices(if drops { devices } else { &[] })
    }

    /// Limits packets to these addresses.
    pub(super) fn set_addresses(&mut self, addresses: impl Iterator<Item = IpAddr>) -> Result<()> {
        self.limiter.set_addresses(addresses)
    }

    /// The usage of each process with a budget.
    pub(super) fn usage(&self) -> Vec<Usage> {
        self.processes.values().map(|process| process.usage.clone()).collect()
    }

    /// Events since the last call.
    pub(super) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Applies a scan, with rules for as many processes as `slice` allows; stops limits at the end of an
    /// interval.
    pub(super) fn step(
        &mut self,
        walk: &mut Walk,
        scan: &Scan,
        slice: &TimeSlice,
        now_ns: u64,
    ) -> Result<()> {
        self.update_processes(walk, scan, slice, now_ns)?;
        if now_ns.saturating_sub(self.last_ns) < INTERVAL_NS {
            return Ok(());
        }
        self.last_ns = now_ns;
        let mut interval = self.ledger.read()?;
        let unread = self.caused_unread(walk, &interval.total(), slice)?;
        interval.resolve(|cookie| self.ledger.tracer().owner(cookie));
        let (interval_ns, unrecorded_ns) = (interval.length_ns(), interval.unrecorded_ns);
        if self.complete && unrecorded_ns > 0 {
            self.events.push(Event::LedgerFull { unrecorded_ns });
        }
        self.complete = unrecorded_ns == 0;

        let mut by_process = caused(&interval.total(), self.netns);
        for (pid, amount) in unread {
            if let Some(process) = self.process_of(pid) {
                by_process.entry(process).or_default().add(amount);
            }
        }
        for (process, budgeted) in &mut self.processes {
            let caused = by_process.get(process).copied().unwrap_or_default();
            budgeted.usage.caused_ns_per_s =
                (u128::from(caused.ns) * 1_000_000_000 / u128::from(interval_ns.max(1))) as u64;
        }
        let since_ns = clock::now_ns();
        let mut limits: HashMap<u32, (Limit, u64)> = HashMap::new();
        for (number, metered) in &mut self.meters {
            let count = self.limiter.count(*number)?;
            let Count { spent_ns, ns_per_packet, in_debt, .. } = count;
            let last = std::mem::replace(&mut metered.last, count);
            let caused_ns = spent_ns.saturating_sub(last.spent_ns);
            let dropped = count.dropped - last.dropped;
            let offer = Offer { interval_ns, caused_ns, dropped, ns_per_packet, in_debt };
            let limited = self.limiter.is_limited(*number);
            let stops = metered.meter.stops(limited.then_some(offer));
            if stops {
                self.limiter.stop_limit(*number);
            }
            let limit = match limited && !stops {
                true => metered.budget.limit(ns_per_packet),
                false => Limit::None,
            };
            limits.insert(*number, (limit, count.dropped));
        }
        let any_limited = limits.values().any(|(limit, _)| *limit != Limit::None);
        self.limiter.inspect(any_limited, since_ns);
        for (process, budgeted) in &mut self.processes {
            let assigned = self.numbers.get(*process);
            if let Some(&(limit, dropped)) = assigned.and_then(|one| limits.get(&one.number)) {
                budgeted.usage.limit = limit;
                budgeted.usage.dropped = dropped - budgeted.dropped_before;
            }
        }
        let is_unused = |number| limits.get(&number).is_none_or(|(limit, _)| *limit == Limit::None);
        for number in self.numbers.free(is_unused) {
            self.remove_limit(number);
        }
        Ok(())
    }

    /// Time for datagram sockets that no process has read, each by the only process that has it open. Other users
    /// decide their number: the rest of an interval does not count.
    fn caused_unread(
        &self,
        walk: &Walk,
        accounts: &Accounts,
        slice: &TimeSlice,
    ) -> Result<Vec<(u32, Amount)>> {
        let mut unread = Vec::new();
        for (cause, amount) in &accounts.caused {
            let Cause::Socket { cookie, device } = cause else { continue };
            if slice.is_over() {
                break;
            }
            let owner = self.ledger.tracer().owner(*cookie);
            let is_read = owner.is_some_and(|owner| owner.by == Attribution::Reader);
            if device.netns == self.netns && !is_read {
                let receiver = walk.receiver(*cookie)?.filter(|receiver| receiver.number != 0);
                unread.extend(receiver.map(|receiver| (receiver.pid, *amount)));
            }
        }
        Ok(unread)
    }

    /// The living process with a budget and this id.
    fn process_of(&self, pid: u32) -> Option<Process> {
        let [first, last] = [0, u32::MAX].map(|start_ticks| Process { pid, start_ticks });
        self.processes.range(first..=last).next().map(|(process, _)| *process)
    }

    /// Processes whose number has changed since the last call: their sockets still have the former one.
    pub(super) fn numbered(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.numbered)
    }

    /// Assigns numbers to new processes, and releases those of processes that have exited or changed their
    /// names.
    fn update_processes(
        &mut self,
        walk: &mut Walk,
        scan: &Scan,
        slice: &TimeSlice,
        now_ns: u64,
    ) -> Result<()> {
        let had_unnumbered = !self.unnumbered.is_empty();
        if self.due.is_empty() && now_ns.saturating_sub(self.rules_ns) >= RULES_NS {
            self.rules_ns = now_ns;
            self.due =
                self.numbers.processes().chain(self.without_budget.iter().copied()).collect();
        }
        self.note_readers(walk, scan, slice)?;
        let alive = self.receiving_processes(scan);
        self.expire(walk, &alive)?;
        for (process, thread) in alive {
            self.match_process(walk, process, thread, slice)?;
        }
        self.report_full(!had_unnumbered && !self.unnumbered.is_empty());
        let default = self.numbers.number_of_rule(self.strictest_rule());
        walk.publish_numbers(if self.unnumbered.is_empty() { 0 } else { default })
    }

    /// Adds processes that read a socket since the last call. A partial scan does not show all sockets: then these
    /// processes count as well.
    fn note_readers(&mut self, walk: &Walk, scan: &Scan, slice: &TimeSlice) -> Result<()> {
        if !scan.partial {
            (self.readers, self.any_reads) = (BTreeMap::new(), false);
        }
        let walks = walk.thread_walks();
        match walk.new_readers(slice)? {
            Some(pids) => self.readers.extend(pids.into_iter().map(|pid| (pid, walks))),
            None => self.any_reads = true,
        }
        Ok(())
    }

    /// The processes of a scan that receive packets, each with its first thread.
    fn receiving_processes<'s>(&self, scan: &'s Scan) -> BTreeMap<Process, &'s Thread> {
        let receivers: HashSet<u32> = scan.sockets.iter().map(|socket| socket.pid).collect();
        let receives = |thread: &&Thread| {
            let WaitingThread { process, tid } = thread.waiter;
            let reads = || receivers.contains(&tid) || self.readers.contains_key(&tid);
            process.pid == tid && (self.any_reads || reads())
        };
        let threads = scan.threads.iter().filter(receives);
        threads.map(|thread| (thread.waiter.process, thread)).collect()
    }

    /// Releases processes that have exited.
    fn expire(&mut self, walk: &mut Walk, alive: &BTreeMap<Process, &Thread>) -> Result<()> {
        let walks = walk.thread_walks();
        // The next complete walk may have missed a new process; the one after it does not.
        self.readers.retain(|pid, noted| {
            let [first, last] = [0, u32::MAX].map(|start_ticks| Process { pid: *pid, start_ticks });
            walks.wrapping_sub(*noted) < 2 || alive.range(first..=last).next().is_some()
        });
        self.without_budget.retain(|process| alive.contains_key(process));
        self.due.retain(|process| alive.contains_key(process));
        let gone: Vec<Process> =
            self.numbers.processes().filter(|process| !alive.contains_key(process)).collect();
        for process in gone {
            self.release(walk, process)?;
        }
        Ok(())
    }

    /// Gives a process the budget of its rule, if it is new or due.
    fn match_process(
        &mut self,
        walk: &mut Walk,
        process: Process,
        thread: &Thread,
        slice: &TimeSlice,
    ) -> Result<()> {
        let is_new = self.numbers.get(process).is_none() && !self.without_budget.contains(&process);
        if !is_new && (slice.is_over() || !self.due.remove(&process)) {
            return Ok(());
        }
        // The scan reports the name of its thread, also where /proc is restricted, or there is no time to read
        // it now.
        let described = if slice.is_over() {
            self.due.insert(process);
            None
        } else {
            describe(process)
        };
        let command = described.as_ref().map_or(&thread.name, |about| &about.command);
        let cgroup = described.as_ref().and_then(|about| about.cgroup.as_ref());
        let user = Some(thread.user);
        let properties = ProcessProperties { command: Some(command), cgroup, user };
        let rule = Rule::of(&self.rules, properties);
        let mut rule = rule.map(|rule| (rule, group(self.rules[rule].per, process, properties)));
        let has_number = self.numbers.get(process).is_some();
        if !has_number && described.is_none() {
            // It exits: its group is that of its parent.
            rule = self.inherited(walk, process)?.or(rule);
        }
        if has_number {
            if self.keeps_number(process, rule.as_ref()) {
                return Ok(());
            }
            self.release(walk, process)?;
        }
        self.without_budget.remove(&process);
        match rule {
            Some(rule) => self.assign_budget(walk, process, command, rule)?,
            None => {
                // It may have the number of its parent, which no rule gives it.
                if has_number || is_new && walk.inherited_number(process)?.is_some() {
                    self.numbered.push(process.pid);
                }
                walk.remove_number(process.pid)?;
                self.without_budget.insert(process);
            }
        }
        Ok(())
    }

    /// Whether the number of a process is still that of its rule and group.
    fn keeps_number(&self, process: Process, rule: Option<&(usize, Group)>) -> bool {
        let Some((rule, group)) = rule else { return false };
        if self.unnumbered.contains(&process) {
            return !self.table_has_room();
        }
        self.numbers.is_current(process, *rule, group)
    }

    /// The rule and group that a process had from its parent when it started.
    fn inherited(&self, walk: &Walk, process: Process) -> Result<Option<(usize, Group)>> {
        let number = walk.inherited_number(process)?;
        Ok(number.and_then(|number| self.numbers.group_of(number)))
    }

    /// The rule whose budget is the default limit.
    fn strictest_rule(&self) -> usize {
        let strictest = (0..self.rules.len()).min_by_key(|at| self.rules[*at].budget.ns_per_s);
        strictest.unwrap_or_default()
    }

    fn table_has_room(&self) -> bool {
        self.processes.len() - self.unnumbered.len() < self.table_size
    }

    /// Emits an event when the first process has to share a limit, and one when the kernel's table has
    /// become full.
    fn report_full(&mut self, table_became_full: bool) {
        let numbered = self.processes.iter().filter(|(one, _)| !self.unnumbered.contains(one));
        let (shared, own): (Vec<_>, Vec<_>) = numbered.partition(|(_, one)| one.usage.shared);
        if !shared.is_empty() && !self.limits_full {
            self.events.push(Event::LimitsFull { processes: own.len() as u64 });
        }
        self.limits_full = !shared.is_empty();
        if table_became_full {
            let processes = (shared.len() + own.len()) as u64;
            self.events.push(Event::TableFull { processes });
        }
    }

    /// Gives a process the budget of a rule, or the default limit where the kernel's table is full: there
    /// its sockets have the number of all processes without an entry.
    fn assign_budget(
        &mut self,
        walk: &mut Walk,
        process: Process,
        command: &Octets,
        (rule, group): (usize, Group),
    ) -> Result<()> {
        let shared_by = group.to_string();
        let grouped = !matches!(group, Group::Process(_));
        let mut assigned = self.numbers.assign(process, rule, group);
        if !walk.number(process, assigned.number, grouped)? {
            self.numbers.release(process);
            assigned = self.numbers.share(process, self.strictest_rule());
            self.unnumbered.insert(process);
        }
        self.numbered.push(process.pid);
        let number = assigned.number;
        let budget = self.rules[assigned.rule].budget;
        if !self.meters.contains_key(&number) {
            self.limiter.set_budget(number, budget);
        }
        let count = self.limiter.count(number)?;
        let meter = || LimitMeter { budget, meter: Meter::new(budget), last: count };
        self.meters.entry(number).or_insert_with(meter);
        let usage = Usage {
            process,
            command: command.to_string(),
            budget,
            group: grouped.then_some(shared_by),
            shared: self.numbers.is_shared(number),
            caused_ns_per_s: 0,
            limit: Limit::None,
            dropped: 0,
        };
        self.processes.insert(process, BudgetedProcess { usage, dropped_before: count.dropped });
        Ok(())
    }

    fn release(&mut self, walk: &mut Walk, process: Process) -> Result<()> {
        self.processes.remove(&process);
        self.unnumbered.remove(&process);
        let Some(assigned) = self.numbers.release(process) else { return Ok(()) };
        // That of several processes outlives each of them.
        if self.numbers.is_free(assigned.number) {
            self.remove_limit(assigned.number);
        }
        walk.remove_number(process.pid)
    }

    fn remove_limit(&mut self, number: u32) {
        self.meters.remove(&number);
        self.limiter.remove_budget(number);
    }
}

/// The processes with which a process shares its budget. If they are unknown, these are all of the rule.
fn group(per: BudgetScope, process: Process, properties: ProcessProperties<'_>) -> Group {
    let ProcessProperties { command, cgroup, user } = properties;
    let known = match per {
        BudgetScope::Process => Some(Group::Process(process)),
        BudgetScope::Command => command.cloned().map(Group::Command),
        BudgetScope::Cgroup => cgroup.cloned().map(Group::Cgroup),
        BudgetScope::User => user.map(Group::User),
        BudgetScope::Rule => None,
    };
    known.unwrap_or(Group::Rule)
}

/// Time that processes caused by packets of a namespace's devices and sockets that they read.
fn caused(accounts: &Accounts, netns: u32) -> HashMap<Process, Amount> {
    let mut sums: HashMap<Process, Amount> = HashMap::new();
    for (cause, amount) in &accounts.caused {
        match cause {
            Cause::Process { process, device, by: Attribution::Reader }
                if device.netns == netns =>
            {
                sums.entry(*process).or_default().add(*amount);
            }
            _ => {}
        }
    }
    sums
}

#[cfg(test)]
mod tests;

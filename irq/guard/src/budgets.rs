//! Budgets: compares the softirq time that processes cause with their budgets, and limits processes that exceed them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use super::TimeSlice;
use super::candidates::{Scan, WaitingThread};
use super::config::{Config, ProcessProperties, Rule};
use super::event::{Event, Usage};
use super::limiter::{Count, Limiter};
use super::numbers::Numbers;
use super::walk::Walk;
use crate::Result;
use onbeat_irq::names::describe;
use onbeat_irq::{Meter as Ledger, Tracer};
use onbeat_irq_core::charge::{Accounts, Amount, Attribution, Cause, Process};
use onbeat_irq_core::names::Octets;
use onbeat_irq_core::policy::{Limit, Meter};

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
        let limiter = Limiter::new(&walk.numbers_of_sockets(), config.drop_at)?;
        let tracer = match config.ledger_rows {
            Some(rows) => Tracer::start_with_rows(rows)?,
            None => Tracer::start()?,
        };
        let ledger = Ledger::new(tracer);
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
            limits_full: false,
            complete: true,
            events: Vec::new(),
            last_ns: now_ns,
            rules_ns: now_ns,
        })
    }

    /// Limits packets on these devices.
    pub(super) fn set_devices(&mut self, devices: &[u32]) -> Result<()> {
        self.limiter.set_devices(devices)
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

    /// Applies a scan, with rules for as many processes as `slice` allows; sets limits at the end of an
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
        interval.resolve(|cookie| self.ledger.tracer().owner(cookie));
        let (interval_ns, unrecorded_ns) = (interval.length_ns(), interval.unrecorded_ns);
        if self.complete && unrecorded_ns > 0 {
            self.events.push(Event::LedgerFull { unrecorded_ns });
        }
        self.complete = unrecorded_ns == 0;

        let by_process = caused(&interval.total(), self.netns);
        let mut by_number: HashMap<u32, Amount> = HashMap::new();
        for (process, budgeted) in &mut self.processes {
            let caused = by_process.get(process).copied().unwrap_or_default();
            budgeted.usage.caused_ns_per_s =
                (u128::from(caused.ns) * 1_000_000_000 / u128::from(interval_ns.max(1))) as u64;
            if let Some(assigned) = self.numbers.get(*process) {
                by_number.entry(assigned.number).or_default().add(caused);
            }
        }
        let mut limits: HashMap<u32, (Limit, u64)> = HashMap::new();
        for (number, metered) in &mut self.meters {
            let caused = by_number.get(number).copied().unwrap_or_default();
            let count = self.limiter.count(*number)?;
            let dropped = count.dropped - metered.last.dropped;
            metered.last = count;
            let limit = metered.meter.observe(interval_ns, caused, dropped, self.complete);
            self.limiter.limit(*number, limit)?;
            limits.insert(*number, (limit, count.dropped));
        }
        for (process, budgeted) in &mut self.processes {
            let assigned = self.numbers.get(*process);
            if let Some(&(limit, dropped)) = assigned.and_then(|one| limits.get(&one.number)) {
                budgeted.usage.limit = limit;
                budgeted.usage.dropped = dropped - budgeted.dropped_before;
            }
        }
        Ok(())
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
        // A partial scan does not show all sockets: then the processes that read any count as well.
        if !scan.partial {
            (self.readers, self.any_reads) = (BTreeMap::new(), false);
        }
        let walks = walk.thread_walks();
        match walk.new_readers(slice)? {
            Some(pids) => self.readers.extend(pids.into_iter().map(|pid| (pid, walks))),
            None => self.any_reads = true,
        }
        let receivers: HashSet<u32> = scan.sockets.iter().map(|socket| socket.pid).collect();
        let alive: BTreeMap<Process, &Octets> = scan
            .threads
            .iter()
            .filter(|thread| {
                let WaitingThread { process, tid } = thread.waiter;
                let reads = || receivers.contains(&tid) || self.readers.contains_key(&tid);
                process.pid == tid && (self.any_reads || reads())
            })
            .map(|thread| (thread.waiter.process, &thread.name))
            .collect();
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
        for (process, name) in alive {
            let known = self.numbers.get(process);
            let is_known = known.is_some() || self.without_budget.contains(&process);
            if is_known && (slice.is_over() || !self.due.remove(&process)) {
                continue;
            }
            // The scan reports the name of its thread, also where /proc is restricted, or there is no time
            // to read it now.
            let described = if slice.is_over() {
                self.due.insert(process);
                None
            } else {
                describe(process)
            };
            let command = described.as_ref().map_or(name, |about| &about.command);
            let cgroup = described.as_ref().and_then(|about| about.cgroup.as_ref());
            let rule = Rule::of(&self.rules, ProcessProperties { command: Some(command), cgroup });
            if let Some(known) = known {
                let stays = if self.unnumbered.contains(&process) {
                    rule.is_some() && !self.table_has_room()
                } else {
                    rule == Some(known.rule) && !self.numbers.can_have_own_number(known)
                };
                if stays {
                    continue;
                }
                self.release(walk, process)?;
            }
            self.without_budget.remove(&process);
            match rule {
                Some(rule) => self.assign_budget(walk, process, command, rule)?,
                None => drop(self.without_budget.insert(process)),
            }
        }
        self.report_full(!had_unnumbered && !self.unnumbered.is_empty());
        let default = self.numbers.number_of_rule(self.strictest_rule());
        walk.publish_numbers(if self.unnumbered.is_empty() { 0 } else { default })
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
        rule: usize,
    ) -> Result<()> {
        let mut assigned = self.numbers.assign(process, rule);
        if !walk.number(process.pid, assigned.number)? {
            self.numbers.release(process);
            assigned = self.numbers.share(process, self.strictest_rule());
            self.unnumbered.insert(process);
        }
        let number = assigned.number;
        let budget = self.rules[assigned.rule].budget;
        let count = self.limiter.count(number)?;
        let meter = || LimitMeter { meter: Meter::new(budget), last: count };
        self.meters.entry(number).or_insert_with(meter);
        let usage = Usage {
            process,
            command: command.to_string(),
            budget,
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
        // A shared limit outlives each process that has it.
        if !self.numbers.is_shared(assigned.number) {
            self.meters.remove(&assigned.number);
            self.limiter.limit(assigned.number, Limit::None)?;
        }
        walk.remove_number(process.pid)
    }
}

/// Time that processes caused by packets of a namespace's devices and sockets that they read. Other packets do not
/// count against a budget: a limit applies only to sockets with a reader.
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
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use libbpf_rs::{MapCore, MapFlags};
    use onbeat_netdev::{Handle, Namespace};
    use onbeat_testing::{Feature, require_all};

    use onbeat_irq_core::policy::Budget;

    use super::*;
    use crate::Thread;
    use onbeat_irq_core::charge::{Device, Owner};
    use onbeat_irq_core::policy::Rank;

    /// Budgets of all processes, and a socket on the loopback of the namespace.
    struct World {
        walk: Walk,
        budgets: Budgets,
        socket: UdpSocket,
    }

    impl World {
        /// `None` if the kernel does not support budgets.
        fn new() -> Option<Self> {
            if !require_all(&[Feature::Root, Feature::Btf, Feature::Kernel(6, 6)]) {
                return None;
            }
            let namespace = Namespace::new().unwrap();
            let open = || {
                Handle::open().unwrap().set_up("lo").unwrap();
                UdpSocket::bind("127.0.0.1:0").unwrap()
            };
            let socket = namespace.run(open).unwrap();
            socket.connect(socket.local_addr().unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let rule = Rule { command: None, cgroup: None, budget: Budget { ns_per_s: 1_000 } };
            let config = Config { budgets: vec![rule], ..Config::of(vec!["lo".to_owned()]) };
            let netns = namespace.inode() as u32;
            let walk = Walk::new(netns, &config).unwrap();
            let budgets = Budgets::new(&config, netns, &walk, 0).unwrap();
            Some(Self { walk, budgets, socket })
        }

        fn step(&mut self, scan: &Scan, slice: Duration) {
            let Self { walk, budgets, .. } = self;
            budgets.step(walk, scan, &TimeSlice::new(slice), 0).unwrap();
        }

        /// Reads a packet in a child process, which then exits.
        fn read_in_child(&self) {
            self.socket.send(&[0]).unwrap();
            let stdin = OwnedFd::from(self.socket.try_clone().unwrap());
            let mut head = Command::new("head");
            head.args(["-c", "1"]).stdin(stdin).stdout(Stdio::null());
            assert!(head.status().unwrap().success());
        }

        /// Reads a packet; returns the number that the socket has then.
        fn read(&self) -> Option<u32> {
            self.socket.send(&[0]).unwrap();
            self.socket.recv(&mut [0]).unwrap();
            let [slots, _] = self.walk.numbers_of_sockets();
            let number = slots.lookup(&self.socket.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
            number.unwrap().map(|octets| u32::from_ne_bytes(octets.try_into().unwrap()))
        }
    }

    /// A scan that includes this process, and none of its files yet.
    fn partial_scan() -> Scan {
        let process = onbeat_irq::names::process(std::process::id()).unwrap();
        let waiter = WaitingThread { process, tid: process.pid };
        let thread = Thread { waiter, rank: Rank::Normal { nice: 0 }, name: "test".into() };
        Scan { sockets: Vec::new(), threads: vec![thread], partial: true }
    }

    #[test]
    fn a_socket_has_the_number_of_its_reader_before_a_scan_shows_it() {
        let Some(mut world) = World::new() else { return };
        let scan = partial_scan();
        let WaitingThread { process, .. } = scan.threads[0].waiter;
        assert_eq!(world.read(), None);
        world.step(&scan, Duration::MAX);
        let assigned = world.budgets.numbers.get(process).unwrap().number;
        assert_eq!(world.read(), Some(assigned));
        // Another number, and that of all processes without one.
        assert!(world.walk.number(process.pid, 9).unwrap());
        world.walk.publish_numbers(0).unwrap();
        assert_eq!(world.read(), Some(9));
        world.walk.remove_number(process.pid).unwrap();
        world.walk.publish_numbers(7).unwrap();
        assert_eq!(world.read(), Some(7));
    }

    /// Also if no walk over files ever completes, which other users can cause.
    #[test]
    fn dead_readers_are_released_while_scans_are_partial() {
        let Some(mut world) = World::new() else { return };
        let mut scan = Scan::default();
        let mut step = |world: &mut World| {
            world.walk.scan(Duration::MAX, |_| false, &mut scan).unwrap();
            scan.partial = true;
            world.step(&scan, Duration::MAX);
        };
        // This process lives.
        world.read();
        for _ in 0..3 {
            world.read_in_child();
            step(&mut world);
        }
        (0..2).for_each(|_| step(&mut world));
        let readers = &world.budgets.readers;
        assert!(readers.keys().eq(&[std::process::id()]), "{readers:?}");
    }

    #[test]
    fn without_time_for_all_new_readers_all_processes_count() {
        let Some(mut world) = World::new() else { return };
        (0..2).for_each(|_| world.read_in_child());
        let mut scan = partial_scan();
        world.step(&scan, Duration::ZERO);
        assert!(world.budgets.any_reads);
        assert_eq!(world.budgets.processes.len(), 1);
        scan.partial = false;
        world.step(&scan, Duration::MAX);
        assert!(!world.budgets.any_reads);
        assert_eq!(world.budgets.processes.len(), 0);
    }

    #[test]
    fn packets_of_unread_sockets_do_not_count_against_a_budget() {
        let (reader, woken) =
            (Process { pid: 1, start_ticks: 1 }, Process { pid: 2, start_ticks: 2 });
        let device = Device { netns: 7, index: 2 };
        let amount = Amount { ns: 100, packets: 1 };
        let socket = |cookie| (Cause::Socket { cookie, device }, amount);
        let mut accounts =
            Accounts { caused: [socket(1), socket(2)].into(), ..Accounts::default() };
        accounts.resolve(|cookie| match cookie {
            1 => Some(reader.into()),
            _ => Some(Owner { process: woken, by: Attribution::Owner }),
        });
        assert_eq!(caused(&accounts, 7), [(reader, amount)].into());
        assert_eq!(caused(&accounts, 8), HashMap::new());
    }
}

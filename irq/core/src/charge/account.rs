//! Sums of softirq time.

use std::collections::BTreeMap;

use super::{Attribution, Cause, Interrupt, InterruptAmount, Owner, Process, ReceiveQueue, Runner};

/// Time and packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Nanoseconds.
    pub ns: u64,
    /// Packets as the protocols see them: after GRO.
    pub packets: u64,
}

impl Amount {
    /// Nanoseconds for each packet; `None` without packets.
    #[must_use]
    pub fn ns_per_packet(self) -> Option<f64> {
        (self.packets != 0).then(|| self.ns as f64 / self.packets as f64)
    }

    /// Adds another amount to this one.
    pub fn add(&mut self, other: Amount) {
        self.ns += other.ns;
        self.packets += other.packets;
    }

    /// The part added since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Amount) -> Amount {
        Amount {
            ns: self.ns.saturating_sub(earlier.ns),
            packets: self.packets.saturating_sub(earlier.packets),
        }
    }
}

/// The accounts of one CPU, or of several together.
///
/// `caused` and `suffered` each add up to `measured_ns`: `caused` by the purpose of the time, `suffered` by the
/// interrupted task. In the same way `interrupts` and `interrupted` each add up to `hardirq_ns`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Softirq time by cause.
    pub caused: BTreeMap<Cause, Amount>,
    /// The same time by the task it interrupted, in nanoseconds.
    pub suffered: BTreeMap<Runner, u64>,
    /// The part of it in polls of devices with several receive queues, by queue.
    pub queues: BTreeMap<ReceiveQueue, Amount>,
    /// All softirq time, in nanoseconds, without the hard interrupts within.
    pub measured_ns: u64,
    /// Hard interrupt time by interrupt.
    pub interrupts: BTreeMap<Interrupt, InterruptAmount>,
    /// The same time by the interrupted task, in nanoseconds.
    pub interrupted: BTreeMap<Runner, u64>,
    /// All hard interrupt time, in nanoseconds. No process causes it.
    pub hardirq_ns: u64,
}

impl Accounts {
    /// Time caused by processes, and by sockets that will have a reader, in nanoseconds.
    #[must_use]
    pub fn owned_ns(&self) -> u64 {
        self.sum(|cause| !matches!(cause, Cause::Unowned(_)))
    }

    /// Time without an owner, in nanoseconds.
    #[must_use]
    pub fn unowned_ns(&self) -> u64 {
        self.sum(|cause| matches!(cause, Cause::Unowned(_)))
    }

    fn sum(&self, of: impl Fn(&Cause) -> bool) -> u64 {
        self.caused.iter().filter(|(cause, _)| of(cause)).map(|(_, amount)| amount.ns).sum()
    }

    /// Time that ran on processes' time, in nanoseconds.
    #[must_use]
    pub fn suffered_by_processes_ns(&self) -> u64 {
        let of_process = |runner: &Runner| matches!(runner, Runner::Process(_));
        self.suffered.iter().filter(|(runner, _)| of_process(runner)).map(|(_, ns)| ns).sum()
    }

    /// The largest difference between one of the two sides and the measured time, in nanoseconds. Zero while no softirq
    /// runs, unless events were lost.
    #[must_use]
    pub fn imbalance_ns(&self) -> u64 {
        let caused = self.owned_ns() + self.unowned_ns();
        let suffered = self.suffered.values().sum::<u64>();
        caused.abs_diff(self.measured_ns).max(suffered.abs_diff(self.measured_ns))
    }

    /// The same of hard interrupts.
    #[must_use]
    pub fn interrupt_imbalance_ns(&self) -> u64 {
        let of = self.interrupts.values().map(|amount| amount.ns).sum::<u64>();
        let on = self.interrupted.values().sum::<u64>();
        of.abs_diff(self.hardirq_ns).max(on.abs_diff(self.hardirq_ns))
    }

    /// The error of the kernel's system time of a process, in nanoseconds: caused less suffered,
    /// with hard interrupts, which the kernel charges to the interrupted process too. Added to that
    /// time it is the paper's compensation, exact instead of in ticks. Estimates do not count.
    #[must_use]
    pub fn compensation_ns(&self, process: Process) -> i64 {
        let is_its = |cause: &Cause| match cause {
            Cause::Process { process: of, by, .. } => {
                *of == process && *by != Attribution::Estimate
            }
            _ => false,
        };
        let lost_ns = self.suffered_ns(process) + self.interrupted_ns(process);
        self.sum(is_its) as i64 - lost_ns as i64
    }

    /// The processes that caused or suffered, in any order, some several times.
    pub fn processes(&self) -> impl Iterator<Item = Process> {
        let caused = self.caused.keys().filter_map(|cause| match cause {
            Cause::Process { process, .. } => Some(*process),
            _ => None,
        });
        let suffered = self.suffered.keys().filter_map(|runner| match runner {
            Runner::Process(process) => Some(*process),
            _ => None,
        });
        caused.chain(suffered)
    }

    /// Time that ran on a process's time, in nanoseconds.
    #[must_use]
    pub fn suffered_ns(&self, process: Process) -> u64 {
        self.suffered.get(&Runner::Process(process)).copied().unwrap_or(0)
    }

    /// Hard interrupt time on a process's time, in nanoseconds.
    #[must_use]
    pub fn interrupted_ns(&self, process: Process) -> u64 {
        self.interrupted.get(&Runner::Process(process)).copied().unwrap_or(0)
    }

    /// Adds the accounts of another CPU.
    pub fn add(&mut self, other: &Accounts) {
        for (cause, amount) in &other.caused {
            self.caused.entry(*cause).or_default().add(*amount);
        }
        for (interrupt, amount) in &other.interrupts {
            self.interrupts.entry(*interrupt).or_default().add(*amount);
        }
        for (queue, amount) in &other.queues {
            self.queues.entry(*queue).or_default().add(*amount);
        }
        add(&mut self.suffered, &other.suffered);
        add(&mut self.interrupted, &other.interrupted);
        self.measured_ns += other.measured_ns;
        self.hardirq_ns += other.hardirq_ns;
    }

    /// The difference to an earlier snapshot; lines without a change are omitted.
    #[must_use]
    pub fn since(&self, earlier: &Accounts) -> Accounts {
        let caused = self.caused.iter().map(|(cause, amount)| {
            let before = earlier.caused.get(cause).copied().unwrap_or_default();
            (*cause, amount.since(before))
        });
        let queues = self.queues.iter().map(|(queue, amount)| {
            let before = earlier.queues.get(queue).copied().unwrap_or_default();
            (*queue, amount.since(before))
        });
        let interrupts = self.interrupts.iter().map(|(interrupt, amount)| {
            let before = earlier.interrupts.get(interrupt).copied().unwrap_or_default();
            (*interrupt, amount.since(before))
        });
        Accounts {
            caused: caused.filter(|(_, amount)| *amount != Amount::default()).collect(),
            suffered: since(&self.suffered, &earlier.suffered),
            queues: queues.filter(|(_, amount)| *amount != Amount::default()).collect(),
            interrupts: interrupts
                .filter(|(_, amount)| *amount != InterruptAmount::default())
                .collect(),
            interrupted: since(&self.interrupted, &earlier.interrupted),
            measured_ns: self.measured_ns.saturating_sub(earlier.measured_ns),
            hardirq_ns: self.hardirq_ns.saturating_sub(earlier.hardirq_ns),
        }
    }

    /// Moves the charges of sockets to their owners, once these are known.
    pub fn resolve(&mut self, owner: impl Fn(u64) -> Option<Owner>) {
        let sockets: Vec<Cause> =
            self.caused.keys().filter(|c| matches!(c, Cause::Socket { .. })).copied().collect();
        for cause in sockets {
            let Cause::Socket { cookie, device } = cause else { continue };
            let Some(owner) = owner(cookie) else { continue };
            let amount = self.caused.remove(&cause).unwrap_or_default();
            self.caused.entry(owner.cause(device)).or_default().add(amount);
        }
    }

    pub(super) fn charge(&mut self, cause: Cause, ns: u64, packets: u64) {
        if ns != 0 || packets != 0 {
            self.caused.entry(cause).or_default().add(Amount { ns, packets });
        }
    }

    pub(super) fn charge_queue(&mut self, queue: Option<ReceiveQueue>, amount: Amount) {
        if let Some(queue) = queue.filter(|_| amount != Amount::default()) {
            self.queues.entry(queue).or_default().add(amount);
        }
    }

    pub(super) fn interrupt(&mut self, interrupt: Interrupt, runner: Runner, ns: u64) {
        self.interrupts.entry(interrupt).or_default().add(InterruptAmount { ns, count: 1 });
        if ns != 0 {
            *self.interrupted.entry(runner).or_default() += ns;
        }
        self.hardirq_ns += ns;
    }

    pub(super) fn suffer(&mut self, runner: Runner, ns: u64) {
        if ns != 0 {
            *self.suffered.entry(runner).or_default() += ns;
        }
    }
}

fn add(sums: &mut BTreeMap<Runner, u64>, others: &BTreeMap<Runner, u64>) {
    for (runner, ns) in others {
        *sums.entry(*runner).or_default() += ns;
    }
}

fn since(now: &BTreeMap<Runner, u64>, earlier: &BTreeMap<Runner, u64>) -> BTreeMap<Runner, u64> {
    let before = |runner| earlier.get(runner).copied().unwrap_or_default();
    let new = now.iter().map(|(runner, ns)| (*runner, ns.saturating_sub(before(runner))));
    new.filter(|(_, ns)| *ns != 0).collect()
}

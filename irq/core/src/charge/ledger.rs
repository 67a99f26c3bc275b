//! Computes the accounts of a CPU from its events.
//!
//! ```text
//!  softirq, or a running NAPI thread
//!  ├───────────┬───────────┬────────┬───────┬────────────┬─────────────┤
//!  enter       arrive      deliver  deliver poll end     poll end      exit
//!   driver, GRO  protocols   packet   tail,   the next      loop
//!   (shared)     (shared)    (own)    driver  poll
//! ```
//! A hard interrupt within is cut out. A softirq that a NAPI thread runs between two polls is a run of its own, on
//! that thread's time.

use std::collections::BTreeMap;

use super::poll::Poll;
use super::{Accounts, Cause, Class, Event, EventKind, Interrupt, Runner, Softirq};

/// A NAPI thread without competition runs for as long as packets arrive. After this much of its run, in
/// nanoseconds, both sides of the accounts are updated although it still runs.
const LONG_RUN_NS: u64 = 100_000;

/// Maintains the accounts of all CPUs from a sequence of events.
///
/// Events of one CPU are in the order of their times; those of several CPUs may be interleaved in any way. If a
/// tracer starts or loses events in the middle of a run, only that run is lost: time without a start is not
/// charged.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    cpus: BTreeMap<u32, Cpu>,
}

impl Ledger {
    /// Returns an empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies an event.
    pub fn record(&mut self, event: &Event) {
        self.cpus.entry(event.cpu).or_default().record(event.time_ns, event.kind);
    }

    /// The accounts of each CPU with events.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &Accounts)> {
        self.cpus.iter().map(|(number, cpu)| (*number, &cpu.accounts))
    }

    /// The accounts of all CPUs together.
    #[must_use]
    pub fn total(&self) -> Accounts {
        let mut total = Accounts::default();
        self.cpus.values().for_each(|cpu| total.add(&cpu.accounts));
        total
    }
}

/// The state of a CPU.
#[derive(Debug, Clone, Default)]
struct Cpu {
    accounts: Accounts,
    /// Whether a NAPI thread runs.
    thread: bool,
    thread_since_ns: u64,
    softirq: Option<Softirq>,
    /// The nesting depth of hard interrupts, and the start of the outermost.
    hardirqs: u32,
    hardirq_since_ns: u64,
    /// The current run: a softirq, or a period of a NAPI thread without one.
    run_since_ns: u64,
    run_ns: u64,
    /// The time of the last event.
    mark_ns: u64,
    poll: Poll,
}

impl Cpu {
    fn record(&mut self, time_ns: u64, kind: EventKind) {
        // The CPU's own time does not advance in hard interrupts.
        let now = time_ns.saturating_sub(self.accounts.hardirq_ns);
        match kind {
            EventKind::ThreadIn => self.thread_in(now),
            EventKind::ThreadOut { ran_ns } => self.thread_out(now, ran_ns),
            EventKind::SoftirqEnter(vector) => self.softirq_enter(now, vector),
            EventKind::SoftirqExit(vector, runner) => self.softirq_exit(now, vector, runner),
            EventKind::HardirqEnter => self.hardirq_enter(time_ns),
            EventKind::HardirqExit(interrupt, runner) => {
                self.hardirq_exit(time_ns, interrupt, runner);
            }
            EventKind::Skip(skipped) => self.poll.skip(skipped),
            _ if !self.receives() => {}
            EventKind::Arrive { packets, .. } => self.poll.arrive(packets),
            EventKind::Announce(packets) => self.poll.announce(packets),
            EventKind::Deliver { cause, packets } => {
                let ns = self.point(now);
                self.poll.deliver(cause, packets, ns, &mut self.accounts);
            }
            EventKind::Count { cause, packets } => {
                self.poll.count(cause, packets, &mut self.accounts)
            }
            EventKind::Free => self.poll.free(),
            EventKind::Pass => {
                let ns = self.point(now);
                self.poll.pass(ns, &mut self.accounts);
            }
            EventKind::Tap(cause) => {
                let ns = self.point(now);
                self.poll.tap(cause, ns, &mut self.accounts);
            }
            EventKind::PollEnd { device, polled } => {
                let ns = self.point(now);
                self.poll.end(device, polled, ns, &mut self.accounts);
                if self.softirq.is_none() && self.run_ns >= LONG_RUN_NS {
                    self.poll.settle(&mut self.accounts);
                    self.settle(now, Runner::NapiThread);
                }
            }
        }
    }

    /// Whether events are part of packet reception in softirq context: system calls and hard interrupts pass
    /// the same points.
    fn receives(&self) -> bool {
        let vector = match self.softirq {
            Some(vector) => vector == Softirq::NetRx,
            None => self.thread,
        };
        vector && self.hardirqs == 0
    }

    fn begin(&mut self, now: u64) {
        self.run_since_ns = now;
        self.run_ns = 0;
        self.mark_ns = now;
        self.hardirqs = 0;
    }

    /// Returns the time since the last event.
    fn point(&mut self, now: u64) -> u64 {
        let ns = now.saturating_sub(self.mark_ns);
        self.mark_ns = now;
        self.run_ns += ns;
        ns
    }

    /// Charges the run until now to `runner`.
    ///
    /// Time held for packets in GRO belongs to the next poll.
    fn settle(&mut self, now: u64, runner: Runner) {
        let held_ns = self.poll.held_ns();
        let until = now.saturating_sub(held_ns);
        self.accounts.suffer(runner, self.run_ns.saturating_sub(held_ns));
        self.accounts.measured_ns += until.saturating_sub(self.run_since_ns);
        self.run_since_ns = until;
        self.run_ns = held_ns;
    }

    fn end(&mut self, now: u64, runner: Runner) {
        let ns = self.point(now);
        match self.softirq {
            None | Some(Softirq::NetRx) => self.poll.finish(ns, &mut self.accounts),
            Some(other) => self.accounts.charge(Cause::Unowned(Class::Softirq(other)), ns, 0),
        }
        self.settle(now, runner);
    }

    fn thread_in(&mut self, now: u64) {
        self.abandon();
        self.thread = true;
        self.thread_since_ns = now;
        self.begin(now);
    }

    fn thread_out(&mut self, now: u64, ran_ns: u64) {
        if self.thread && self.softirq.is_none() {
            // The switch to the thread is charged to its packets too.
            let end = if ran_ns == 0 { now } else { self.thread_since_ns + ran_ns };
            self.end(end.max(self.mark_ns), Runner::NapiThread);
        }
        self.abandon();
        self.thread = false;
    }

    fn softirq_enter(&mut self, now: u64, vector: Softirq) {
        if self.thread && self.softirq.is_none() {
            self.end(now, Runner::NapiThread);
        }
        self.abandon();
        self.softirq = Some(vector);
        self.begin(now);
    }

    fn softirq_exit(&mut self, now: u64, vector: Softirq, runner: Runner) {
        if self.softirq == Some(vector) {
            self.end(now, runner);
        }
        self.abandon();
        if self.thread {
            self.begin(now);
        }
    }

    /// Drops a run whose end was not observed.
    fn abandon(&mut self) {
        self.poll.reset();
        self.softirq = None;
    }

    fn hardirq_enter(&mut self, time_ns: u64) {
        if self.hardirqs == 0 {
            self.hardirq_since_ns = time_ns;
        }
        self.hardirqs += 1;
    }

    fn hardirq_exit(&mut self, time_ns: u64, interrupt: Interrupt, runner: Runner) {
        // None: the tracer started in the middle of it.
        if self.hardirqs == 1 {
            let ns = time_ns.saturating_sub(self.hardirq_since_ns);
            self.accounts.interrupt(interrupt, runner, ns);
        }
        self.hardirqs = self.hardirqs.saturating_sub(1);
    }
}

//! One measurement: a task and a server on a CPU that receives packets.

use std::sync::atomic::Ordering::Relaxed;

use onbeat_irq::Tracer;
use onbeat_irq_core::TICK_NS;
use onbeat_irq_core::charge::tick::{Compensation, GAMMA, InterruptsPerTick};
use onbeat_irq_core::charge::{Accounts, Amount, Cause, Process};
use onbeat_realtime::clock::{SECOND, now_ns};
use onbeat_realtime::interrupt::pause_until;
use onbeat_realtime::{Profile, Scheduling};

use super::actors::{Actor, TaskSchedule};
use super::board::Board;
use super::client::{Pattern, Sender};
use super::rig::{Rig, Side, StormLink};
use crate::{Error, Result};

/// The priority of the task, as in the paper.
pub(super) const TASK_PRIORITY: u8 = 50;
/// The priority of the thread that reads the ledger at each tick.
const READER_PRIORITY: u8 = 2;
/// Time until processes have their CPU and priority, and the guard has detected waiting processes.
const SETTLE_NS: u64 = 150_000_000;

/// Mode of the task in a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Task {
    /// It computes continuously.
    Busy,
    /// It has a job of this much work in each period.
    Periodic { period_ns: u64, work_ns: u64, records_steal: bool },
}

/// Durations of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    /// Working time of the task: 100 s in the paper.
    pub(super) work_ns: u64,
    /// Sleeping time of the task: 10 s in the paper.
    pub(super) sleep_ns: u64,
}

/// Result of a measurement.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StormResult {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Work of the task, in time without interruption.
    pub(super) worked_ns: u64,
    /// Time of the task: by the kernel, corrected by the paper's algorithm, corrected by the ledger.
    pub(super) kernel_ns: f64,
    pub(super) by_ticks_ns: f64,
    pub(super) by_ledger_ns: f64,
    /// Softirq time charged to the task.
    pub(super) suffered_ns: u64,
    pub(super) jobs: u64,
    pub(super) in_time: u64,
    /// Jobs that were late by recorded CPU steal.
    pub(super) stolen: u64,
    /// Missing time in the CPU's accounts, and the whole measured time.
    pub(super) imbalance_ns: u64,
    pub(super) measured_ns: u64,
}

impl StormResult {
    /// Late jobs with another cause than recorded CPU steal.
    pub(super) fn missed(&self) -> u64 {
        self.jobs.saturating_sub(self.in_time + self.stolen)
    }

    /// Whether the task got no CPU time, by the kernel's accounts.
    pub(super) fn is_starved(&self) -> bool {
        self.worked_ns == 0 && self.kernel_ns == 0.0
    }
}

/// Starts a ledger, and measures the time around hard interrupts between the CPUs.
pub(super) fn start_ledger(cpus: [u16; 2]) -> Result<Tracer> {
    let mut tracer = Tracer::start()?;
    let measured = std::thread::scope(|scope| {
        let measure = || {
            let _both = Profile::default().on_cpus(cpus.into_iter().collect()).enter()?;
            Ok(tracer.measure_interrupt_entry()?)
        };
        scope.spawn(measure).join().expect("it does not panic")
    });
    measured.map(|()| tracer)
}

/// Measures: the ledger from the client's CPU, all others on the server's. Without a pattern no packets are sent.
pub(super) fn measure(
    rig: &Rig,
    tracer: &Tracer,
    side: Side,
    cpus: [u16; 2],
    task: Task,
    length: Length,
    pattern: Option<Pattern>,
) -> Result<StormResult> {
    let [of_client, cpu] = cpus;
    let board = Board::new()?;
    let from_ns = now_ns() + SETTLE_NS;
    let to_ns = from_ns + length.work_ns;
    let work = match task {
        Task::Busy => TaskSchedule::Steady { from_ns, to_ns },
        Task::Periodic { period_ns, work_ns, records_steal } => {
            TaskSchedule::Periodic { from_ns, to_ns, period_ns, work_ns, records_steal }
        }
    };
    let (receives, sends) = rig.sockets(side, StormLink::Storm)?;
    let server = Actor::server(&board, receives)?;
    let worker = Actor::task(&board, work)?;
    server.resume(if side == Side::Control { of_client } else { cpu }, 0)?;
    worker.resume(cpu, TASK_PRIORITY)?;
    let processes = [worker.process()?, server.process()?];
    let mut ledger = Ledger::new(tracer, cpu, processes)?;
    let end_ns = to_ns + length.sleep_ns;
    let received_before = board.received.load(Relaxed);
    let sender =
        pattern.map(|pattern| Sender::start(sends, pattern, from_ns..end_ns)).transpose()?;
    // Processes beside it would lengthen the measurement: threads that exist already do not inherit this.
    let _ahead = Profile::default().scheduled(Scheduling::Fifo(READER_PRIORITY)).enter()?;
    pause_until(from_ns, || ())?;
    let mut next = from_ns;
    // Only the paper's account of the task's time requires each tick, whose reading takes time of the sender's CPU.
    while matches!(task, Task::Busy) && next < to_ns {
        next += TICK_NS;
        pause_until(next, || ())?;
        ledger.tick(tracer, board.busy.load(Relaxed))?;
    }
    // Packets in flight at the stop are in no account.
    pause_until(end_ns, || ())?;
    let sent = sender.map(Sender::end).unwrap_or(0);
    let received = board.received.load(Relaxed) - received_before;
    ledger.tick(tracer, false)?;

    let kernel_ns = (worker.ticks()? * TICK_NS) as f64;
    let accounts = ledger.since_start();
    let suffered_ns = accounts.suffered_ns(processes[0]);
    let jobs = match task {
        Task::Busy => 0,
        Task::Periodic { period_ns, .. } => length.work_ns / period_ns,
    };
    Ok(StormResult {
        sent,
        received,
        worked_ns: board.worked_ns.load(Relaxed),
        kernel_ns,
        by_ticks_ns: kernel_ns + ledger.ticks(processes[0]) as f64 * TICK_NS as f64,
        by_ledger_ns: kernel_ns + accounts.compensation_ns(processes[0]) as f64,
        suffered_ns,
        jobs,
        in_time: board.in_time.load(Relaxed),
        stolen: board.stolen.load(Relaxed),
        imbalance_ns: accounts.imbalance_ns(),
        measured_ns: accounts.measured_ns,
    })
}

/// The ledger of a CPU, read at ticks, together with the paper's algorithm.
struct Ledger {
    cpu: usize,
    processes: [Process; 2],
    start: Accounts,
    last: Accounts,
    per_tick: InterruptsPerTick,
    compensation: Compensation<Process>,
}

impl Ledger {
    fn new(tracer: &Tracer, cpu: u16, processes: [Process; 2]) -> Result<Self> {
        let per_tick = InterruptsPerTick::new(GAMMA, TICK_NS).expect("the constants are in range");
        let compensation = Compensation::new();
        let (start, last) = Default::default();
        let cpu = cpu.into();
        let mut ledger = Self { cpu, processes, start, last, per_tick, compensation };
        ledger.start = ledger.read(tracer)?;
        ledger.last = ledger.start.clone();
        Ok(ledger)
    }

    fn read(&self, tracer: &Tracer) -> Result<Accounts> {
        let mut accounts = tracer.accounts()?.swap_remove(self.cpu);
        accounts.resolve(|cookie| tracer.owner(cookie));
        Ok(accounts)
    }

    fn since_start(&self) -> Accounts {
        self.last.since(&self.start)
    }

    /// Time of a process by the paper's algorithm.
    fn ticks(&self, process: Process) -> i64 {
        self.compensation.balance(&process).ticks
    }

    /// Records a clock tick; `busy`: the task was working.
    fn tick(&mut self, tracer: &Tracer, busy: bool) -> Result<()> {
        let now = self.read(tracer)?;
        let since = now.since(&self.last);
        self.last = now;
        let [task, server] = self.processes;
        let sum = |of: fn(&Amount) -> u64| {
            since.caused.values().filter(|amount| amount.packets > 0).map(of).sum::<u64>()
        };
        let packets = sum(|amount| amount.packets);
        self.per_tick.measure(packets, sum(|amount| amount.ns));
        self.compensation.handle(packets);
        for (cause, amount) in &since.caused {
            if let Cause::Process { process, .. } = cause {
                self.compensation.deliver(*process, amount.packets);
            }
        }
        let running = if busy { task } else { server };
        self.compensation.tick(running, self.per_tick.interrupts().unwrap_or(u32::MAX));
        Ok(())
    }
}

/// Measures the maximum number of datagrams per second.
pub(super) fn top_rate(rig: &Rig, side: Side, cpu: u16, for_ns: u64) -> Result<u64> {
    let board = Board::new()?;
    let (receives, sends) = rig.sockets(side, StormLink::Storm)?;
    let server = Actor::server(&board, receives)?;
    server.resume(cpu, 0)?;
    let start = now_ns();
    let sender = Sender::start(sends, Pattern::FlatOut, start..u64::MAX)?;
    pause_until(start + for_ns, || ())?;
    let sent = sender.end();
    let rate = sent as f64 * SECOND as f64 / (now_ns() - start) as f64;
    if board.received.load(Relaxed) == 0 {
        return Err(Error::Invalid("no datagram that was sent was received".into()));
    }
    Ok(rate as u64)
}

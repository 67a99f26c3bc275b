//! A task that spins at real-time priority: the share of its time that it loses is the share that it suffers.

use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq::{Meter, Tracer};
use onbeat_irq_core::charge::{Accounts, Interrupt, IpiReason, IpiSender, Process, Softirq};
use onbeat_testing::require_that;

use crate::harness::{Flow, World, possible, process};
use crate::judge::turn;

/// The CPU of the victim; packets are sent from the other one.
const CPU: usize = 1;

/// A longer gap between two clock readings is an interrupt; a gap of this length is another task.
const INTERRUPT: Duration = Duration::from_nanos(300);
const TASK: Duration = Duration::from_millis(10);

/// A process that reads the clock on one CPU, before all normal tasks.
struct Victim {
    pid: Pid,
    time: &'static Time,
}

/// Its time, by its own clock, in nanoseconds.
#[derive(Debug)]
struct Time {
    /// Without that of other tasks.
    all_ns: AtomicU64,
    lost_ns: AtomicU64,
}

impl Time {
    fn now(&self) -> [f64; 2] {
        [&self.all_ns, &self.lost_ns].map(|counter| counter.load(Ordering::Relaxed) as f64)
    }
}

impl Victim {
    fn start() -> Self {
        // SAFETY: a new page, which no other code has.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(page, libc::MAP_FAILED);
        // SAFETY: the page is never unmapped, larger than the counters, and full of zeros.
        let time = unsafe { &*page.cast::<Time>() };
        // SAFETY: the child only makes system calls and computes.
        let pid = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => spin(time),
        };
        Self { pid, time }
    }

    fn process(&self) -> Process {
        process(self.pid.as_raw() as u32)
    }
}

fn spin(time: &Time) -> ! {
    let mut one = CpuSet::new();
    let highest = libc::sched_param { sched_priority: 50 };
    let pinned = one.set(CPU).and_then(|()| sched_setaffinity(Pid::from_raw(0), &one)).is_ok();
    // SAFETY: the parameters live through the call.
    let first = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const highest) } == 0;
    // SAFETY: the child dies with the thread that started it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if !pinned || !first {
        // SAFETY: nothing runs after it.
        unsafe { libc::_exit(1) };
    }
    let add = |counter: &AtomicU64, gap: Duration| {
        counter.store(counter.load(Ordering::Relaxed) + gap.as_nanos() as u64, Ordering::Relaxed);
    };
    let (mut last, mut shortest) = (Instant::now(), TASK);
    loop {
        let now = Instant::now();
        let gap = now - last;
        last = now;
        shortest = shortest.min(gap);
        if gap < TASK {
            add(&time.all_ns, gap);
            if gap >= INTERRUPT {
                add(&time.lost_ns, gap - shortest);
            }
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// A period of the victim: shares of its time.
#[derive(Debug)]
struct Period {
    lost: f64,
    suffered: f64,
    softirqs: f64,
    /// Within the time that CPUs continue while they are read.
    balanced: bool,
    accounts: Accounts,
}

impl Period {
    /// The share that it lost otherwise: CPU steal.
    fn stolen(&self) -> f64 {
        self.lost - self.suffered
    }
}

fn period(victim: &Victim, meter: &mut Meter, load: impl FnOnce()) -> Period {
    meter.read().unwrap();
    let before = victim.time.now();
    load();
    let after = victim.time.now();
    let accounts = meter.read().unwrap().total();
    let balanced = accounts.interrupt_imbalance_ns() <= accounts.hardirq_ns / 20 + 500_000;
    let [all_ns, lost_ns] = [0, 1].map(|counter| after[counter] - before[counter]);
    let process = victim.process();
    let softirqs = accounts.suffered_ns(process) as f64 / all_ns;
    Period {
        lost: lost_ns / all_ns,
        suffered: softirqs + accounts.interrupted_ns(process) as f64 / all_ns,
        softirqs,
        balanced,
        accounts,
    }
}

/// Makes a CPU process the packets of r0.
fn receive_on(world: &World, cpu: usize) {
    let set = || fs::write("/sys/class/net/r0/queues/rx-0/rps_cpus", format!("{:x}", 1 << cpu));
    world.receiver.namespace().run_with_sysfs(set).unwrap().unwrap();
}

/// Sends datagrams at a rate, or without a pause.
fn send(flow: &Flow, per_s: u32, length: Duration) {
    let (begun, mut sent) = (Instant::now(), 0);
    while begun.elapsed() < length {
        while begun.elapsed() * per_s < Duration::from_secs(1) * sent {
            std::hint::spin_loop();
        }
        flow.send(1, 64);
        sent += 1;
    }
}

/// Packets arrive by interrupts of another CPU (RPS), and are processed on the victim's time.
#[test]
fn a_spinning_victim_suffers_what_it_loses() {
    const LENGTH: Duration = Duration::from_millis(500);
    const ROUNDS: usize = 20;
    const ERROR: f64 = 0.02;
    const QUIET: f64 = 0.01;
    const JUDGED: usize = 5;
    let cpus = thread::available_parallelism().unwrap().get();
    if !possible() || !require_that(cpus > CPU, "two CPUs") {
        return;
    }
    let _turn = turn();
    let world = World::new(false);
    let flow = world.flow();
    flow.pass(10, 64);
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut first = CpuSet::new();
    first.set(0).unwrap();
    for per_s in [20_000, u32::MAX] {
        let mut errors = Vec::new();
        let right = (0..ROUNDS).any(|_| {
            // Its measurements require both CPUs.
            sched_setaffinity(Pid::from_raw(0), &all).unwrap();
            let mut tracer = Tracer::start().unwrap();
            tracer.measure_interrupt_entry().unwrap();
            let mut meter = Meter::new(tracer);
            sched_setaffinity(Pid::from_raw(0), &first).unwrap();
            let victim = Victim::start();
            let mut period = |cpu| {
                receive_on(&world, cpu);
                period(&victim, &mut meter, || send(&flow, per_s, LENGTH))
            };
            // Before and after it, the same packets are for the CPU that sends them.
            let [alone, loaded, again] = [period(0), period(CPU), period(0)];
            let balanced = [&alone, &loaded, &again].iter().all(|period| period.balanced);
            let stolen = [alone.stolen(), again.stolen()];
            let lost = loaded.lost - (stolen[0] + stolen[1]) / 2.0;
            let Period { suffered, softirqs, .. } = loaded;
            println!("lost {lost:.3}, suffered {suffered:.3}, by softirqs {softirqs:.3}; stolen {stolen:.3?}");
            if (stolen[0] - stolen[1]).abs() > QUIET {
                return false;
            }
            assert_rps(&loaded.accounts);
            errors.push(suffered - lost);
            balanced && (suffered - lost).abs() <= ERROR
        });
        if !right && errors.len() < JUDGED {
            println!("not measured: {} of {ROUNDS} rounds with the same CPU steal", errors.len());
            continue;
        }
        assert!(right, "suffered less lost, in quiet ones of {ROUNDS} rounds: {errors:.3?}");
    }
}

/// Packets of another CPU arrive by interrupts, which its softirq sends, and not the task that it interrupts.
fn assert_rps(accounts: &Accounts) {
    let sender = IpiSender::Softirq(Softirq::NetRx);
    let rps = Interrupt::Ipi { reason: IpiReason::Rps, sender };
    assert!(accounts.interrupts.contains_key(&rps), "{accounts:?}");
}

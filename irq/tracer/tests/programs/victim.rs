//! A task that spins at real-time priority: the share of its work that it loses is the share that it suffers.

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

/// A process that counts its work on one CPU, before all normal tasks.
struct Victim {
    pid: Pid,
    work: &'static AtomicU64,
}

/// Work done, and run time by the scheduler.
#[derive(Debug, Clone, Copy)]
struct Progress {
    work: u64,
    ran_ns: u64,
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
        // SAFETY: the page is never unmapped, and larger than the counter.
        let work = unsafe { &*page.cast::<AtomicU64>() };
        // SAFETY: the child only makes system calls and computes.
        let pid = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => spin(work),
        };
        Self { pid, work }
    }

    fn process(&self) -> Process {
        process(self.pid.as_raw() as u32)
    }

    fn progress(&self) -> Progress {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).unwrap();
        let ran_ns = text.split_whitespace().next().unwrap().parse().unwrap();
        Progress { work: self.work.load(Ordering::Relaxed), ran_ns }
    }
}

fn spin(work: &AtomicU64) -> ! {
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
    let mut value = 1u64;
    loop {
        for _ in 0..64 {
            value = std::hint::black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value >> 31);
        }
        work.store(work.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

/// A period of the victim.
#[derive(Debug)]
struct Period {
    /// Units of work for each nanosecond of its run time.
    speed: f64,
    /// Shares of its run time.
    suffered: f64,
    softirqs: f64,
    accounts: Accounts,
}

fn period(victim: &Victim, meter: &mut Meter, load: impl FnOnce()) -> Period {
    meter.read().unwrap();
    let before = victim.progress();
    load();
    let after = victim.progress();
    let accounts = meter.read().unwrap().total();
    // CPUs continue while they are read.
    let allowed_ns = accounts.hardirq_ns / 20 + 500_000;
    assert!(accounts.interrupt_imbalance_ns() <= allowed_ns, "{accounts:?}");
    let ran_ns = (after.ran_ns - before.ran_ns) as f64;
    let process = victim.process();
    let softirqs = accounts.suffered_ns(process) as f64 / ran_ns;
    Period {
        speed: (after.work - before.work) as f64 / ran_ns,
        suffered: softirqs + accounts.interrupted_ns(process) as f64 / ran_ns,
        softirqs,
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
    const QUIET: f64 = 0.02;
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
            // The same packets, for the CPU that sends them: both may share a core.
            let [alone, loaded, again] = [period(0), period(CPU), period(0)];
            let lost = 1.0 - loaded.speed / alone.speed;
            let suffered = 1.0 - (1.0 - loaded.suffered) / (1.0 - alone.suffered);
            let change = again.speed / alone.speed - 1.0;
            println!(
                "lost {lost:.3}, suffered {suffered:.3}, by softirqs {:.3}; alone again: {change:+.3}",
                loaded.softirqs
            );
            // Other programs, and CPU steal, slow the victim in one of the periods.
            if lost < 0.05 || change.abs() > QUIET {
                return false;
            }
            assert_rps(&loaded.accounts);
            errors.push(suffered - lost);
            (suffered - lost).abs() <= ERROR
        });
        assert!(right, "suffered less lost, in quiet ones of {ROUNDS} rounds: {errors:.3?}");
    }
}

/// Packets of another CPU arrive by interrupts, which its softirq sends, and not the task that it interrupts.
fn assert_rps(accounts: &Accounts) {
    let sender = IpiSender::Softirq(Softirq::NetRx);
    let rps = Interrupt::Ipi { reason: IpiReason::Rps, sender };
    assert!(accounts.interrupts.contains_key(&rps), "{accounts:?}");
}

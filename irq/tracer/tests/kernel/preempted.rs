//! Softirqs and polls in tasks that others preempt, as PREEMPT_RT permits: the time of the others is not charged.
//!
//! ```text
//!   CPU   ├ softirq ┤├──── disturber, SCHED_FIFO 50 ────┤├ the same softirq ┤
//! ```

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use onbeat_irq::Tracer;

use crate::harness::{World, caused, possible, this_process, total};

const LENGTH: Duration = Duration::from_millis(400);

/// The disturber leaves a tenth of the CPU.
const RUNS: Duration = Duration::from_micros(900);
const SLEEPS: Duration = Duration::from_micros(100);

/// Packets sent at once.
const PACKETS: u32 = 100;

#[test]
fn a_preempted_softirq_is_charged_its_own_time() {
    if possible() {
        disturb(&World::with_napi(), None);
    }
}

#[test]
fn a_preempted_poll_is_charged_its_own_time() {
    if possible() {
        let world = World::new(true);
        disturb(&world, Some(world.thread()));
    }
}

/// Passes packets that the last CPU receives, in its NAPI thread or on the sender's time.
fn disturb(world: &World, thread: Option<u32>) {
    let flow = world.flow();
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpu = (0..CpuSet::count()).rfind(|cpu| allowed.is_set(*cpu).unwrap()).unwrap();
    if let Some(thread) = thread {
        pin(thread, cpu);
    }
    let tracer = Tracer::start().unwrap();
    let over = AtomicBool::new(false);
    let measured_ns = || tracer.accounts().unwrap()[cpu].measured_ns;
    let (begun, before_ns) = (Instant::now(), measured_ns());
    let (packets, disturber_ns) = thread::scope(|scope| {
        let disturber = scope.spawn(|| run_most_of_the_time(cpu, &over));
        let sender = scope.spawn(|| {
            if thread.is_none() {
                pin(0, cpu);
            }
            let mut packets = 0;
            while begun.elapsed() < LENGTH {
                flow.pass(PACKETS, 64);
                packets += PACKETS;
            }
            over.store(true, Ordering::Relaxed);
            packets
        });
        (sender.join().unwrap(), disturber.join().unwrap())
    });
    if thread.is_some() {
        world.wait_idle();
    }
    let charged = caused(&total(&tracer), this_process(), world.device()).packets;
    assert_eq!(charged, u64::from(packets));
    let (softirqs_ns, elapsed_ns) = (measured_ns() - before_ns, begun.elapsed().as_nanos() as u64);
    assert!(
        softirqs_ns + disturber_ns <= elapsed_ns + elapsed_ns / 20,
        "softirqs {softirqs_ns} ns, disturber {disturber_ns} ns, of {elapsed_ns} ns"
    );
}

/// Pins a thread to a CPU; 0: the calling one.
fn pin(thread: u32, cpu: usize) {
    let mut one = CpuSet::new();
    one.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(thread as i32), &one).unwrap();
}

/// Returns its run time by the scheduler, in nanoseconds.
fn run_most_of_the_time(cpu: usize, over: &AtomicBool) -> u64 {
    pin(0, cpu);
    let priority = libc::sched_param { sched_priority: 50 };
    // SAFETY: the parameters live through the call.
    let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    while !over.load(Ordering::Relaxed) {
        let until = Instant::now() + RUNS;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        thread::sleep(SLEEPS);
    }
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

//! Measures the time of a hard interrupt that no tracepoint covers: from the interrupted task to the handler, and
//! back. On a virtual machine most of it passes in the hypervisor.
//!
//! ```text
//!   spinner  reads the clock ──┐ gap ┌── reads the clock ──┐ gap ┌──
//!                              │ ┌─┐ │                     │ ┌─┐ │
//!                              └─┘ └─┘ handler             └─┘ └─┘     entry = mean gap - handler
//!   sender   membarrier ───────┴─────── membarrier ────────┴────────
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::Tracer;
use crate::error::Result;
use crate::names;
use onbeat_irq_core::charge::{Interrupt, InterruptAmount, IpiReason, IpiSender};

/// Wanted interrupts, the time between two of them, and the maximum time of the measurement.
const WANTED: usize = 400;
const BETWEEN: Duration = Duration::from_micros(20);
const BOUND: Duration = Duration::from_millis(100);

/// Attempts to get enough interrupts.
const ATTEMPTS: usize = 3;

/// Fewer interrupts than this are no evidence.
const LEAST: usize = 50;

/// A shorter gap has no interrupt.
const SHORTEST_NS: u64 = 300;

/// In a gap of more than this many medians another task ran.
const LONGEST: u64 = 4;

/// include/uapi/linux/membarrier.h
const REGISTER: libc::c_int = 1 << 8;
const ON_ONE_CPU: (libc::c_int, libc::c_uint) = (1 << 7, 1);

/// Measures the mean time in nanoseconds. `None`: this process has no two CPUs, or the kernel does not permit it.
pub(super) fn measure(tracer: &Tracer) -> Result<Option<u64>> {
    let Some([from, to]) = two_cpus() else { return Ok(None) };
    // On a busy machine the thread may not get its CPU at first.
    for _ in 0..ATTEMPTS {
        let measured = attempt(tracer, from, to)?;
        if measured.is_some() {
            return Ok(measured);
        }
    }
    Ok(None)
}

fn attempt(tracer: &Tracer, from: usize, to: usize) -> Result<Option<u64>> {
    let before = own_calls(tracer)?;
    let gaps = gaps(from, to);
    let calls = own_calls(tracer)?.since(before);
    let handler_ns = calls.ns.checked_div(calls.count);
    Ok(handler_ns.and_then(|ns| Some(mean_ns(gaps)?.saturating_sub(ns))))
}

/// The mean of gaps with the whole interrupt and without another task.
fn mean_ns(mut gaps: Vec<u64>) -> Option<u64> {
    gaps.sort_unstable();
    let median = *gaps.get(gaps.len() / 2).filter(|_| gaps.len() >= LEAST)?;
    gaps.retain(|ns| (median / 2..=LONGEST * median).contains(ns));
    Some(gaps.iter().sum::<u64>() / gaps.len() as u64)
}

fn two_cpus() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true));
    Some([cpus.next()?, cpus.next()?])
}

/// The interrupts that this process sent.
fn own_calls(tracer: &Tracer) -> Result<InterruptAmount> {
    let mut sum = InterruptAmount::default();
    let Some(this) = names::process(std::process::id()) else { return Ok(sum) };
    let own = Interrupt::Ipi { reason: IpiReason::Call, sender: IpiSender::Process(this) };
    for accounts in tracer.accounts()? {
        sum.add(accounts.interrupts.get(&own).copied().unwrap_or_default());
    }
    Ok(sum)
}

/// The gaps between two clock readings in which the CPU `to` was interrupted, in nanoseconds. Empty where the kernel
/// cannot send such interrupts.
fn gaps(from: usize, to: usize) -> Vec<u64> {
    let (spins, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let deadline = Instant::now() + BOUND;
    let spinner = || {
        let mut gaps = Vec::with_capacity(WANTED);
        pin(to);
        spins.store(true, Ordering::Release);
        let mut last = Instant::now();
        while gaps.len() < WANTED && !ends.load(Ordering::Acquire) {
            let now = Instant::now();
            let ns = (now - last).as_nanos() as u64;
            last = now;
            if ns >= SHORTEST_NS {
                gaps.push(ns);
            }
        }
        ends.store(true, Ordering::Release);
        gaps
    };
    let sender = || {
        pin(from);
        let mut sends = barrier(REGISTER, 0, 0);
        while !spins.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        while sends && !ends.load(Ordering::Acquire) && Instant::now() < deadline {
            let next = Instant::now() + BETWEEN;
            sends = barrier(ON_ONE_CPU.0, ON_ONE_CPU.1, to as libc::c_int);
            while Instant::now() < next {
                std::hint::spin_loop();
            }
        }
        ends.store(true, Ordering::Release);
        sends
    };
    std::thread::scope(|scope| {
        let (spinner, sender) = (scope.spawn(spinner), scope.spawn(sender));
        let sent = sender.join().unwrap_or(false);
        spinner.join().ok().filter(|_| sent).unwrap_or_default()
    })
}

fn pin(cpu: usize) {
    let mut one = CpuSet::new();
    // On another CPU there are fewer gaps than LEAST.
    let _ = one.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &one));
}

/// Interrupts the CPU, if a thread of this process runs there.
fn barrier(command: libc::c_int, flags: libc::c_uint, cpu: libc::c_int) -> bool {
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_gaps_without_another_task() {
        let mut gaps = vec![1000; LEAST];
        assert_eq!(mean_ns(gaps[1..].to_vec()), None, "too few");
        gaps.extend([2020, 4_000_000, 400]);
        assert_eq!(mean_ns(gaps), Some(1020));
        assert_eq!(mean_ns(Vec::new()), None);
    }
}

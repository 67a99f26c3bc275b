//! CPUs that this thread may use, and CPUs that receive packets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use onbeat_host::{Holder, Lock, PrivateDirectory};
use onbeat_netdev::Namespace;
use onbeat_realtime::CpuSet as Cpus;
use onbeat_realtime::clock::now_ns;
use onbeat_realtime::interrupt::pause_until;

use crate::{Error, Result};

/// The CPUs that the calling thread may use, ascending; at least one.
///
/// # Errors
/// An error of the kernel.
pub fn usable() -> Result<Vec<u16>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| Error::io("read the CPUs that may be used", errno))?;
    let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    Ok(cpus.filter_map(|cpu| u16::try_from(cpu).ok()).collect())
}

/// Rejects a CPU that is not among those `usable`.
pub(crate) fn check(option: &'static str, cpu: usize, usable: &[u16]) -> Result<()> {
    if usable.iter().any(|known| usize::from(*known) == cpu) {
        return Ok(());
    }
    let list: Vec<String> = usable.iter().map(ToString::to_string).collect();
    let reason = format!("CPUs that may be used: {}", list.join(", "));
    Err(Error::Option { option, value: cpu.to_string(), reason })
}

/// A lock on a CPU, for a measurement that fills it with real-time tasks: of two such tasks with one
/// priority, the kernel runs the second when the first sleeps.
#[derive(Debug)]
pub(crate) struct CpuLock {
    _lock: Lock,
}

impl CpuLock {
    /// Directory of the locks.
    const DIRECTORY: &str = "/run/onbeat/cpus";
    /// Interval between two attempts.
    const RETRY_NS: u64 = 100_000_000;

    /// Takes the lock; waits for its holder, at most for `bound`, and reports the holder to `waits` once.
    /// `what` describes this process to others.
    pub(crate) fn take(
        cpu: u16,
        what: &str,
        bound: Duration,
        waits: impl FnOnce(&Holder),
    ) -> Result<Self> {
        let directory = PrivateDirectory::create(Path::new(Self::DIRECTORY))?;
        Self::take_in(&directory, cpu, what, bound, waits)
    }

    fn take_in(
        directory: &PrivateDirectory,
        cpu: u16,
        what: &str,
        bound: Duration,
        waits: impl FnOnce(&Holder),
    ) -> Result<Self> {
        let deadline = now_ns() + bound.as_nanos() as u64;
        let mut waits = Some(waits);
        loop {
            let holder = match Lock::take(directory, &format!("{cpu}.lock"), what) {
                Ok(lock) => return Ok(Self { _lock: lock }),
                Err(onbeat_host::Error::Locked { holder, .. }) => holder,
                Err(error) => return Err(error.into()),
            };
            if now_ns() >= deadline {
                return Err(Error::CpuInUse { cpu, holder, seconds: bound.as_secs_f64() });
            }
            if let Some(waits) = waits.take() {
                waits(&holder);
            }
            pause_until(now_ns() + Self::RETRY_NS, || ())?;
        }
    }
}

/// Makes these CPUs process received packets of a namespace's interfaces in softirq (RPS), as if a NIC
/// had its interrupts there.
pub(crate) fn steer(namespace: &Namespace, interfaces: &[&str], cpus: &Cpus) -> Result<()> {
    let mask = mask(cpus);
    namespace.run_with_sysfs(|| {
        for interface in interfaces {
            let path = rps_file(interface);
            fs::write(&path, &mask)
                .map_err(|error| Error::io(format!("write {mask} to {path}"), error))?;
        }
        Ok(())
    })?
}

/// The CPUs of RPS of an interface's first queue, below a sysfs of its network namespace.
pub(crate) fn rps_file(interface: &str) -> String {
    format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus")
}

/// CPUs in the format of the kernel's masks: words of 32 bits, the highest first.
pub(crate) fn mask(cpus: &Cpus) -> String {
    let words = cpus.iter().last().map_or(1, |last| usize::from(last / 32) + 1);
    let mut mask = vec![0_u32; words];
    for cpu in cpus.iter() {
        mask[usize::from(cpu / 32)] |= 1 << (cpu % 32);
    }
    let mut words = mask.iter().rev();
    let highest = words.next().map_or(String::new(), |word| format!("{word:x}"));
    words.fold(highest, |text, word| format!("{text},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use onbeat_testing::TemporaryDirectory;

    use super::*;

    #[test]
    fn masks_have_the_kernel_format() {
        for (cpus, expected) in [
            ("0", "1"),
            ("31", "80000000"),
            ("33", "2,00000000"),
            ("0-1,64", "1,00000000,00000003"),
        ] {
            assert_eq!(mask(&cpus.parse().unwrap()), expected);
        }
    }

    #[test]
    fn a_locked_cpu_makes_others_wait_for_its_holder() {
        let temporary = TemporaryDirectory::new("cpus");
        let directory = PrivateDirectory::create(temporary.path()).unwrap();
        let take = |cpu, ms, waits: &mut dyn FnMut(&Holder)| {
            CpuLock::take_in(&directory, cpu, "a test", Duration::from_millis(ms), waits)
        };
        let first = take(1, 0, &mut |_| panic!("no process has it")).unwrap();
        let _other = take(2, 0, &mut |_| panic!("no process has it")).unwrap();
        let expected = format!(
            "CPU 1 cannot be used: process {} (a test) runs real-time tasks there, and did not exit \
             within 0 s; stop it, or choose other CPUs with taskset",
            std::process::id()
        );
        let error = take(1, 0, &mut |_| panic!("a bound of 0 does not wait")).unwrap_err();
        assert_eq!(error.to_string(), expected);
        // The holder exits while the second process waits.
        let (mut first, mut holders) = (Some(first), Vec::new());
        let second = take(1, 60_000, &mut |holder| {
            holders.push(holder.to_string());
            drop(first.take());
        });
        assert!(second.is_ok(), "{second:?}");
        assert_eq!(holders, [format!("process {} (a test)", std::process::id())]);
    }

    #[test]
    fn at_least_one_cpu_is_usable_and_others_are_rejected() {
        let usable = usable().unwrap();
        assert!(usable.is_sorted() && check("cpu", usable[0].into(), &usable).is_ok());
        let refusal = check("cpu", 7, &[0, 3]).unwrap_err().to_string();
        assert_eq!(refusal, "cpu 7 cannot be used here: CPUs that may be used: 0, 3");
    }
}

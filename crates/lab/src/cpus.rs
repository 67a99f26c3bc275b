//! The CPUs that this thread may use, and those on which packets are received.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use onbeat_netdev::Namespace;
use onbeat_realtime::CpuSet as Cpus;

use crate::{Error, Result};

/// The CPUs that the calling thread may use, ascending; at least one.
///
/// # Errors
/// What the kernel says.
pub fn usable() -> Result<Vec<u16>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| Error::io("ask which CPUs may be used", errno))?;
    let cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    Ok(cpus.filter_map(|cpu| u16::try_from(cpu).ok()).collect())
}

/// Refuses a CPU that is not among those `usable`.
pub(crate) fn check(option: &'static str, cpu: usize, usable: &[u16]) -> Result<()> {
    if usable.iter().any(|known| usize::from(*known) == cpu) {
        return Ok(());
    }
    let list: Vec<String> = usable.iter().map(ToString::to_string).collect();
    let reason = format!("CPUs that may be used: {}", list.join(", "));
    Err(Error::Option { option, value: cpu.to_string(), reason })
}

/// Has what a namespace's interfaces receive be received in softirq on these CPUs (RPS), as if a NIC
/// had its interrupts there.
pub(crate) fn steer(namespace: &Namespace, interfaces: &[&str], cpus: &Cpus) -> Result<()> {
    let mask = mask(cpus);
    namespace.run_with_sysfs(|| {
        for interface in interfaces {
            let path = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
            fs::write(&path, &mask)
                .map_err(|error| Error::io(format!("write {mask} to {path}"), error))?;
        }
        Ok(())
    })?
}

/// CPUs as the kernel's masks have them: words of 32 bits, the highest first.
fn mask(cpus: &Cpus) -> String {
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
    use super::*;

    #[test]
    fn cpus_as_masks() {
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
    fn there_is_one_at_least_and_others_are_refused() {
        let usable = usable().unwrap();
        assert!(usable.is_sorted() && check("cpu", usable[0].into(), &usable).is_ok());
        let refusal = check("cpu", 7, &[0, 3]).unwrap_err().to_string();
        assert_eq!(refusal, "cpu 7 cannot be used here: CPUs that may be used: 0, 3");
    }
}

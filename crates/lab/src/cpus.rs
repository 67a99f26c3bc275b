//! The CPUs that this thread may use.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_at_least_and_others_are_refused() {
        let usable = usable().unwrap();
        assert!(usable.is_sorted() && check("cpu", usable[0].into(), &usable).is_ok());
        let refusal = check("cpu", 7, &[0, 3]).unwrap_err().to_string();
        assert_eq!(refusal, "cpu 7 cannot be used here: CPUs that may be used: 0, 3");
    }
}

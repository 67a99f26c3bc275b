//! CPU time accounting of this host.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};

use nix::unistd::{SysconfVar, sysconf};

/// Clock ticks of /proc/PID/stat in a second.
#[must_use]
pub fn user_hz() -> u64 {
    // Every Linux has 100 there.
    let known = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    known.and_then(|hz| u64::try_from(hz).ok()).unwrap_or(100)
}

/// Whether the kernel excludes interrupts and softirqs from processes' time (CONFIG_IRQ_TIME_ACCOUNTING);
/// `None` if its symbols are not readable.
#[must_use]
pub fn irq_time_accounting() -> Option<bool> {
    let symbols = BufReader::new(File::open("/proc/kallsyms").ok()?);
    let mut any = false;
    for line in symbols.lines() {
        any = true;
        if line.ok()?.ends_with(" irqtime_account_irq") {
            return Some(true);
        }
    }
    any.then_some(false)
}

/// The NUMA node of each CPU; empty if the kernel reports none.
#[must_use]
pub fn cpu_nodes() -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node")?.parse::<u32>().ok());
        let Some(node) = number else { continue };
        let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
        nodes.extend(cpu_list(&list).into_iter().map(|cpu| (cpu, node)));
    }
    nodes
}

/// Numbers and ranges of CPUs: `0-3,8`.
fn cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-2,7\n"), [0, 1, 2, 7]);
        assert!(cpu_list("\n").is_empty());
        assert_eq!(cpu_list("x,3"), [3]);
    }
}

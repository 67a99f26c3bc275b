//! CPU time accounting of this host.

use std::fs::File;
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

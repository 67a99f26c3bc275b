//! Locking of the process in memory.

use std::fs;
use std::sync::{Mutex, PoisonError};

use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};

use crate::{Error, Result};

/// Number of guards in this process: the last one unlocks the memory.
static GUARDS: Mutex<usize> = Mutex::new(0);

/// Locks all memory of the process in RAM, so that no access waits for a page (mlockall(2), present and
/// future pages).
///
/// Cost: all mappings of the process use RAM, whether used or not, including the stacks of its threads (8 MiB
/// each, by default). [`LockedMemory::octets`] returns the amount. Dropping it unlocks all memory, including
/// memory locked by other means.
#[derive(Debug)]
pub struct LockedMemory(());

impl LockedMemory {
    /// Locks the memory of this process.
    ///
    /// # Errors
    /// [`Error::System`]: CAP_IPC_LOCK is missing, or the limit is too low.
    pub fn lock() -> Result<Self> {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if *guards == 0 {
            mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).map_err(|errno| {
                Error::system(
                    "lock the memory of the process",
                    errno,
                    "run it as root (CAP_IPC_LOCK), or raise the limit above its mappings: ulimit -l",
                )
            })?;
        }
        *guards += 1;
        Ok(Self(()))
    }

    /// Returns the octets locked in RAM; 0 if /proc does not report them.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        locked(&status).unwrap_or(0)
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        *guards -= 1;
        if *guards == 0 {
            // Not reachable: unlocking requires no privilege.
            let _ = munlockall();
        }
    }
}

fn locked(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locked_memory_is_read_from_proc() {
        assert_eq!(locked("Name:\tx\nVmLck:\t    1024 kB\nVmPin: 0 kB"), Some(1024 * 1024));
        assert_eq!(locked("Name:\tx"), None);
    }
}

//! Keeping the process in memory.

use std::fs;
use std::sync::{Mutex, PoisonError};

use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};

use crate::{Error, Result};

/// Guards alive in this process: the last gives the memory back.
static GUARDS: Mutex<usize> = Mutex::new(0);

/// All memory of the process is in RAM and stays there: no access waits for a page (mlockall(2),
/// now and in future).
///
/// What it costs: everything that the process maps takes RAM whether it is used or not, the stacks
/// of its threads (8 MiB each, by default) among it. [`LockedMemory::octets`] says how much that
/// is. Drop unlocks all, also what the process had locked by other means.
#[derive(Debug)]
pub struct LockedMemory(());

impl LockedMemory {
    /// Locks the memory of this process.
    ///
    /// # Errors
    /// [`Error::System`]: without CAP_IPC_LOCK, where the limit is too low.
    pub fn lock() -> Result<Self> {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if *guards == 0 {
            mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE).map_err(|errno| {
                Error::system(
                    "lock the memory of the process",
                    errno,
                    "it takes CAP_IPC_LOCK (root), or a limit above what it maps: ulimit -l",
                )
            })?;
        }
        *guards += 1;
        Ok(Self(()))
    }

    /// Octets that are locked in RAM; 0 where /proc does not say.
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
            // It fails for no reason that a process could meet: unlocking takes no right.
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

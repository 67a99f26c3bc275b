//! The clock of a NIC.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::time::{ClockId, clock_gettime};

/// The clock of a NIC, /dev/ptpN, the source of its time stamps.
#[derive(Debug)]
pub struct NicClock(File);

impl NicClock {
    /// Opens the clock of this number, see [`Timestamping::phc`](crate::ethtool::Timestamping::phc).
    ///
    /// # Errors
    /// The device does not exist, or may not be read.
    pub fn open(number: u32) -> io::Result<Self> {
        File::open(format!("/dev/ptp{number}")).map(Self)
    }

    /// Returns the time, in nanoseconds.
    ///
    /// # Errors
    /// The NIC was removed.
    pub fn read(&self) -> io::Result<u64> {
        // FD_TO_CLOCKID of the kernel's documentation of dynamic clocks.
        let time = clock_gettime(ClockId::from_raw((!self.0.as_raw_fd() << 3) | 3))?;
        Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }
}

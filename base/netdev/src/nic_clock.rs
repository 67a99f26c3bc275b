//! The clock of a NIC.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::time::{ClockId, clock_gettime};

/// The clock of a NIC, /dev/ptpN, by which it stamps frames.
#[derive(Debug)]
pub struct NicClock(File);

impl NicClock {
    /// The clock of that number, which [`Timestamping::phc`](crate::ethtool::Timestamping::phc) tells.
    ///
    /// # Errors
    /// The device is not there, or may not be read.
    pub fn open(number: u32) -> io::Result<Self> {
        File::open(format!("/dev/ptp{number}")).map(Self)
    }

    /// What it shows, in nanoseconds.
    ///
    /// # Errors
    /// The NIC is gone.
    pub fn read(&self) -> io::Result<u64> {
        // FD_TO_CLOCKID of the kernel's documentation of dynamic clocks.
        let time = clock_gettime(ClockId::from_raw((!self.0.as_raw_fd() << 3) | 3))?;
        Ok(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }
}

//! Reading clocks.

use std::fs::File;
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use super::socket::check;
use crate::{Clock, Time};

/// What the launch clock shows.
pub(super) fn now(clock: Clock) -> Time {
    let id = if clock == Clock::Tai { libc::CLOCK_TAI } else { libc::CLOCK_MONOTONIC };
    // Clocks that every kernel has cannot fail.
    Time(read(id).unwrap_or_default())
}

/// The NIC's clock, /dev/ptpN.
#[derive(Debug)]
pub(super) struct NicClock(File);

impl NicClock {
    pub(super) fn open(number: u32) -> io::Result<Self> {
        File::open(format!("/dev/ptp{number}")).map(Self)
    }

    pub(super) fn read(&self) -> io::Result<u64> {
        // FD_TO_CLOCKID of the kernel's documentation of dynamic clocks.
        read((!self.0.as_raw_fd() << 3) | 3)
    }
}

fn read(clock: libc::clockid_t) -> io::Result<u64> {
    // SAFETY: timespec is plain data, for which zeros are a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the timespec lives through the call.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

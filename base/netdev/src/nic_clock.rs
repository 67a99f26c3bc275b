//! The clock of a NIC.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::time::{ClockId, clock_gettime};

/// Number of readings of [`NicClock::system_offset_ns`].
const READINGS: usize = 5;

/// `struct ptp_clock_time` of the kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ClockTime {
    seconds: i64,
    nanoseconds: u32,
    _reserved: u32,
}

/// `struct ptp_sys_offset_extended`: of each reading the time of the system, of the NIC, and of the system.
#[repr(C)]
#[derive(Debug, Default)]
struct SystemOffset {
    readings: u32,
    _reserved: [u32; 3],
    times: [[ClockTime; 3]; 25],
}

const _: () = assert!(size_of::<SystemOffset>() == 1216);

/// `PTP_SYS_OFFSET_EXTENDED`, which is `_IOWR('=', 9, struct ptp_sys_offset_extended)`.
const PTP_SYS_OFFSET_EXTENDED: u64 =
    3 << 30 | (size_of::<SystemOffset>() as u64) << 16 | (b'=' as u64) << 8 | 9;

impl ClockTime {
    fn ns(self) -> i64 {
        self.seconds.wrapping_mul(1_000_000_000).wrapping_add(self.nanoseconds.into())
    }
}

/// The offset of the NIC by the shortest reading, in whose middle the NIC is read.
fn shortest(readings: &[[ClockTime; 3]]) -> Option<i64> {
    let times = readings.iter().map(|reading| reading.map(ClockTime::ns));
    let best = times.min_by_key(|[before, _, after]| after.wrapping_sub(*before))?;
    let [before, nic, after] = best;
    Some(nic.wrapping_sub(before.wrapping_add(after.wrapping_sub(before) / 2)))
}

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

    /// Returns the time minus CLOCK_REALTIME, in nanoseconds, by readings of the kernel. A clock of PTP is ahead by the
    /// offset of TAI to UTC.
    ///
    /// # Errors
    /// The NIC was removed, or its driver has no such readings.
    pub fn system_offset_ns(&self) -> io::Result<i64> {
        let mut request = SystemOffset { readings: READINGS as u32, ..SystemOffset::default() };
        // SAFETY: the descriptor is open, and `request` is the type of this ioctl, which writes no more readings than it has.
        let result = unsafe {
            nix::libc::ioctl(self.0.as_raw_fd(), PTP_SYS_OFFSET_EXTENDED as _, &raw mut request)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        shortest(&request.times[..READINGS]).ok_or(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_reading_counts() {
        let reading = |times: [(i64, u32); 3]| {
            times.map(|(seconds, nanoseconds)| ClockTime { seconds, nanoseconds, _reserved: 0 })
        };
        let long = reading([(10, 0), (47, 900_000), (10, 1_000_000)]);
        let short = reading([(10, 999_999_900), (48, 0), (11, 100)]);
        assert_eq!(shortest(&[long, short, long]), Some(37_000_000_000));
        assert_eq!(shortest(&[long]), Some(37_000_400_000));
        assert_eq!(shortest(&[]), None);
        assert_eq!(PTP_SYS_OFFSET_EXTENDED, 0xc4c0_3d09, "as <linux/ptp_clock.h> has it");
    }

    #[test]
    fn a_file_that_is_no_clock_is_an_error() {
        assert!(NicClock(File::open("/dev/null").unwrap()).system_offset_ns().is_err());
    }
}

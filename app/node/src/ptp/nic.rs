//! The clock of a NIC compared with that of the system.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Number of readings of [`system_offset_ns`].
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

/// Returns the time of the clock /dev/ptpN of a NIC minus CLOCK_REALTIME, in nanoseconds. A clock of PTP is ahead by the offset
/// of TAI to UTC.
pub(super) fn system_offset_ns(clock: &File) -> io::Result<i64> {
    let mut request = SystemOffset { readings: READINGS as u32, ..SystemOffset::default() };
    // SAFETY: the descriptor is open, and `request` is the type of this ioctl, which writes no more readings than it has.
    let result = unsafe {
        nix::libc::ioctl(clock.as_raw_fd(), PTP_SYS_OFFSET_EXTENDED as _, &raw mut request)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    shortest(&request.times[..READINGS]).ok_or(io::ErrorKind::InvalidData.into())
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
        assert!(system_offset_ns(&File::open("/dev/null").unwrap()).is_err());
    }
}

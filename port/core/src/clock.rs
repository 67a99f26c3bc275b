//! Reading clocks.

use std::io;
use std::mem::zeroed;

use nix::errno::Errno;
use onbeat_netdev::{Ethtool, Namespace, NicClock};

use crate::{Clock, Time};

/// What the launch clock shows.
pub(crate) fn now(clock: Clock) -> Time {
    let id = if clock == Clock::Tai { libc::CLOCK_TAI } else { libc::CLOCK_MONOTONIC };
    // Clocks that every kernel has cannot fail.
    Time(read(id).unwrap_or_default())
}

/// CLOCK_REALTIME, by which the kernel stamps frames, in nanoseconds.
pub(crate) fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME).unwrap_or_default()
}

/// The NIC's clock of an interface, or why there is none.
pub(crate) fn of_nic(namespace: &Namespace, interface: &str) -> Result<NicClock, String> {
    let stamping = Ethtool::in_namespace(namespace)
        .and_then(|ethtool| ethtool.timestamping(interface))
        .map_err(|error| error.to_string())?;
    of_number(stamping.phc)
}

/// The NIC's clock of that number, or why there is none.
pub(crate) fn of_number(number: Option<u32>) -> Result<NicClock, String> {
    let n = number.ok_or("the NIC has no clock that the kernel shows")?;
    NicClock::open(n).map_err(|error| format!("/dev/ptp{n}: {error}"))
}

fn read(clock: libc::clockid_t) -> io::Result<u64> {
    // SAFETY: timespec is plain data, for which zeros are a value.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the timespec lives through the call.
    Errno::result(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

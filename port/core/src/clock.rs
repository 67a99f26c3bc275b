//! Reads clocks.

use std::io;
use std::mem::zeroed;

use nix::errno::Errno;
use onbeat_netdev::{Ethtool, Namespace, NicClock};

use crate::{Clock, Time};

/// Returns the time of a launch clock.
pub(crate) fn now(clock: Clock) -> Time {
    let id = if clock == Clock::Tai { libc::CLOCK_TAI } else { libc::CLOCK_MONOTONIC };
    // These clocks exist in every kernel, so that reading them cannot fail.
    Time(read(id).unwrap_or_default())
}

/// Returns CLOCK_REALTIME, the clock of the kernel's time stamps, in nanoseconds.
pub(crate) fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME).unwrap_or_default()
}

/// Opens the NIC clock of an interface, or returns the reason why there is none.
pub(crate) fn of_nic(namespace: &Namespace, interface: &str) -> Result<NicClock, String> {
    let stamping = Ethtool::in_namespace(namespace)
        .and_then(|ethtool| ethtool.timestamping(interface))
        .map_err(|error| error.to_string())?;
    of_number(stamping.phc)
}

/// Opens the NIC clock of that number, or returns the reason why there is none.
pub(crate) fn of_number(number: Option<u32>) -> Result<NicClock, String> {
    let n = number.ok_or("the kernel reports no clock of the NIC")?;
    NicClock::open(n).map_err(|error| format!("/dev/ptp{n}: {error}"))
}

fn read(clock: libc::clockid_t) -> io::Result<u64> {
    // SAFETY: timespec is plain data, for which zeros are valid.
    let mut time: libc::timespec = unsafe { zeroed() };
    // SAFETY: the timespec lives through the call.
    Errno::result(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

//! CLOCK_MONOTONIC in nanoseconds, its offset to CLOCK_REALTIME, and the synchronization of that to UTC.

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;

/// Returns CLOCK_MONOTONIC, in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Sleeps until CLOCK_MONOTONIC reaches `deadline_ns`, or until a signal.
pub fn sleep_until(deadline_ns: u64) {
    let at = TimeSpec::new((deadline_ns / SECOND) as i64, (deadline_ns % SECOND) as i64);
    let _: Result<_, Errno> =
        clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
}

/// Returns CLOCK_REALTIME, in nanoseconds since 1970: the clock of the kernel's packet time stamps.
#[must_use]
pub fn realtime_ns() -> i64 {
    read(ClockId::CLOCK_REALTIME) as i64
}

/// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, in nanoseconds. It changes when the time of day is set:
/// measure it again regularly when converting many time stamps.
#[must_use]
pub fn realtime_offset_ns() -> i64 {
    realtime_offset().0
}

/// Returns [`realtime_offset_ns`] and its error, in nanoseconds.
#[must_use]
pub fn realtime_offset() -> (i64, u64) {
    // Of several readings, the one with the shortest interval between its outer readings is the best; one
    // with a scheduling or interrupt delay is repeated.
    const GOOD_NS: u64 = 1_000;
    let mut best = (0, u64::MAX);
    for turn in 0..10 {
        let before = now_ns();
        let realtime = read(ClockId::CLOCK_REALTIME);
        let after = now_ns();
        if after - before < best.1 {
            best = (realtime as i64 - (before + (after - before) / 2) as i64, after - before);
        }
        if turn >= 2 && best.1 <= GOOD_NS {
            break;
        }
    }
    best
}

/// Returns whether CLOCK_REALTIME is synchronized to UTC, and its maximum error according to the kernel, in
/// nanoseconds (adjtimex(2): `STA_UNSYNC` and `maxerror`).
#[must_use]
pub fn synchronization() -> (bool, u64) {
    // SAFETY: timex is plain data, for which zeros are a value: modes 0 changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a timex that lives across the call.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    let synchronized = result >= 0 && state.status & libc::STA_UNSYNC == 0;
    (synchronized, u64::try_from(state.maxerror).unwrap_or(0).saturating_mul(1000))
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux, and their seconds are not negative.
    clock_gettime(clock).map_or(0, |time| time.tv_sec() as u64 * SECOND + time.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_lasts_until_the_deadline() {
        let deadline = now_ns() + 1_000_000;
        sleep_until(deadline);
        assert!(now_ns() >= deadline);
        sleep_until(0);
    }

    #[test]
    fn the_offset_converts_between_the_clocks() {
        let offset = realtime_offset_ns();
        let before = read(ClockId::CLOCK_REALTIME) as i64;
        let converted = now_ns() as i64 + offset;
        let after = read(ClockId::CLOCK_REALTIME) as i64;
        let (_, within_ns) = realtime_offset();
        assert!(within_ns < SECOND, "{within_ns}");
        // A scheduler may take the CPU between any two readings; the order holds within the
        // error of the offset itself, far below a second.
        assert!(converted > before - SECOND as i64 && converted < after + SECOND as i64);
    }
}

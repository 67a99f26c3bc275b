//! Time stamps of the program. It can read CLOCK_TAI; a port's stamps are of CLOCK_REALTIME.

use crate::clock;
use crate::{Clock, Stamp, StampSource};

const SECOND: u64 = 1_000_000_000;

/// Converts to CLOCK_REALTIME: the two clocks differ by whole seconds.
pub(crate) fn of_tai(ns: u64) -> Stamp {
    let apart = apart(clock::now(Clock::Tai).0, clock::realtime());
    Stamp { ns: ns.saturating_sub(apart), source: StampSource::Software }
}

/// The current time, of this process.
pub(crate) fn now() -> Stamp {
    Stamp { ns: clock::realtime(), source: StampSource::Process }
}

/// Returns the difference of the clocks, if the second was read a moment after the first.
fn apart(tai: u64, realtime: u64) -> u64 {
    (tai.saturating_sub(realtime) + SECOND / 2) / SECOND * SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_differ_by_whole_seconds() {
        for seconds in [0, 1, 37] {
            for late in [0, 30, 40_000_000] {
                let realtime = 1_700_000_000 * SECOND;
                assert_eq!(
                    apart(realtime + seconds * SECOND - late.min(seconds * SECOND), realtime),
                    seconds * SECOND
                );
            }
        }
    }

    #[test]
    fn a_moment_by_tai_is_the_same_moment() {
        let before = clock::realtime();
        let stamp = of_tai(clock::now(Clock::Tai).0);
        assert!((before..=clock::realtime()).contains(&stamp.ns));
    }
}

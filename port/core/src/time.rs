//! Instants and time stamps. Pure: nothing here reads a clock.

use std::fmt;

/// An instant of a port's launch clock ([`crate::Port::clock`]), in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The instant `ns` nanoseconds later; the end of time where there is none.
    #[must_use]
    pub const fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this instant; 0 where `earlier` is the later one.
    #[must_use]
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clock by which a port launches frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: no step of the system's time disturbs a cycle.
    #[default]
    Monotonic,
    /// `CLOCK_TAI`: one time for all nodes that PTP keeps together; what the etf and taprio
    /// queueing disciplines go by. A step of the system's time shifts launches.
    Tai,
    /// The clock of the NIC (PHC).
    Nic,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::Monotonic => "CLOCK_MONOTONIC",
            Clock::Tai => "CLOCK_TAI",
            Clock::Nic => "the NIC's clock",
        })
    }
}

/// Who took a time stamp, and thereby of which clock it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StampSource {
    /// The NIC, by its own clock, when the frame passed its MAC.
    Hardware,
    /// The driver or the stack, by `CLOCK_REALTIME`, when the frame passed them.
    Software,
}

/// When a frame was received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Nanoseconds of the clock that [`Stamp::source`] says. Not [`Time`]: a stamp's clock is
    /// in general not the one that frames are launched by.
    pub ns: u64,
    /// Who took it.
    pub source: StampSource,
}

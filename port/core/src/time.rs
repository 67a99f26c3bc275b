//! Instants and time stamps. Pure: no clock is read here.

use std::fmt;

/// An instant of a port's launch clock ([`crate::Port::clock`]), in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The instant `ns` nanoseconds later; saturates at the end of the range.
    #[must_use]
    pub const fn after(self, ns: u64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this instant; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The clock by which a port sends at launch times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: steps of the system's time do not disturb a cycle.
    #[default]
    Monotonic,
    /// `CLOCK_TAI`: common to all nodes that PTP synchronizes; used by the queueing disciplines etf and taprio. A
    /// step of the system's time shifts launches.
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

/// The source of a time stamp, which determines its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StampSource {
    /// The NIC, by its own clock, when the frame passed its MAC.
    Hardware,
    /// The driver or the stack, by `CLOCK_REALTIME`, when they processed the frame.
    Software,
    /// This process, by `CLOCK_REALTIME`, when it read the frame or its confirmation: any time after the event.
    Process,
}

/// The time at which a frame was received or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Nanoseconds of the clock of [`Stamp::source`]. Not [`Time`]: the clock of a stamp is in general not the
    /// launch clock.
    pub ns: u64,
    /// The source of the stamp.
    pub source: StampSource,
}

//! SoC: the start of a cycle (EPSG DS 301, 4.6.1.1.2).

use core::fmt;

use super::octets::{bit, bits, put, u32_at, u64_at};
use crate::bytes::{room, split};
use crate::{EmitError, TruncationError};

mod field {
    pub(super) const FLAGS: usize = 4;
    pub(super) const SECONDS: usize = 6;
    pub(super) const NANOSECONDS: usize = 10;
    pub(super) const RELATIVE_TIME: usize = 14;
    pub(super) const END: usize = 22;
}

/// Octets of a SoC.
pub(super) const LEN: usize = field::END;

const WHAT: &str = "POWERLINK SoC";

/// A network time: NetTime, and the time stamps of error entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NetTime {
    /// Seconds since 1970-01-01.
    pub seconds: u32,
    /// Nanoseconds of that second.
    pub nanoseconds: u32,
}

impl fmt::Display for NetTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.seconds, self.nanoseconds)
    }
}

/// The start of a cycle: nodes sample their inputs and set their outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Soc {
    /// MC: a multiplexed cycle ended with this cycle.
    pub multiplexed_cycle_completed: bool,
    /// PS: toggles every N cycles according to the prescaler (0x1F98/9).
    pub prescaled_slot: bool,
    /// Time of day.
    pub net_time: NetTime,
    /// Time since the start of the cyclic operation, in microseconds.
    pub relative_time_us: u64,
}

impl Soc {
    pub(super) fn parse(octets: &[u8]) -> Result<Self, TruncationError> {
        let (message, _) = split::<LEN>(WHAT, octets)?;
        Ok(Soc {
            multiplexed_cycle_completed: bit(message[field::FLAGS], 7),
            prescaled_slot: bit(message[field::FLAGS], 6),
            net_time: NetTime {
                seconds: u32_at(message, field::SECONDS),
                nanoseconds: u32_at(message, field::NANOSECONDS),
            },
            relative_time_us: u64_at(message, field::RELATIVE_TIME),
        })
    }

    pub(super) fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let message = room::<LEN>(WHAT, buffer)?;
        message[3] = 0;
        message[field::FLAGS] =
            bits([(7, self.multiplexed_cycle_completed), (6, self.prescaled_slot)]);
        message[5] = 0;
        put(message, field::SECONDS, self.net_time.seconds.to_le_bytes());
        put(message, field::NANOSECONDS, self.net_time.nanoseconds.to_le_bytes());
        put(message, field::RELATIVE_TIME, self.relative_time_us.to_le_bytes());
        Ok(())
    }
}

impl fmt::Display for Soc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SoC {} us", self.relative_time_us)?;
        f.write_str(if self.multiplexed_cycle_completed { " MC" } else { "" })?;
        f.write_str(if self.prescaled_slot { " PS" } else { "" })
    }
}

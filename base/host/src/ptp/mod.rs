//! The clock of this host as ptp4l of linuxptp keeps it: read by its management socket, and judged.
//!
//! ```text
//! ptp4l -> client -> Round -> History -> PtpStatus -> show, metrics, doctor
//! ```
//!
//! No request waits for ptp4l. A round reads the responses to the requests of the round before.

mod client;
mod history;
mod watch;

pub use client::{PtpClient, SERVERS};
pub use history::{History, Port, Round, SAMPLES};
pub use watch::{ClockRecord, ClockWatch};

use std::fmt;

use onbeat_netdev::{Ethtool, NicClock};
use onbeat_realtime::clock;
use serde::{Deserialize, Serialize};

/// Judgment of a clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PtpState {
    /// It follows its grandmaster.
    Locked,
    /// It is the grandmaster itself.
    Grandmaster,
    /// It does not, or not yet, follow a grandmaster.
    NotLocked,
    /// ptp4l does not respond.
    #[default]
    Silent,
}

impl PtpState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Locked, Self::Grandmaster, Self::NotLocked, Self::Silent];

    /// Its name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Grandmaster => "grandmaster",
            Self::NotLocked => "not_locked",
            Self::Silent => "silent",
        }
    }
}

impl fmt::Display for PtpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLocked => "not locked",
            other => other.name(),
        })
    }
}

/// The clock of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpStatus {
    /// Its judgment.
    pub state: PtpState,
    /// Why it is not locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Interface of the port that follows a master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether the NIC makes the time stamps of this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<bool>,
    /// Identity of the grandmaster, as pmc prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grandmaster: Option<String>,
    /// Time of the clock minus that of its master, last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_ns: Option<i64>,
    /// The largest offset of the samples, without sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_offset_ns: Option<u64>,
    /// Mean delay of the path to the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_delay_ns: Option<i64>,
    /// Time of the NIC minus that of the system, without the offset of TAI to UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phc_offset_ns: Option<i64>,
    /// Whether a program keeps the clock of the system synchronized to UTC, by its own word (adjtimex).
    #[serde(default)]
    pub system_synchronized: bool,
}

impl History {
    /// Judges the samples, and compares the clocks of the NIC and of the system.
    #[must_use]
    pub fn status_with_clocks(&self) -> PtpStatus {
        let status = self.status();
        let interface = status.interface.as_deref().filter(|_| status.hardware == Some(true));
        let utc_offset_s = self.last().and_then(|round| round.utc_offset_s);
        let phc_offset_ns = interface.zip(utc_offset_s).and_then(|(interface, utc_offset_s)| {
            let number = Ethtool::open().ok()?.timestamping(interface).ok()?.phc?;
            let offset_ns = NicClock::open(number).ok()?.system_offset_ns().ok()?;
            Some(offset_ns.saturating_sub(i64::from(utc_offset_s) * clock::SECOND as i64))
        });
        let (system_synchronized, _) = clock::synchronization();
        PtpStatus { phc_offset_ns, system_synchronized, ..status }
    }
}

/// One line, as `show` and `doctor` print it.
impl fmt::Display for PtpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        if let (Some(grandmaster), PtpState::Locked) = (&self.grandmaster, self.state) {
            write!(f, " to {grandmaster}")?;
        }
        if let Some(interface) = &self.interface {
            let by = if self.hardware == Some(true) { "hardware" } else { "software" };
            write!(f, "  by {interface} ({by} time stamps)")?;
        }
        if let (Some(offset), Some(worst)) = (self.offset_ns, self.worst_offset_ns) {
            write!(f, "  offset {offset} ns (worst {worst} ns)")?;
        }
        if let Some(delay) = self.path_delay_ns {
            write!(f, "  path delay {delay} ns")?;
        }
        if let Some(offset) = self.phc_offset_ns {
            write!(f, "  NIC to system clock {offset} ns")?;
        }
        let not = if self.system_synchronized { "" } else { "not " };
        write!(f, "  system clock {not}synchronized")
    }
}

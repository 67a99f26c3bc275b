//! The summary of a node, for metrics: sums of all streams, and the state of few.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use onbeat_frer::counters::Counters;
use serde::{Deserialize, Serialize};

use super::status::counters;
use super::{MemoryStatus, PortStatus, StreamStatus};
use onbeat_host::ptp::PtpStatus;

/// A node, without most of its streams.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSummary {
    /// Its name.
    pub node: String,
    /// Version of its daemon.
    pub version: String,
    /// Seconds since the daemon started.
    pub uptime_s: u64,
    /// Data plane, unless a port has another one: `xdp`, `packet` or `xsk`.
    pub data_plane: String,
    /// Memory of its stream tables, if they are allocated at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryStatus>,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Sums over all streams since the start of the daemon, removed ones included.
    pub totals: StreamTotals,
    /// Number of its streams.
    pub streams: u64,
    /// Number of streams in trouble, by its kind; each kind is listed.
    pub in_trouble: BTreeMap<StreamTrouble, u64>,
    /// Number of events since the start of the daemon, by name; each name is listed.
    pub events: BTreeMap<String, u64>,
    /// Selected streams, then those in trouble.
    pub detailed: Vec<DetailedStream>,
    /// The clock of its host, if ptp4l keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptp: Option<PtpStatus>,
    /// The guard that runs with the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardStatus>,
}

/// The guard of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardStatus {
    /// Whether it runs, and schedules all interfaces of its configuration.
    pub armed: bool,
    /// Number of interfaces that it schedules.
    pub interfaces: u64,
    /// Number of processes with a budget.
    pub budget_processes: u64,
    /// Number of those that are limited at present.
    pub limited_processes: u64,
    /// Number of its events since the start, by name; each name is listed.
    pub events: BTreeMap<String, u64>,
}

/// A stream of a summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailedStream {
    /// Its present troubles.
    pub troubles: Vec<StreamTrouble>,
    /// Its state.
    pub status: StreamStatus,
}

/// Sums over streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamTotals {
    /// Counters of sequence recovery.
    #[serde(with = "counters")]
    pub sequence: Counters,
    /// Counters of individual recovery.
    #[serde(with = "counters")]
    pub individual: Counters,
    /// 10.8.11: packets whose sequence tag could not be decoded.
    pub seq_enc_errored: u64,
}

impl StreamTotals {
    /// Returns the growth since `other`; 0 where it decreased.
    pub(crate) fn saturating_sub(self, other: Self) -> Self {
        Self {
            sequence: self.sequence.saturating_sub(other.sequence),
            individual: self.individual.saturating_sub(other.individual),
            seq_enc_errored: self.seq_enc_errored.saturating_sub(other.seq_enc_errored),
        }
    }
}

impl AddAssign for StreamTotals {
    fn add_assign(&mut self, other: Self) {
        self.sequence += other.sequence;
        self.individual += other.individual;
        self.seq_enc_errored += other.seq_enc_errored;
    }
}

/// A lasting condition of a stream that requires attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamTrouble {
    /// A member delivers no packets, while others do.
    PathLost,
    /// No frame can go through the interface of any member.
    AllPathsLost,
    /// Latent error detection signals.
    LatentError,
    /// A recovery function discards rogue packets.
    RogueFlood,
    /// A recovery function discards all packets as rogue.
    AllRogue,
    /// The sender of a member repeats numbers.
    StuckTransmitter,
}

impl StreamTrouble {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::PathLost,
        Self::AllPathsLost,
        Self::LatentError,
        Self::RogueFlood,
        Self::AllRogue,
        Self::StuckTransmitter,
    ];
}

impl fmt::Display for StreamTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Whether a pattern matches a whole name: `*` any characters, `?` one.
pub fn is_match(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // After the last `*`: the rest of the pattern, and the place in the name from which on it is tried.
    let mut retry = None;
    loop {
        match (pattern.get(p), name.get(n)) {
            (Some(b'*'), _) => {
                p += 1;
                retry = Some((p, n));
            }
            (Some(&wanted), Some(&octet)) if wanted == octet || wanted == b'?' => {
                (p, n) = (p + 1, n + 1);
            }
            (None, None) => return true,
            _ => match retry {
                Some((rest, from)) if from < name.len() => {
                    (p, n) = (rest, from + 1);
                    retry = Some((rest, from + 1));
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_a_whole_name() {
        for (pattern, name) in [
            ("axis", "axis"),
            ("axis-*", "axis-"),
            ("axis-*", "axis-17"),
            ("*-17", "axis-17"),
            ("*", ""),
            ("a?is*", "axis-17"),
            ("*a*b*", "xxaxxbxx"),
            ("*aab", "aaaab"),
        ] {
            assert!(is_match(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("axis", "axis-1"),
            ("axis-*", "axis"),
            ("?", ""),
            ("", "a"),
            ("*a?", "ba"),
            ("*b", "bc"),
        ] {
            assert!(!is_match(pattern, name), "{pattern} {name}");
        }
    }

    /// An exponential matcher would not return.
    #[test]
    fn a_pattern_of_many_stars_is_fast() {
        assert!(!is_match(&"*a".repeat(500), &"a".repeat(400)));
    }
}

//! State of a stream as reported by a data plane, in the same form for every data plane.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Add;

use crate::counters::Counters;

/// State of a recovery function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryReading {
    /// Its counters, without those of generation and latent error detection.
    pub counters: Counters,
    /// RecovSeqNum.
    pub recov_seq_num: u16,
    /// TakeAny.
    pub take_any: bool,
}

/// State of a sequence generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationReading {
    /// GenSeqNum: the number of the next packet.
    pub next: u16,
    /// SeqGenResets (10.8.2), including BEGIN.
    pub resets: u64,
}

/// Counters of a member stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReading {
    /// Received packets (9.2.1).
    pub input: u64,
    /// Packets whose tag could not be decoded (10.8.11).
    pub enc_errored: u64,
    /// Its individual recovery function, if configured.
    pub individual: Option<RecoveryReading>,
}

/// State of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReading {
    /// In the order of configuration.
    pub members: Vec<MemberReading>,
    /// Its generator, if configured.
    pub generation: Option<GenerationReading>,
    /// Its sequence recovery, if configured.
    pub recovery: Option<RecoveryReading>,
    /// Sent packets (9.2.2) of each of its egress ports: a frame is sent by all of them or by none.
    pub output: u64,
}

/// Frames of a port that match no stream, those that left by it, and those that the data plane lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortReading {
    /// Received frames without a stream.
    pub unmatched: u64,
    /// Frames of streams that left by the port; `None`: not counted.
    pub sent: Option<u64>,
    /// Frames lost inside, by cause.
    pub losses: PortLosses,
}

/// Frames that a data plane lost at a port, by cause. A data plane counts those that can occur with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PortLosses {
    /// The receive queue of the socket was full.
    pub queue_full: u64,
    /// The receive queue of the interface has no socket: it is newer than those of the port.
    #[cfg_attr(feature = "serde", serde(default))]
    pub no_socket: u64,
    /// Received frames that are longer than the MTU of the interface.
    pub too_long: u64,
    /// Frames to send while the interface was down or missing.
    #[cfg_attr(feature = "serde", serde(default))]
    pub interface_down: u64,
    /// Frames to send that are longer than the MTU of the interface.
    #[cfg_attr(feature = "serde", serde(default))]
    pub exceeds_mtu: u64,
    /// The interface did not accept a frame to send: it has no carrier, its queue is full, or the peer of a veth
    /// cannot receive it.
    pub not_sent: u64,
    /// The driver leaves no room in front of a received frame for a tag.
    pub no_headroom: u64,
    /// The driver carries no metadata with a received frame: replicas could not be distinguished.
    pub no_metadata: u64,
}

impl PortLosses {
    /// Returns the sum of all causes.
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|(_, frames)| frames).sum()
    }

    /// Returns the frames that were to leave by the port.
    pub fn unsent(&self) -> u64 {
        self.interface_down + self.exceeds_mtu + self.not_sent
    }

    /// Returns whether these are the same counters as `before`, read later.
    pub fn includes(&self, before: &Self) -> bool {
        self.causes().iter().zip(before.causes()).all(|((_, now), (_, before))| *now >= before)
    }

    /// Returns the losses since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// Combines each count with that of `other`.
    fn with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            queue_full: combine(self.queue_full, other.queue_full),
            no_socket: combine(self.no_socket, other.no_socket),
            too_long: combine(self.too_long, other.too_long),
            interface_down: combine(self.interface_down, other.interface_down),
            exceeds_mtu: combine(self.exceeds_mtu, other.exceeds_mtu),
            not_sent: combine(self.not_sent, other.not_sent),
            no_headroom: combine(self.no_headroom, other.no_headroom),
            no_metadata: combine(self.no_metadata, other.no_metadata),
        }
    }

    /// Returns a remedy for the user, if the causes have one that is not in their names.
    pub fn remedy(&self) -> Option<&'static str> {
        (self.too_long > 0).then_some(
            "the sender leaves segmentation to its device (run there: ethtool -K IF tso off gso off), or has a larger MTU",
        )
    }

    /// Returns the causes with their counts. All are listed: the compiler detects a missing one.
    pub fn causes(&self) -> [(&'static str, u64); 8] {
        let Self {
            queue_full,
            no_socket,
            too_long,
            interface_down,
            exceeds_mtu,
            not_sent,
            no_headroom,
            no_metadata,
        } = *self;
        [
            ("receive queue full", queue_full),
            ("receive queue without a socket", no_socket),
            ("longer than the MTU", too_long),
            ("interface down", interface_down),
            ("longer than the MTU to send", exceeds_mtu),
            ("not accepted by the interface", not_sent),
            ("no room for a tag", no_headroom),
            ("no metadata", no_metadata),
        ]
    }
}

impl Add for PortLosses {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(&other, u64::add)
    }
}

impl fmt::Display for PortLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let occurred = self.causes().into_iter().filter(|(_, frames)| *frames > 0);
        for (index, (cause, frames)) in occurred.enumerate() {
            write!(f, "{}{cause} {frames}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

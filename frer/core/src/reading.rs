//! State of a stream as reported by a data plane, in the same form for every data plane.

use alloc::vec::Vec;

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

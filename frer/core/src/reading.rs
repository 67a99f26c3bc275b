//! What a data plane tells of a stream: the same, whichever plane it is.

use alloc::vec::Vec;

use crate::counters::Counters;

/// A recovery function's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryReading {
    /// What it counted; generation and latent error detection are not its.
    pub counters: Counters,
    /// RecovSeqNum.
    pub recov_seq_num: u16,
    /// TakeAny.
    pub take_any: bool,
}

/// A sequence generator's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationReading {
    /// GenSeqNum: the number the next packet will carry.
    pub next: u16,
    /// 10.8.2, BEGIN among them.
    pub resets: u64,
}

/// A member stream's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberReading {
    /// 9.2.1
    pub input: u64,
    /// 10.8.11
    pub enc_errored: u64,
    /// Its individual recovery function, where it has one.
    pub individual: Option<RecoveryReading>,
}

/// All of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamReading {
    /// In the order of configuration.
    pub members: Vec<MemberReading>,
    /// Its generator, where it has one.
    pub generation: Option<GenerationReading>,
    /// Its sequence recovery, where it has one.
    pub recovery: Option<RecoveryReading>,
    /// 9.2.2 of each of its egress ports: a frame goes to all of them or to none.
    pub output: u64,
}

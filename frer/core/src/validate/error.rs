//! What can be wrong with a stream; each text names the field, its value and the remedy.

use core::error::Error;
use core::fmt;

use crate::spec::{IdentificationError, MAX_EGRESS, MAX_HISTORY, MAX_PORTS, PortId, RewriteError};

/// A rule that a stream breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// `members` is empty.
    NoMember,
    /// `egress` has this many ports.
    EgressCount(usize),
    /// `egress` has this port more than once.
    EgressTwice(PortId),
    /// Both `generate` and `recover`.
    GenerateAndRecover,
    /// In `members`.
    Member {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        error: MemberError,
    },
    /// In `recover`.
    Recover(RecoveryError),
    /// In `egress`.
    Egress {
        /// Which one, from 0.
        index: usize,
        /// What is wrong with it.
        error: EgressError,
    },
}

/// A rule that a member stream breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberError {
    /// `port` is out of range.
    Port(PortId),
    /// In `identification`.
    Identification(IdentificationError),
    /// In `individual`.
    Individual(RecoveryError),
}

/// A rule that a recovery function breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryError {
    /// `history_length` is out of range.
    HistoryLength(u16),
    /// Latent error detection on an individual recovery function.
    IndividualWithLatent,
    /// In `latent`.
    Latent(LatentError),
}

/// A rule that latent error detection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatentError {
    /// `period_ms` is 0.
    Period,
    /// `reset_period_ms` is 0.
    ResetPeriod,
    /// `paths` is too small.
    Paths(u16),
}

/// A rule that an egress port breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressError {
    /// `port` is out of range.
    Port(PortId),
    /// In `rewrite`.
    Rewrite(RewriteError),
}

impl Error for StreamError {}
impl Error for MemberError {}
impl Error for RecoveryError {}
impl Error for LatentError {}
impl Error for EgressError {}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMember => {
                f.write_str("members: empty; name at least one port and its identification")
            }
            Self::EgressCount(count) => {
                write!(f, "egress: {count} ports; give 1 to {MAX_EGRESS}")
            }
            Self::EgressTwice(port) => write!(
                f,
                "egress: port {} more than once; name it once, replicas on one port protect nothing",
                port.0
            ),
            Self::GenerateAndRecover => f.write_str(
                "generate and recover: both on; a stream is numbered at its talker or recovered \
                 at its listener, remove one",
            ),
            Self::Member { index, error } => write!(f, "members[{index}].{error}"),
            Self::Recover(error) => write!(f, "recover.{error}"),
            Self::Egress { index, error } => write!(f, "egress[{index}].{error}"),
        }
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => fmt_port(*port, f),
            Self::Identification(error) => write!(f, "identification.{error}"),
            Self::Individual(error) => write!(f, "individual.{error}"),
        }
    }
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HistoryLength(value) => {
                write!(f, "history_length: {value}; give 2 to {MAX_HISTORY}")
            }
            Self::IndividualWithLatent => f.write_str(
                "latent: set on individual recovery, which sees one path only; set it on the \
                 stream's recovery",
            ),
            Self::Latent(error) => write!(f, "latent.{error}"),
        }
    }
}

impl fmt::Display for LatentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period => f.write_str("period_ms: 0; give 1 or more (default 2000)"),
            Self::ResetPeriod => f.write_str("reset_period_ms: 0; give 1 or more (default 30000)"),
            Self::Paths(paths) => write!(
                f,
                "paths: {paths}; give the number of paths that deliver the stream, 2 or more"
            ),
        }
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => fmt_port(*port, f),
            Self::Rewrite(error) => write!(f, "rewrite.{error}"),
        }
    }
}

fn fmt_port(port: PortId, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "port: {}; give 0 to {}", port.0, MAX_PORTS - 1)
}

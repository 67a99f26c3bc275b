//! Violated rules of a stream; each text names the field, its value and the remedy.

use core::error::Error;
use core::fmt;

use crate::spec::{IdentificationError, MAX_EGRESS, MAX_HISTORY, MAX_PORTS, PortId, RewriteError};

/// A violated rule of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamError {
    /// `members` is empty.
    NoMember,
    /// Invalid number of ports in `egress`.
    EgressCount(usize),
    /// A port that is in `egress` more than once.
    EgressTwice(PortId),
    /// Both `generate` and `recover` are set.
    GenerateAndRecover,
    /// In `members`.
    Member {
        /// The member, from 0.
        index: usize,
        /// The violated rule.
        error: MemberError,
    },
    /// In `recover`.
    RecoveryFunction(RecoveryError),
    /// In `egress`.
    Egress {
        /// The egress port, from 0.
        index: usize,
        /// The violated rule.
        error: EgressError,
    },
}

/// A violated rule of a member stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberError {
    /// `port` is out of range.
    Port(PortId),
    /// In `identification`.
    Identification(IdentificationError),
    /// In `individual`.
    Individual(RecoveryError),
}

/// A violated rule of a recovery function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryError {
    /// `history_length` is out of range.
    HistoryLength(u16),
    /// Latent error detection is set on an individual recovery function.
    IndividualWithLatent,
    /// Parameters of an individual recovery function follow the measured paths.
    IndividualAdaptive,
    /// In `latent`.
    Latent(LatentError),
}

/// A violated rule of latent error detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatentError {
    /// `period_ms` is 0.
    Period,
    /// `reset_period_ms` is 0.
    ResetPeriod,
    /// `paths` is too small.
    Paths(u16),
}

/// A violated rule of an egress port.
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
                f.write_str("members: empty; add at least one port with its identification")
            }
            Self::EgressCount(count) => {
                write!(f, "egress: {count} ports; use 1 to {MAX_EGRESS}")
            }
            Self::EgressTwice(port) => write!(
                f,
                "egress: port {} more than once; list it once: two replicas on one port add no redundancy",
                port.0
            ),
            Self::GenerateAndRecover => f.write_str(
                "generate and recover: both set; a talker generates, a listener recovers: \
                 remove one of them",
            ),
            Self::Member { index, error } => write!(f, "members[{index}].{error}"),
            Self::RecoveryFunction(error) => write!(f, "recover.{error}"),
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
                write!(f, "history_length: {value}; use 2 to {MAX_HISTORY}")
            }
            Self::IndividualWithLatent => f.write_str(
                "latent: set on individual recovery, which covers one path only; set it on the \
                 stream's recovery",
            ),
            Self::IndividualAdaptive => f.write_str(
                "adaptive: set on individual recovery, which covers one path only; set it on the \
                 stream's recovery",
            ),
            Self::Latent(error) => write!(f, "latent.{error}"),
        }
    }
}

impl fmt::Display for LatentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period => f.write_str("period_ms: 0; use 1 or more (default 2000)"),
            Self::ResetPeriod => f.write_str("reset_period_ms: 0; use 1 or more (default 30000)"),
            Self::Paths(paths) => write!(
                f,
                "paths: {paths}; use the number of paths that deliver the stream, 2 or more"
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
    write!(f, "port: {}; use 0 to {}", port.0, MAX_PORTS - 1)
}

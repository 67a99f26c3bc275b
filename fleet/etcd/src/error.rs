//! What can go wrong with a request.

use std::time::Duration;

use crate::wire::EncodingError;

/// What became of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not executed.
    NotExecuted,
    /// It was executed, or was not, or is going to be.
    Unknown,
}

/// A failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address that is none.
    #[error(
        "{text:?} is not the address of an etcd server; write https://HOST:PORT, or http://HOST:PORT without TLS"
    )]
    Endpoint {
        /// What was given.
        text: String,
    },
    /// No server accepted a connection.
    #[error("no etcd server of {endpoints} can be reached: {why}")]
    Unreachable {
        /// The servers.
        endpoints: String,
        /// The failure of the last one.
        why: String,
    },
    /// The certificate of this program or the authority's is unusable.
    #[error("TLS: {0}")]
    Tls(String),
    /// The connection ended.
    #[error("the connection to {endpoint} ended: {why}")]
    Connection {
        /// The server.
        endpoint: String,
        /// The reason.
        why: String,
        /// What became of the request.
        outcome: Outcome,
    },
    /// No answer in time.
    #[error("{endpoint} did not answer within {} s; it may have no leader", .after.as_secs_f64())]
    TimedOut {
        /// The server.
        endpoint: String,
        /// The limit.
        after: Duration,
    },
    /// The server refuses.
    #[error("etcd at {endpoint} refuses: {message} (gRPC status {code})")]
    Refused {
        /// The server.
        endpoint: String,
        /// Status of gRPC.
        code: u32,
        /// Its text.
        message: String,
    },
    /// A response with more octets than are read.
    #[error("{endpoint}: a response of {octets} octets, more than the {most} that are read")]
    LongResponse {
        /// The server.
        endpoint: String,
        /// Its length.
        octets: usize,
        /// The limit.
        most: usize,
    },
    /// An answer that is none of etcd's.
    #[error("{endpoint} is not an etcd server, or one of another version: {why}")]
    Foreign {
        /// The server.
        endpoint: String,
        /// The reason.
        why: String,
    },
}

/// Status codes of gRPC (grpc.io, "Status codes and their use in gRPC") after which the outcome is unknown: cancelled,
/// unknown, deadline exceeded, aborted, internal, unavailable, data loss. etcd reports "request timed out" and "leader changed" by
/// "unavailable".
const UNKNOWN: [u32; 7] = [1, 2, 4, 10, 13, 14, 15];

impl Error {
    /// What became of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Endpoint { .. } | Self::Unreachable { .. } | Self::Tls(_) => Outcome::NotExecuted,
            Self::Connection { outcome, .. } => *outcome,
            Self::TimedOut { .. } | Self::Foreign { .. } | Self::LongResponse { .. } => {
                Outcome::Unknown
            }
            Self::Refused { code, .. } if UNKNOWN.contains(code) => Outcome::Unknown,
            Self::Refused { .. } => Outcome::NotExecuted,
        }
    }

    /// Whether another server may answer.
    pub(crate) fn is_of_server(&self) -> bool {
        match self {
            Self::Connection { .. } | Self::TimedOut { .. } => true,
            Self::Refused { code, .. } => *code == 14,
            _ => false,
        }
    }

    pub(crate) fn malformed(endpoint: &str, what: &str, why: EncodingError) -> Self {
        Self::Foreign { endpoint: endpoint.to_owned(), why: format!("{what}: {why}") }
    }
}

/// Result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

//! The part of etcd's interface that onbeat uses: keys, transactions, watches, leases, users and roles, by gRPC over HTTP/2
//! with mutual TLS.
//!
//! ```text
//!  request ─► message.rs (fields) ─► wire.rs (Protocol Buffers) ─► call.rs (gRPC) ─► connection.rs (HTTP/2, TLS) ─► etcd
//! ```
//!
//! Messages are those of etcd's `rpc.proto`, `kv.proto` and `auth.proto` (API version 3); fields that are not used are left
//! out when sending, and skipped when receiving.
//!
//! # Outcomes
//!
//! [`Error::outcome`] distinguishes requests that were not executed from those whose execution is unknown: the connection
//! ended after they were sent, or their time was over. Only requests that can be repeated may be sent.
#![forbid(unsafe_code)]

mod call;
mod client;
mod connection;
mod endpoint;
mod error;
mod message;
mod wire;

pub use client::{Client, Options, Watcher};
pub use connection::Tls;
pub use endpoint::Endpoint;
pub use error::{Error, Outcome, Result};
pub use message::{
    Access, Comparison, Condition, Event, EventKind, Header, KeyValue, Lease, Operation,
    Permission, Range, RangeResponse, Response, Status, Transaction, TransactionResponse,
    WatchRequest, WatchResponse,
};

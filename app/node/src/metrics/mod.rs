//! Metrics of all nodes of a host in the text format of Prometheus, by an unprivileged process.
//!
//! ```text
//! Prometheus -> http -> collect -> sockets for readers -> exposition
//! ```

mod collect;
mod exposition;
mod http;
mod socket;

pub use collect::{Collector, NodeReading};
pub use exposition::exposition;
pub use http::{HostNames, MetricsServer};
pub use socket::{SocketError, inherited_listener};

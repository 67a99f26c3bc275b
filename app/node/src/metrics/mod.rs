//! Metrics of all nodes of a host in the text format of Prometheus, by an unprivileged process.
//!
//! ```text
//! Prometheus -> http -> collect -> sockets for readers -> exposition
//! browser    -> http -> live    -> sockets for readers -> page.html
//! ```

mod collect;
mod exposition;
mod http;
mod live;
mod socket;

pub use collect::{Collector, NodeReading};
pub use exposition::exposition;
pub use http::{HostNames, MetricsServer, Page};
pub use live::LiveCollector;
pub use socket::{SocketError, inherited_listener};

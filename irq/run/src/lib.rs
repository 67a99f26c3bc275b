//! Measurement loops over the interrupt ledger, and their results as tables and text.
//!
//! - [`watch`]: reads the ledger periodically.
//! - [`top`]: the table of each interval, as text and JSON.
//! - [`metrics`]: sums since the start, for node_exporter.
//! - [`record`]: writes a recording.
//! - [`report`]: the result of a recording.

mod error;

pub mod metrics;
pub mod record;
pub mod report;
pub mod top;
pub mod watch;

pub use error::{Error, Result};

//! Softirq time of this host, charged to the processes that cause it.
//!
//! - [`Tracer`]: the ledger in the kernel, by BPF programs on tracepoints.
//! - [`Meter`], [`Sampler`]: its additions, read periodically.
//! - [`names`]: names of processes, devices and drop reasons.
//! - [`host`]: the settings by which this host accounts CPU time.

mod abi;
mod error;
mod tracer;

pub mod host;
#[forbid(unsafe_code)]
pub mod names;

pub use error::{Error, Result};
pub use tracer::{Budgets, CostMeter, Events, Losses, Meter, Sampler, Ticks, Tracer};

//! Bottom-half time: charged to the processes that cause it, scheduled by those that wait for it.
//!
//! After "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006), on a kernel
//! that nobody patched.
//!
//! - [`charge`]: the ledger, as pure code.
//! - [`policy`]: which priority a device's bottom half gets, as pure code.
//! - [`view`]: the ledger as a table, as pure code.
//! - [`recording`]: the ledger over time, in a file.
//! - [`names`]: what people call processes, devices, and reasons of drops.
//! - [`Tracer`]: the ledger in the kernel, by BPF programs on tracepoints.
//! - [`host`]: how this host keeps processes' time.
//! - [`guard`]: carries the policy out, with a journal of what it changes.

mod abi;
mod error;
mod tracer;

pub mod guard;

#[forbid(unsafe_code)]
pub mod charge;
pub mod host;
#[forbid(unsafe_code)]
pub mod names;
#[forbid(unsafe_code)]
pub mod policy;
#[forbid(unsafe_code)]
pub mod recording;
#[forbid(unsafe_code)]
pub mod view;

pub use error::{Error, Result};
pub use names::Description;
pub use tracer::{
    Events, Interval, Losses, Meter, OwnCost, OwnWatch, Sampler, TICK_NS, Tick, Ticks, Tracer,
};

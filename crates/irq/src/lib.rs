//! Bottom-half time: charged to the processes that cause it, scheduled by those that wait for it.
//!
//! After "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006), on a kernel
//! that nobody patched.
//!
//! - [`charge`]: the ledger, as pure code.
//! - [`policy`]: which priority a device's bottom half gets, as pure code.
//! - [`Description`]: a process as a person knows it.
//! - [`Tracer`]: the ledger in the kernel, by BPF programs on tracepoints.
//! - [`guard`]: carries the policy out, with a journal of what it changes.

mod abi;
mod describe;
mod error;
mod tracer;

pub mod guard;

#[forbid(unsafe_code)]
pub mod charge;
#[forbid(unsafe_code)]
pub mod policy;

pub use describe::Description;
pub use error::{Error, Result};
pub use tracer::{Events, Losses, Tracer};

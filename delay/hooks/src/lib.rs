//! Per-stage packet delay inside this host: traces every packet of an interface from the driver that received it to
//! the driver that sends it, or to the process that reads it.
//!
//! The kernel hooks of "On limits of embedded systems in network packet processing" (Vondrouš, Macejko, Kocur,
//! 2016), as BPF programs on tracepoints of an unmodified kernel.
//!
//! - [`Tracer`]: the programs in the kernel.
//! - [`Packet`]: the report of a completed packet: its stages, which add up to the total delay, and the activity of
//!   the host meanwhile.
//! - [`Filter`]: the packets to trace.
//!
//! - [`TrackedClock`]: the clock of NICs with receive time stamps, tracked against a clock of the kernel.
//!
//! Delays on the wire are not measured, nor those in a NIC without time stamps: [`Stage`] lists where a packet's
//! time starts.

mod abi;
mod error;
mod filter;
mod packet;
mod tracer;
mod tracked_clock;

pub use error::{Error, Result};
pub use filter::{Filter, FilterError};
pub use packet::{Context, Fate, Packet, Stage};
pub use tracer::{Counts, Detail, Device, Hop, Tracer};
pub use tracked_clock::TrackedClock;

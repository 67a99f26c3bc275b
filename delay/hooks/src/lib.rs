//! Where packets wait inside this host: every packet of an interface, followed from the driver that
//! brought it to the driver that sends it, or to the process that reads it.
//!
//! The kernel hooks of "On limits of embedded systems in network packet processing" (Vondrouš,
//! Macejko, Kocur, 2016), as BPF programs on the tracepoints of a kernel that nobody patched.
//!
//! - [`Tracer`]: the programs in the kernel.
//! - [`Packet`]: what is told of a packet that is gone: the stages that it passed, which add up to the
//!   whole, and what the host was at meanwhile.
//! - [`Filter`]: which packets are looked at.
//!
//! - [`TrackedClock`]: the clock of NICs that stamp what they receive, beside the kernel's.
//!
//! What a wire takes is not seen, nor what a NIC does that stamps nothing: [`Stage`] says where a packet's
//! time begins.

mod abi;
mod error;
mod filter;
mod tracked_clock;
mod packet;
mod tracer;

pub use error::{Error, Result};
pub use filter::{Filter, FilterError};
pub use tracked_clock::TrackedClock;
pub use packet::{Context, Fate, Packet, Stage};
pub use tracer::{Counts, Detail, Device, Hop, Tracer};

//! Setting up for real time, so that it can be undone.
//!
//! Two kinds of settings make a frame wait less, and they are undone in two ways:
//!
//! - **What belongs to a thread or process** is a guard, given back on drop, and by the kernel if the
//!   process dies: [`Profile::enter`] takes them all in one line.
//! - **What belongs to the host or to an interface** outlives the process. [`host`] plans it, writes
//!   a journal before the first change, and puts back what was before, also after `kill -9`.
//!
//! ```no_run
//! use onbeat_realtime::Profile;
//!
//! # fn main() -> onbeat_realtime::Result<()> {
//! // In the thread that keeps the beat. When `_realtime` goes, all is as it was.
//! let _realtime = Profile::control_loop().on_cpus("1".parse()?).enter()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`clock`] is what all who keep a beat go by.
//!
//! What each setting does, what it costs and where that is written: docs/realtime.md.

pub mod clock;
mod cpus;
mod error;
mod guard;
pub mod host;
mod profile;
mod scheduling;
mod session;

pub use cpus::CpuSet;
pub use error::{Error, Result};
pub use guard::{Affinity, DmaLatency, LockedMemory, Scheduled, TimerSlack, prefault_stack};
pub use profile::{Profile, Realtime};
pub use scheduling::Scheduling;
pub use session::HeldSignals;

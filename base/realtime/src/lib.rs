//! Settings for real time of a thread or process, each a guard: undone on drop, and by the kernel if the
//! process dies. [`Profile::enter`] makes all of them in one line. Settings of the host and of interfaces outlive
//! the process: `onbeat_host::settings`.
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
//! [`clock`]: clocks for cyclic code; [`interrupt`] ends its waits.
//!
//! What each setting does, what it costs and where that is written: docs/reference/host-settings.md.

pub mod clock;
mod cpus;
mod error;
mod guard;
pub mod interrupt;
mod profile;
pub mod scheduling;
mod session;

pub use cpus::CpuSet;
pub use error::{Error, Result};
pub use guard::{Affinity, DmaLatency, LockedMemory, Scheduled, TimerSlack, prefault_stack};
pub use profile::{Profile, Realtime};
pub use scheduling::Scheduling;
pub use session::HeldSignals;

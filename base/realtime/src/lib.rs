//! Real-time settings of a thread or process, each a guard: undone on drop, and by the kernel when the
//! process exits. [`Profile::enter`] applies all of them. Settings of the host and of interfaces, which
//! outlive the process: `onbeat_host::settings`.
//!
//! ```no_run
//! use onbeat_realtime::Profile;
//!
//! # fn main() -> onbeat_realtime::Result<()> {
//! // In the cyclic thread. All settings are undone when `_realtime` is dropped.
//! let _realtime = Profile::control_loop().on_cpus("1".parse()?).enter()?;
//! # Ok(())
//! # }
//! ```
//!
//! [`clock`]: clocks for cyclic code; [`interrupt`]: termination of waits by signals.
//!
//! Effect, cost and source of each setting: docs/reference/host-settings.md.

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
pub use guard::{Affinity, DmaLatency, LockedMemory, SchedulingGuard, TimerSlack, prefault_stack};
pub use profile::{CONTROL_LOOP, Profile, Realtime};
pub use scheduling::Scheduling;
pub use session::BlockedSignals;

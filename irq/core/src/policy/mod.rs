//! The guard's decisions: the priority of each device's bottom half, and what a process's traffic
//! may cost.
//!
//! Pure: who waits for what goes in, what is to be changed comes out; time is passed in. After
//! "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006), whose steps are:
//!
//! 1. Candidates: the processes that wait for device D ([`Policy::wait`]).
//! 2. Prediction: the highest priority among them, rho_max(D), is that of D's bottom half
//!    ([`Policy::changes`]).
//! 3. The bottom half runs if its priority is above that of what runs, and waits otherwise
//!    ([`runs_now`]). On a stock kernel the bottom half is a thread of NAPI, and the kernel's own
//!    scheduler does this.

mod bottom_half;
mod budget;
mod rank;

pub use bottom_half::{Change, ConfigError, Policy, Reason, Settings};
pub use budget::{Budget, Limit, Meter};
pub use rank::{ParseRankError, Rank};

/// Step 3: whether a bottom half runs at once, or lets what runs go on.
///
/// Equal ranks: what runs goes on, as the kernel has it for SCHED_FIFO. Between threads of the
/// normal policies it is the kernel's share that decides, and this only says who has the greater.
#[must_use]
pub fn runs_now(bottom_half: Rank, running: Rank) -> bool {
    bottom_half > running
}

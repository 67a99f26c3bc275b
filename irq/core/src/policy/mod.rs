//! Decisions of the guard: the priority of each device's softirq work, and budgets of processes.
//!
//! Pure: it receives the waiting processes and the time, and returns the changes. After "Process-aware
//! Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006), whose steps are:
//!
//! 1. Candidates: the processes that wait for device D ([`Policy::add_waiter`]).
//! 2. Prediction: the highest priority among them, rho_max(D), is that of D's bottom half
//!    ([`Policy::changes`]).
//! 3. The bottom half runs if its priority is above that of the running task, and waits otherwise
//!    ([`runs_now`]). On a stock kernel the bottom half is a NAPI thread, and the kernel's
//!    scheduler does this.

mod budget;
mod priority;
mod rank;

pub use budget::{Budget, Limit, Meter, Offer};
pub use priority::{Change, ConfigError, Policy, Reason, Settings};
pub use rank::{ParseRankError, Rank};

/// Step 3: whether a device's softirq work preempts the running task.
///
/// With equal ranks the running task continues, as under SCHED_FIFO. Between threads of the normal policies the
/// kernel divides time by share; this only reports which has the greater share.
#[must_use]
pub fn runs_now(bottom_half: Rank, running: Rank) -> bool {
    bottom_half > running
}

//! Settings of this thread or process: each is a guard that restores the former value on drop.

mod latency;
mod memory;
mod stack;
mod thread;

pub use latency::DmaLatency;
pub use memory::LockedMemory;
pub use stack::prefault_stack;
pub use thread::{Affinity, SchedulingGuard, TimerSlack};

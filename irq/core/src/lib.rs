//! Softirq time: charged to the processes that cause it, scheduled by the processes that wait for it.
//!
//! After "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006). Pure: it receives events
//! and names, and returns accounts, tables and decisions.
//!
//! - [`charge`]: the ledger.
//! - [`Interval`]: changes of the ledger in an interval of time.
//! - [`names`]: names of processes, devices and drop reasons.
//! - [`view`]: the ledger as a table.
//! - [`recording`]: the ledger over time, as lines of JSON.
//! - [`policy`]: the priority of each device's softirq work, and budgets of processes.

#![forbid(unsafe_code)]

mod interval;

pub mod charge;
pub mod names;
pub mod policy;
pub mod recording;
pub mod view;

pub use interval::{Interval, OwnCost, TICK_NS, Tick};

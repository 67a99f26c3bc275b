//! Softirq time: charged to the processes that cause it, scheduled by those that wait for it.
//!
//! After "Process-aware Interrupt Scheduling and Accounting" (Zhang, West, RTSS 2006). Pure: events and
//! names are passed in, accounts, tables and decisions come out.
//!
//! - [`charge`]: the ledger.
//! - [`Interval`]: what is added to the ledger in a stretch of time.
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

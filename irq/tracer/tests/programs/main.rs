//! The ledger against real programs. The truth is not the ledger's: the run time of the NAPI thread that only receives
//! for this device, and the counts of the programs that send.
//!
//! ```text
//!   sender: "s0" 10.9.0.1 --------- receiver: "r0" 10.9.0.2, in a thread of NAPI
//! ```

#[allow(dead_code, reason = "it is shared with other tests")]
#[path = "../kernel/control_group.rs"]
mod control_group;
#[allow(dead_code, reason = "it is shared with other tests")]
#[path = "../kernel/harness.rs"]
mod harness;
#[allow(dead_code, reason = "it is shared with other tests")]
#[path = "../kernel/reader.rs"]
mod reader;

mod datagrams;
mod demand;
mod judge;
mod names;
mod taps;
mod victim;
mod web;

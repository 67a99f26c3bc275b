//! Ethernet POWERLINK (EPSG DS 301) as machines without a clock or a socket.
//!
//! A node receives frames and the time, returns frames and events, and reports its next deadline. Times are
//! nanoseconds of any monotonic clock.
//!
//! ```text
//!   frames in ──► cn::ControlledNode ──► frames out
//!   time in   ──► mn::ManagingNode   ──► events
//!                      │
//!        nmt states   dll cycle, losses and their counters
//!        pdo process data <-> objects   sdo a peer's access to objects
//!                     od objects
//! ```
//!
//! - [`od`]: the object dictionary, with the parameters of all other modules.
//! - [`cn`]: a controlled node. [`mn`]: a managing node.
//! - [`code`]: error codes.
//! - [`diagnostic`]: a device that accesses objects of a node by SDO.
//! - [`ethernet`]: frames of other protocols on the bus.
//! - [`network`]: the description of a network, and the nodes built from it.
//! - [`observe`]: analysis of a bus by its frames.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod asynchronous;
pub mod cn;
pub mod code;
pub mod diagnostic;
pub mod dll;
pub mod ethernet;
mod frame;
pub mod mn;
pub mod network;
pub mod nmt;
mod node;
pub mod observe;
pub mod od;
pub mod pdo;
mod report;
pub mod sdo;

pub use frame::MIN_LEN;
pub use node::Node;

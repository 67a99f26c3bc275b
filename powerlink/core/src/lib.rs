//! Ethernet POWERLINK (EPSG DS 301) as machines without a clock or a socket.
//!
//! A node takes frames and the time, gives frames and events, and says when it wants to be called
//! again. Times are nanoseconds of any clock that does not go back.
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
//! - [`od`]: the object dictionary, from which everything else takes its parameters.
//! - [`cn`]: a controlled node. [`mn`]: a managing node.
//! - [`code`]: what goes wrong, as nodes tell it.
//! - [`ethernet`]: frames of other protocols on the bus.
//! - [`network`]: a network described, and the nodes that follow from it.
//! - [`observe`]: what a bus does, told from its frames.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod asynchronous;
pub mod cn;
pub mod code;
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
pub mod sdo;

pub use frame::MIN_LEN;
pub use node::Node;

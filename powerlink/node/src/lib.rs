//! POWERLINK at the edge: nodes on ports, and what a bus does as figures.
//!
//! ```text
//!   File (TOML) ──► network::Network ──► ControlledNode, ManagingNode    pure
//!                                              │
//!   open ──► Port ──────────────────────► Runner ──► Bus ──► figures     one thread
//!                                              │
//!                                         the process: an application, or a Simulation
//! ```
//!
//! - [`File`]: a network, and where its nodes run.
//! - [`Runner`]: a node on a port. In a cycle like the one before it takes no memory.
//! - [`Simulation`]: inputs and outputs for a node that has none.
//! - [`Bus`]: what a bus does, from its frames.
//!
//! `examples/axis.rs` is a controlled node with a process of its own.
#![forbid(unsafe_code)]

mod bus;
mod file;
mod launcher;
mod outcome;
mod port;
mod responder;
mod runner;
mod sender;
mod simulation;
mod start;
mod station;
mod store;
mod virtual_ethernet;

pub use bus::Bus;
pub use file::{File, Host, NodeHost};
pub use port::open;
pub use runner::{Counts, Runner};
pub use sender::Sender;
pub use simulation::{Pattern, Simulation};
pub use start::{Place, StartError};
pub use station::Station;
pub use virtual_ethernet::Passed;

//! POWERLINK nodes on ports, and metrics of a bus.
//!
//! ```text
//!   File (TOML) ──► network::Network ──► ControlledNode, ManagingNode    pure
//!                                              │
//!   open ──► Port ──────────────────────► Runner ──► Bus ──► figures     one thread
//!                                              │
//!                                         the process: an application, or a Simulation
//! ```
//!
//! - [`File`]: a network, and the hosts of its nodes.
//! - [`Runner`]: a node on a port. Repeated cycles need no allocation.
//! - [`Simulation`]: simulated inputs and outputs.
//! - [`Bus`]: metrics of a bus from its frames; [`Sniffer`]: those of a capture, or live.
//! - [`ObjectClient`]: reads and writes objects of a node by SDO.
//! - [`Session`]: a node of a file from its start to its result.
//!
//! `examples/axis.rs` is a controlled node with its own process.
#![forbid(unsafe_code)]

mod ahead;
mod bus;
mod client;
mod datagrams;
mod description;
mod error;
mod expected;
mod file;
mod lateness;
mod launcher;
mod lead;
mod left_out;
mod limits;
mod metrics;
mod outcome;
mod port;
mod progress;
mod realtime;
mod responder;
mod runner;
mod sender;
mod session;
mod simulation;
mod sniffer;
mod start;
mod station;
mod store;
mod transmitter;
mod virtual_ethernet;

pub use bus::Bus;
pub use client::{ClientError, ObjectClient};
pub use error::StartError;
pub use file::{File, Host, NodeHost, Project, ProjectFileError};
pub use port::open;
pub use runner::{Counts, Runner};
pub use sender::Sender;
pub use session::{Session, SessionError};
pub use simulation::{Pattern, Simulation};
pub use sniffer::{SniffError, Sniffer, capture_bypass};
pub use start::NodePlacement;
pub use station::Station;
pub use virtual_ethernet::EthernetCounts;

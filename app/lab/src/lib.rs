//! Networks on one machine: namespaces, traffic, faults, scenarios, benches.
//!
//! ```text
//! topology --> world (namespaces, links, nodes) <-- fault (cuts, impaired wires)
//!                |
//!              traffic (source --> sink --> delivery)
//!                |
//!              scenario --> onbeat_report::Outcome
//!              shell --> user
//! ```
//!
//! A [`World`] holds all namespaces, links and nodes: however its process exits, even killed, the
//! kernel removes them.

pub mod bench;
mod child;
pub mod cpus;
mod error;
pub mod fault;
pub mod load;
mod programs;
mod rounds;
pub mod scenario;
pub mod shell;
pub mod topology;
pub mod traffic;
mod worker;
pub mod world;

pub use error::{Error, Result};
pub use topology::Topology;
pub use world::World;

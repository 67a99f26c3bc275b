//! Plans of a network: from nodes, links and streams to disjoint paths, delays, windows and the files of the nodes.
//!
//! ```text
//! net.toml ─► input ─► network ─► plan ─► graph, groups, trees ─► routes ─► delay, window
//!                                   │                                           │
//!                                   └─► manifest, node_file, report, picture, failure ◄─┘
//! ```
//!
//! It uses no clock, no socket and no kernel. `Network::load` alone reads a file; the caller writes all others.
#![forbid(unsafe_code)]

mod blocks;
pub mod bridge;
mod color_graph;
pub mod delay;
pub mod difference;
pub mod failure;
pub mod graph;
pub mod groups;
pub mod import;
pub mod input;
pub mod labels;
pub mod ladder;
pub mod manifest;
pub mod network;
pub mod node_file;
mod passage;
pub mod picture;
pub mod plan;
mod queue;
pub mod report;
pub mod route;
pub mod trees;
pub mod window;

pub use network::Network;
pub use plan::Plan;

#[cfg(test)]
mod tests;

//! Nodes with recorded frames, and two nodes on a cable without delay.

mod automatic;
mod common;
mod configuration;
mod datagram;
mod ethernet;
mod foreign;
mod hostile;
mod jitter;
mod launch;
mod observe;
mod project;
mod published;
mod replay_cn;
mod replay_mn;
mod reported;
mod reset;
mod sdo;
mod server;

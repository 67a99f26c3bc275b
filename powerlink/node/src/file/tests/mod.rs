//! Network files, by subject.

mod ability;
mod device;
mod errors;
mod keys;
mod project;

/// A network without its nodes.
const NETWORK: &str = "[network]\ncycle-us = 1000\n";

//! Interfaces and namespaces of this kernel.

mod common;
mod ethtool;
mod identity;
mod link;
mod monitor;
mod namespace;
mod tap;
mod xdp;

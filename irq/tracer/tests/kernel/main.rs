//! The ledger in the kernel, on real packets between namespaces of our own.

mod differential;
mod flow;
mod harness;
mod many;
mod owners;
mod reader;
mod sample;
mod unowned;
mod xdp;

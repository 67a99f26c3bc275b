//! The ledger in the kernel, with packets between network namespaces.

mod control_group;
mod differential;
mod flow;
mod harness;
mod many_processes;
mod owners;
mod preempted;
mod queues;
mod reader;
mod refused;
mod sample;
mod unowned;
mod xdp;

//! Ports on veth pairs, by file one back end or one property of all.

mod allocation;
mod backends;
mod claim;
mod common;
mod ethercat;
mod exclusive;
mod packet;
mod program;
mod tap;
mod txtime;
mod xdp;
mod xsk;

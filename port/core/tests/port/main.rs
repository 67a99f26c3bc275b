//! Ports on veth pairs, by file one back end or one property of all.

mod allocation;
mod backends;
mod capture;
mod claim;
mod common;
mod ethercat;
mod exclusive;
mod packet;
mod program;
mod txtime;
mod xdp;
mod xsk;

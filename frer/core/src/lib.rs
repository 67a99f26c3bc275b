//! IEEE 802.1CB functions as pure code: no clock, no socket, no kernel.
//!
//! The path of a frame through the modules: [`identify`] maps it to a member stream, [`generate`] numbers it
//! at a talker, [`recover`] decides at a listener whether it is the first replica. [`latent`] detects lost
//! redundancy. [`counters`] defines the counters of all functions, [`reading`] the state that a data plane
//! reports, [`watch`] the events derived from it, [`adapt`] the parameters of recovery. [`prp`] and [`wildcard`] make all
//! frames of a port redundant. [`plane`] combines the functions into one node. [`spec`] is
//! the configuration of a data plane, [`validate`] its rules, [`dataplane`] the interface of each data plane.
//!
//! Time is passed in as nanoseconds of a monotonic clock; `next_deadline` returns the time of the next
//! action.
#![no_std]
// Except for one instruction, see prefetch.
#![deny(unsafe_code)]

extern crate alloc;

pub mod adapt;
pub mod counters;
pub mod dataplane;
pub mod generate;
mod history;
pub mod identify;
pub mod latent;
pub mod paths;
pub mod plane;
mod prefetch;
pub mod prp;
pub mod reading;
pub mod recover;
pub mod spec;
pub mod validate;
pub mod watch;
pub mod wildcard;

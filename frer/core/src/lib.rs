//! IEEE 802.1CB functions as pure code: no clock, no socket, no kernel.
//!
//! A frame's way through the modules: [`identify`] tells which member stream it is of,
//! [`generate`] numbers it at a talker, [`recover`] decides at a listener whether it is the first
//! replica. [`latent`] watches whether the redundancy is still there, [`counters`] is what all of
//! them count, [`reading`] how that is told, [`watch`] what of it somebody should know of. [`plane`]
//! is all of it at work. [`spec`] is the description that a data plane is given, [`validate`] its
//! rules, [`dataplane`] the interface of each.
//!
//! Time is passed in as nanoseconds of a monotonic clock; what has to happen later comes out of
//! `next_deadline`.
#![no_std]
// But for one instruction: see prefetch.
#![deny(unsafe_code)]

extern crate alloc;

pub mod counters;
pub mod dataplane;
pub mod generate;
mod history;
pub mod identify;
pub mod latent;
pub mod plane;
mod prefetch;
pub mod reading;
pub mod recover;
pub mod spec;
pub mod validate;
pub mod watch;

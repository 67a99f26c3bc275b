//! IEEE 802.1CB functions as pure code: no clock, no socket, no kernel.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod spec;

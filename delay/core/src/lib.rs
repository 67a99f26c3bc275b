//! What a packet waits in one hop, with an honest error and an upper bound.
//!
//! The paper is Vondrouš, Macejko, Kocur: *On limits of embedded systems in network packet
//! processing* (2016); its equations and tables are named where they are used.
//!
//! ```text
//! two captures, or a mirror ── capture ── key ── matching ──┬── stats, change
//!                              (octets,   (what  (arrival,  ├── clocks      collected: all that
//!                               time)      a hop  departure,├── tail        a report shows
//!                                          leaves) verdict) └── correction
//!                                 │ a sample of either side
//!                             diagnosis: why packets do not match, how to read them so that they do
//!
//! waveform ── scope ── frames, matched ── the same
//! probes ── probe ── four times each ──── the same
//! ```
//!
//! Pure: no clock, no socket. Files come as [`std::io::Read`], time as nanoseconds that whoever
//! captured it stamped. Nothing here holds a whole file.
//!
//! Times are `i64` nanoseconds of the epoch of their clock, delays `i64` nanoseconds: a delay that
//! is negative is a fault of clocks, and told as one.
#![forbid(unsafe_code)]

pub mod capture;
pub mod change;
pub mod clocks;
pub mod summary;
pub mod correction;
pub mod diagnosis;
pub mod key;
pub mod matching;
pub mod over_time;
pub mod pairing;
pub mod probe;
pub mod scope;
pub mod stats;
pub mod strays;
pub mod synthetic;
pub mod tail;

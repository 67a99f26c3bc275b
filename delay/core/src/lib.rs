//! Per-hop packet delay, with confidence intervals and an upper bound.
//!
//! The paper is Vondrouš, Macejko, Kocur: *On limits of embedded systems in network packet processing* (2016); its
//! equations and tables are cited where they are used.
//!
//! ```text
//! two captures, or a mirror ── capture ── key ── matching ──┬── stats, change
//!                              (octets,   (fields (arrival, ├── clocks      summary: all figures
//!                               time)      a hop   departure├── tail        of a report
//!                                          keeps)  verdict) └── correction
//!                                 │ a sample of each side
//!                             diagnosis: causes of unmatched packets, and their remedies
//!
//! waveform ── scope ── frames, matched ── the same
//! probes ── probe ── four times each ──── the same
//! ```
//!
//! Pure: no clock, no socket. Files are read by [`std::io::Read`], times are nanoseconds of the capturing clock. No
//! file is held in memory as a whole.
//!
//! Times are `i64` nanoseconds of the epoch of their clock, delays are `i64` nanoseconds: a negative delay is a
//! clock fault, and reported as one.
#![forbid(unsafe_code)]

pub mod capture;
pub mod change;
pub mod clocks;
pub mod correction;
pub mod diagnosis;
pub mod inflation;
pub mod key;
pub mod matching;
pub mod pairing;
pub mod probe;
pub mod scope;
pub mod stats;
pub mod strays;
pub mod summary;
pub mod synthetic;
pub mod tail;
pub mod timeline;

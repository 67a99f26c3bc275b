//! Captures, keys, matching, clocks, distributions and probes, against truth and other programs.

mod authenticated;
mod bombs;
mod captures;
mod clocks;
mod coverage;
mod damaged;
mod diagnosis;
mod key;
mod matching;
mod mirror;
mod probe;
mod reference;
mod scope;
mod stats;
mod tail;

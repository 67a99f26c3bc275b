//! Methods that measure packet delay: from options to an [`onbeat_report::Outcome`] and files of samples.
//!
//! - [`MatchOptions`], [`MirrorOptions`], [`ScopeOptions`], [`PingOptions`]: the options of a [`Method`], which
//!   measures a path with the hop and without.
//! - [`calibrate()`]: the correction that a method measures without the hop.
//! - [`HooksOptions`]: the stages of packets in this host.
//! - [`EchoOptions`]: the reflector of probes.
//! - [`captures`]: captures as files or standard input.
//!
//! Progress and interrupts are those of the process; errors name the option or the file, and the remedy.

#![forbid(unsafe_code)]

mod calibrate;
#[cfg(test)]
mod capture_faults;
pub mod captures;
mod clock;
mod command_line;
mod compare;
mod correction;
mod echo;
mod error;
mod filter;
mod hooks;
mod method;
mod mirror;
mod options;
mod outcome;
mod ping;
mod reading;
mod requirement;
mod samples;
mod scope;
mod selection;
mod sink;
mod thread_options;
mod two_captures;

pub use calibrate::calibrate;
pub use clock::ClockCondition;
pub use compare::CompareOptions;
pub use echo::EchoOptions;
pub use error::{Error, Result};
pub use hooks::HooksOptions;
pub use method::{Method, MethodResult};
pub use mirror::MirrorOptions;
pub use options::ReportOptions;
pub use ping::{PingOptions, clock_error};
pub use scope::ScopeOptions;
pub use two_captures::MatchOptions;

//! Configuration files: TOML that is read as a whole, with every fault in it noted at once, each with
//! its place, key, value and remedy.
//!
//! ```text
//!   file::load ──► file::parse ──► reader::Table, Value ──► what the file means
//!                                        └─► reader::Faults ──► diagnostic::ConfigError, Warnings
//! ```
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod file;
pub mod interface;
pub mod reader;
pub mod realtime;
pub mod suggest;
pub mod text;

pub use diagnostic::{ConfigError, Source, Warnings};
pub use file::LoadError;
pub use reader::{Faults, Table, Value};

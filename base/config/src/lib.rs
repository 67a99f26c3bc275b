//! Configuration files: TOML that is read as a whole; all faults are reported together, each with its
//! location, key, value and remedy.
//!
//! ```text
//!   file::load ──► file::parse ──► reader::Table, Value ──► configuration of the feature
//!                                        └─► reader::Faults ──► diagnostic::ConfigError, Warnings
//! ```
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod file;
pub mod interface;
pub mod reader;
pub mod realtime;
pub mod suggestions;
pub mod text;

pub use diagnostic::{ConfigError, Source, Warnings};
pub use file::LoadError;
pub use reader::{Faults, Table, Value};

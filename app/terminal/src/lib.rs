//! Command-line functions shared by `onbeat` and `onbeat-lab`.
//!
//! - [`program`]: main function of a program.
//! - [`exit`]: exit status, and errors on standard error.
//! - [`output`], [`ResultOptions`]: results as text, JSON and HTML.
//! - [`companion`]: the other program of the same installation.
//! - [`paths`]: checks that no output of a command line is one of its inputs.
//! - [`values`]: parsers of option values.
//! - [`version`]: version and commit.
//! - [`colors`], [`completions`], [`logging`], [`manual`].

#![forbid(unsafe_code)]

pub mod colors;
pub mod companion;
pub mod completions;
pub mod exit;
pub mod logging;
pub mod manual;
pub mod output;
pub mod paths;
pub mod program;
mod result_options;
pub mod values;
pub mod version;

pub use result_options::ResultOptions;

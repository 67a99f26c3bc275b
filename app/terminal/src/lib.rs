//! What the programs `onbeat` and `onbeat-lab` print and parse alike.
//!
//! - [`program`]: from the command line to the exit status.
//! - [`exit`]: exit status, and errors on standard error.
//! - [`output`], [`ResultOptions`]: results on standard output, as JSON, as a page.
//! - [`companion`]: the other program of the same installation.
//! - [`paths`]: no output of a command line is one of its inputs.
//! - [`values`]: values of options.
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

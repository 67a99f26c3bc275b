//! Helpers of tests, linked by no product: what a test cannot run without, temporary directories, unprivileged
//! processes, a process of a test's own, a packet socket that shares no code with what is tested, how often a thread
//! takes memory, a check of manual pages, the documents of the tree, and the readers of `vectors/`.
//!
//! A test that needs a privilege or a kernel feature begins with
//!
//! ```no_run
//! use onbeat_testing::{Feature, require};
//!
//! if !require(Feature::Root) {
//!     return;
//! }
//! ```
//!
//! Where the feature is missing, one line on standard error names the test and the feature. Where
//! `ONBEAT_REQUIRE_ALL=1` is set, as in continuous integration, the test fails instead: there, a
//! test that cannot run is a mistake of the set-up.

mod acl;
mod command;
mod directory;
mod feature;
mod foreign;
mod manual;
mod process;
mod raw_socket;
mod unprivileged;
mod veth;

pub mod documents;
pub mod memory;
pub mod vectors;

pub use acl::allow_writing;
pub use command::{Ran, command, root};
pub use directory::TemporaryDirectory;
pub use feature::{Feature, require, require_all, require_that};
pub use foreign::{ForeignProgram, Hold, Instruction};
pub use manual::faults_of_manual_pages;
pub use process::alone;
pub use raw_socket::RawSocket;
pub use unprivileged::Unprivileged;
pub use veth::veth_with_napi;

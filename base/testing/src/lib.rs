//! Helpers of tests, not linked by products: requirements of tests, temporary directories, unprivileged
//! processes, tests in a separate process, a packet socket that shares no code with the tested code, counting
//! of allocations, servers of etcd, a check of manual pages, the documents of the tree, and the readers of `vectors/`.
//!
//! A test that requires a privilege or a kernel feature starts with
//!
//! ```no_run
//! use onbeat_testing::{Feature, require};
//!
//! if !require(Feature::Root) {
//!     return;
//! }
//! ```
//!
//! If the feature is missing, a line on standard error names the test and the feature. With
//! `ONBEAT_REQUIRE_ALL=1`, as in continuous integration, the test fails instead: there, a test that cannot
//! run indicates a wrong set-up.

mod acl;
mod command;
mod directory;
mod feature;
mod foreign;
mod manual;
mod process;
mod promtool;
mod raw_socket;
mod unprivileged;
mod veth;

pub mod documents;
pub mod etcd;
pub mod memory;
pub mod powerlink;
pub mod prp;
pub mod python;
pub mod vectors;
pub mod wildcard;

pub use acl::allow_writing;
pub use command::{CommandOutput, command, root};
pub use directory::TemporaryDirectory;
pub use feature::{Feature, require, require_all, require_that};
pub use foreign::{AttachMethod, ForeignProgram, Instruction};
pub use manual::{faults_of_manual_pages, missing_documents, pages_without_a_link};
pub use process::alone;
pub use promtool::check_metrics;
pub use raw_socket::RawSocket;
pub use unprivileged::{UnprivilegedProcess, drop_capabilities};
pub use veth::veth_with_napi;

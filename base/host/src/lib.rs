//! Files of a privileged process that no other user can read, hold or plant, and bounded reading of
//! files that a user names ([`mod@file`]), also of those that a privileged command acts on ([`trust`]);
//! writing of files that a user names ([`output`]); settings of the host and of its interfaces
//! ([`settings`]); the clock that ptp4l keeps ([`ptp`]).
//!
//! ```text
//!  PrivateDirectory   opened without following symbolic links; owner and modes verified
//!    ├─ Lock          one process at a time; the kernel releases it when the process exits
//!    │    └─ InterfaceLock   a lock on a network interface, for any program that opens it; with a
//!    │                       NamespaceLock also between programs that do not share /run
//!    └─ Journal       values from before a change, so that a later process can restore them
//! ```
//!
//! A process takes a [`Lock`], writes a [`Journal`] before each change, and changes. After `kill -9`
//! the next process that takes the lock reads the journal and restores.
//!
//! Content of files is checked as untrusted input, although no other user can: the type of a
//! journal's content implements its rules ([`Content::check`]).

#![forbid(unsafe_code)]

/// The run-time directory of this program, of which everything belongs to it alone; with an argument,
/// a path in it.
#[macro_export]
macro_rules! run_directory {
    () => {
        "/run/onbeat"
    };
    ($below:literal) => {
        concat!($crate::run_directory!(), "/", $below)
    };
}

/// The run-time directory of this program.
pub const RUN: &str = run_directory!();

mod component;
mod directory;
mod error;
pub mod file;
mod holder;
mod interface;
mod journal;
mod lock;
mod namespace;
pub mod output;
pub mod ptp;
pub mod settings;
mod stream;
mod text;
pub mod trust;

pub use component::{make_directory, open_directory, remove_unfinished, replace};
pub use directory::PrivateDirectory;
pub use error::{Error, Result};
pub use holder::{Holder, command_line, is_stopped};
pub use interface::InterfaceLock;
pub use journal::{Content, Journal, discard_remedy};
pub use lock::Lock;
pub use namespace::NamespaceLock;
pub use stream::is_journal;
pub use text::{excerpt, shell_word};

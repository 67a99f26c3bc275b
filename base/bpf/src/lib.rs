//! BPF programs as parts of a crate, what loaders of them have in common, and what this kernel lets programs
//! see.
//!
//! - [`bpf_object`], [`bpf_skeleton`]: what the crate's build script (`onbeat-bpf-build`) made of its programs.
//! - [`Plain`]: values that programs and user space hold alike.
//! - [`Link`], [`ProgramInfo`]: programs at interfaces and tracepoints, of whomever.
//! - [`Mapped`]: an array in memory, whose words are read and written while programs run.
//! - [`Object`]: loads the programs of a file; their tables, variables and constants.
//! - [`Reasons`]: why the kernel drops packets.
//! - [`statistics`]: what programs cost.
//! - [`tracepoints`]: the tracepoints of this kernel.
//!
//! `bpf/` holds the headers that programs of several crates include: the kernel's structures, and the export of
//! types to Rust.

mod error;
mod link;
mod mapped;
mod object;
mod program;
mod reasons;

#[doc(hidden)]
pub mod embed;
pub mod statistics;
pub mod tracepoints;

pub use embed::Plain;
pub use error::{Error, Result};
pub use link::{Link, LinkInfo};
pub use mapped::Mapped;
pub use object::{Object, UnloadedObject};
pub use program::{ProgramInfo, Runs};
pub use reasons::Reasons;

//! BPF programs embedded in crates, common parts of their loaders, and features of this kernel.
//!
//! - [`bpf_object`], [`bpf_skeleton`]: output of the crate's build script (`onbeat-bpf-build`).
//! - [`PlainData`]: values shared by programs and user space.
//! - [`Link`], [`ProgramInfo`]: programs of any owner at interfaces and tracepoints.
//! - [`MappedArray`]: an array in memory, whose words are read and written while programs run.
//! - [`entries_of_process`]: what an iterator program writes for one process.
//! - [`Object`]: loads the programs of a file; their tables, variables and constants.
//! - [`Reasons`]: names of packet drop reasons.
//! - [`statistics`]: run time of programs.
//! - [`tracepoints`]: the tracepoints of this kernel.
//!
//! `bpf/` contains the headers that programs of several crates include: the kernel's structures, and the
//! export of types to Rust.

mod error;
mod group;
mod link;
mod mapped;
mod object;
mod process;
mod program;
mod reasons;

#[doc(hidden)]
pub mod embed;
pub mod statistics;
pub mod tracepoints;

pub use embed::PlainData;
pub use error::{Error, Result};
pub use group::root_group;
pub use link::{Link, LinkInfo};
pub use mapped::MappedArray;
pub use object::{Object, UnloadedObject};
pub use process::entries_of_process;
pub use program::{ProgramInfo, Runs};
pub use reasons::Reasons;

//! Two nodes that forward in user space, in network namespaces. Needs root.

mod allocation;
mod common;
mod forward;
mod frames;

onbeat_testing::count_allocations!();

//! Two nodes that forward in user space, in network namespaces. Requires root.

mod allocation;
mod common;
mod forwarding;
mod frames;

onbeat_testing::count_allocations!();

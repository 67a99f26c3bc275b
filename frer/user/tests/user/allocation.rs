//! Frames are forwarded without memory allocation.
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 B b0 ---- l0 listener
//!                     a2 ---- b2
//! ```

use crate::common::{ALL, DESTINATION, Node, TAG, World, frame};
use onbeat_frer_user::PollMode;
use onbeat_testing::{Feature, require_all};

/// Returns the number of allocations of a node's forwarding thread.
fn taken(node: &Node) -> u64 {
    node.forwarder().control().run(|_| onbeat_testing::memory::taken()).unwrap()
}

#[test]
fn no_frame_allocates_memory() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    for by in ALL {
        let world = World::new(PollMode::Sleep, by);
        let some = |from: u32, count: u32| {
            (from..from + count).for_each(|n| world.passes(&frame(DESTINATION, TAG, n, 200)));
        };
        // Received frames are written to preallocated memory.
        some(0, 1);
        let before = [&world.a, &world.b].map(taken);
        assert!(before[0] > 0, "allocations are counted");
        some(1, 1000);
        assert_eq!([&world.a, &world.b].map(taken), before, "{by:?}");
    }
}

//! Frames are forwarded without memory being taken.
//!
//! ```text
//!   talker t0 ---- a0 A a1 ---- b1 B b0 ---- l0 listener
//!                     a2 ---- b2
//! ```

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{ALL, DESTINATION, Node, TAG, World, frame};
use onbeat_frer_user::Poll;
use onbeat_netdev::testing::{Feature, require_all};

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, that counts for each thread how often it is asked.
struct Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.with(|taken| taken.set(taken.get() + 1));
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory comes from `alloc` above, which is the system's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often a node's forwarding thread has taken memory.
fn taken(node: &Node) -> u64 {
    node.forwarder().control().run(|_| TAKEN.get()).unwrap()
}

#[test]
fn no_frame_takes_memory() {
    if !require_all(&[Feature::Root, Feature::Veth]) {
        return;
    }
    for by in ALL {
        let world = World::new(Poll::Sleep, by);
        let some = |from: u32, count: u32| {
            (from..from + count).for_each(|n| world.passes(&frame(DESTINATION, TAG, n, 200)));
        };
        // What is waited for is written to memory that is kept.
        some(0, 1);
        let before = [&world.a, &world.b].map(taken);
        assert!(before[0] > 0, "memory taken is counted");
        some(1, 1000);
        assert_eq!([&world.a, &world.b].map(taken), before, "{by:?}");
    }
}

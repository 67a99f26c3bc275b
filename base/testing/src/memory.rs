//! Number of allocations of a thread, in a test binary with [`count_allocations!`](crate::count_allocations).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of allocations of this thread.
#[must_use]
pub fn taken() -> u64 {
    TAKEN.get()
}

/// Returns the number of allocations of `f`.
pub fn taken_by(f: impl FnOnce()) -> u64 {
    let before = taken();
    f();
    taken() - before
}

/// The system's allocator with a counter of allocations per thread.
#[derive(Debug)]
pub struct CountingAllocator;

// SAFETY: all calls are passed to the system's allocator unmodified.
unsafe impl GlobalAlloc for CountingAllocator {
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

/// Makes [`CountingAllocator`] the allocator of the test binary that has this line.
#[macro_export]
macro_rules! count_allocations {
    () => {
        #[global_allocator]
        static ALLOCATOR: $crate::memory::CountingAllocator = $crate::memory::CountingAllocator;
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::count_allocations!();

    #[test]
    fn allocations_are_counted_per_thread() {
        assert_eq!(taken_by(|| drop(std::hint::black_box(Box::new(1)))), 1);
        let mut room = Vec::with_capacity(1);
        assert_eq!(taken_by(|| room.push(1)), 0, "no allocation within the capacity");
        assert!(taken_by(|| room.push(2)) > 0, "grown");
        let elsewhere =
            std::thread::spawn(|| taken_by(|| drop(std::hint::black_box([[1; 9]; 9].to_vec()))));
        let joined = || assert_eq!(elsewhere.join().unwrap(), 1);
        assert_eq!(taken_by(joined), 0, "allocations of another thread");
    }
}

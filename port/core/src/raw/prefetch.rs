//! Prefetches of memory that the kernel writes next.

/// Octets of a cache line.
const LINE: usize = 64;

/// Prefetches `count` cache lines from `start` on into the second level, without waiting for them. Does nothing on
/// processors other than x86-64.
#[inline]
pub(super) fn lines(start: *const u8, count: usize) {
    for line in 0..count {
        let _at = start.wrapping_add(line * LINE).cast::<i8>();
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            // SAFETY: every x86_64 has SSE; a prefetch of any address only fills caches.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(_at) }
        }
    }
}

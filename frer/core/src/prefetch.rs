//! Prefetch: with more streams than the processor's caches hold, the data of a frame is requested while other
//! frames are processed.

/// Octets of a cache line.
pub(crate) const LINE: usize = 64;

/// Prefetches the first `count` cache lines of a value without waiting for them. Does nothing on processors
/// without that instruction.
#[inline]
#[allow(unsafe_code, reason = "no safe function exists for this instruction")]
pub(crate) fn lines<T>(of: &T, count: usize) {
    for line in 0..count.min(size_of::<T>().div_ceil(LINE)) {
        let _at = core::ptr::from_ref(of).cast::<i8>().wrapping_add(line * LINE);
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86_64 has SSE; a prefetch of any address only fills caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(_at) }
        }
    }
}

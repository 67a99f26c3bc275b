//! Fetching ahead: where there are more streams than a processor's caches hold, what a frame needs
//! is asked for while other frames are worked on.

/// Octets of a cache line.
pub(crate) const LINE: usize = 64;

/// Has the processor fetch the first `count` cache lines of a value, and does not wait for them.
/// Where it cannot be asked for that, nothing is done.
#[inline]
#[allow(unsafe_code, reason = "the one instruction that there is no safe name for")]
pub(crate) fn lines<T>(of: &T, count: usize) {
    for line in 0..count.min(size_of::<T>().div_ceil(LINE)) {
        let _at = core::ptr::from_ref(of).cast::<i8>().wrapping_add(line * LINE);
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86_64 has SSE; a prefetch of whatever address does nothing but fill
            // caches.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(_at) }
        }
    }
}

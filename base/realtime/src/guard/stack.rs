//! Prefaulting of stacks.

use std::hint::black_box;
use std::mem::MaybeUninit;

use nix::errno::Errno;

use crate::{Error, Result};

/// Minimum octets of stack per step of [`touch`]: the smallest page size.
const PAGE: usize = 4096;

/// Octets to leave below: frames of `touch` are larger than their content, and signals may occur.
const MARGIN: usize = 64 * 1024;

/// Touches `octets` octets of the calling thread's stack, so that their pages are in memory. With
/// [`crate::LockedMemory`] they stay there; the cost is that much RAM.
///
/// # Errors
/// [`Error::Stack`]: the stack is smaller.
pub fn prefault_stack(octets: usize) -> Result<()> {
    let here = std::ptr::from_ref(&octets).addr();
    let room = here.saturating_sub(lowest()?).saturating_sub(MARGIN);
    // In an unoptimized build a step uses more than its page.
    if octets.saturating_add(octets / 8) > room {
        return Err(Error::Stack { wanted: octets, room: room - room / 8 });
    }
    touch(octets.div_ceil(PAGE));
    Ok(())
}

/// Returns the lowest address of the calling thread's stack.
fn lowest() -> Result<usize> {
    let failed = |code| {
        Error::system("find the stack of the thread", Errno::from_raw(code), "free some memory")
    };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the calling thread lives, and `attributes` has room for what is written.
    let result = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if result != 0 {
        return Err(failed(result));
    }
    // SAFETY: a successful call has written the attributes.
    let mut attributes = unsafe { attributes.assume_init() };
    let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are those of above, and both places live across the call.
    let result =
        unsafe { libc::pthread_attr_getstack(&attributes, &raw mut lowest, &raw mut size) };
    // SAFETY: the attributes were made by pthread_getattr_np and are destroyed once.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    if result == 0 { Ok(lowest.addr()) } else { Err(failed(result)) }
}

#[inline(never)]
fn touch(pages: usize) {
    let mut page = [0_u8; PAGE];
    black_box(&mut page);
    if pages > 1 {
        touch(pages - 1);
    }
    // Prevents a tail call, which would use no stack.
    black_box(&page);
}

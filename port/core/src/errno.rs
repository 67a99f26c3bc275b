//! Results of system calls.

use std::io;

use libc::c_int;

/// A negative result as the error of this thread.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

//! Processes that do one thing, forked from this one.

use std::io;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::{Error, Result};

/// Starts a process that is at rest: it begins with SIGCONT. It ends with the thread that started
/// it, however that ends.
///
/// `task` makes system calls and nothing else: no memory is taken, no lock.
pub(crate) fn fork(task: impl FnOnce()) -> Result<Pid> {
    let parent = std::process::id();
    // SAFETY: the child makes system calls and ends; it takes neither memory nor locks, which
    // another thread may have held.
    match unsafe { libc::fork() } {
        -1 => Err(Error::io("start a process of the load", io::Error::last_os_error())),
        0 => {
            // SAFETY: system calls without pointers; _exit does not return.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // The parent may have ended before that.
                if libc::getppid() as u32 == parent {
                    libc::raise(libc::SIGSTOP);
                    task();
                }
                libc::_exit(0)
            }
        }
        child => Ok(Pid::from_raw(child)),
    }
}

/// Waits until a process has stopped.
pub(crate) fn at_rest(child: Pid) -> Result<()> {
    match waitpid(child, Some(WaitPidFlag::WUNTRACED)) {
        Ok(WaitStatus::Stopped(..)) => Ok(()),
        Ok(other) => Err(Error::Invalid(format!("a process of the load ended: {other:?}"))),
        Err(errno) => Err(Error::io("wait for a process of the load", errno)),
    }
}

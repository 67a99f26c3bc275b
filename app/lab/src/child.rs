//! Child processes with a single task.

use std::io;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use onbeat_irq::names;
use onbeat_irq_core::charge::Process;

use crate::{Error, Result};

/// A child process. It is killed when this value is dropped, or when the thread that started it exits.
#[derive(Debug)]
pub(crate) struct Child(Pid);

impl Child {
    /// Forks a child that stops at once, and starts with [`Child::resume`].
    ///
    /// `task` makes system calls only: it allocates no memory and takes no lock.
    pub(crate) fn fork(task: impl FnOnce()) -> Result<Self> {
        let parent = std::process::id();
        // SAFETY: the child makes system calls and exits; it neither allocates memory nor takes locks,
        // which another thread may have held.
        match unsafe { libc::fork() } {
            -1 => Err(Error::io("fork a process", io::Error::last_os_error())),
            0 => {
                // SAFETY: system calls without pointers; _exit does not return.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    // The parent may have exited before the call.
                    if libc::getppid() as u32 == parent {
                        libc::raise(libc::SIGSTOP);
                        task();
                    }
                    libc::_exit(0)
                }
            }
            child => Ok(Self(Pid::from_raw(child))),
        }
    }

    /// The process id.
    pub(crate) fn pid(&self) -> Pid {
        self.0
    }

    /// The process as identified by the ledger.
    pub(crate) fn process(&self) -> Result<Process> {
        let found = names::process(self.0.as_raw() as u32);
        found.ok_or_else(|| Error::Invalid(format!("process {} is not in /proc", self.0)))
    }

    /// Waits until it has stopped.
    pub(crate) fn wait_stopped(&self) -> Result<()> {
        match waitpid(self.0, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => Ok(()),
            Ok(other) => {
                Err(Error::Invalid(format!("a forked process exited: {}", exit_text(other))))
            }
            Err(errno) => Err(Error::io("wait for a forked process", errno)),
        }
    }

    /// Resumes it.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Stops it, asynchronously.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Kills it, asynchronously; the drop waits for its exit.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::SIGKILL)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.0, signal)
            .map_err(|errno| Error::io(format!("send {signal} to a forked process"), errno))
    }
}

/// Exit status or signal, for messages.
fn exit_text(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, status) => format!("status {status}"),
        WaitStatus::Signaled(_, signal, _) => format!("signal {signal}"),
        _ => "unexpected state".into(),
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = waitpid(self.0, None);
    }
}

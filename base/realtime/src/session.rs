//! Sessions with settings that end with them: signals must not terminate the process during a change.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;

use crate::{Error, Result};

/// Signals that request termination.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];

/// Blocks the termination signals while it exists: a change in progress is finished or undone. Pending
/// signals take effect on drop.
///
/// It applies to the creating thread and threads started later: create it before any other.
#[derive(Debug)]
pub struct BlockedSignals {
    before: SigSet,
    waited_for: SigSet,
}

impl BlockedSignals {
    /// Blocks the signals.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn begin() -> Result<Self> {
        let waited_for: SigSet = ENDING.into_iter().chain([Signal::SIGCHLD]).collect();
        let before = SigSet::thread_get_mask().map_err(refused)?;
        waited_for.thread_block().map_err(refused)?;
        Ok(Self { before, waited_for })
    }

    /// Waits for a termination signal and consumes it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait(&self) -> Result<Signal> {
        loop {
            let signal = self.waited_for.wait().map_err(refused)?;
            if ENDING.contains(&signal) {
                return Ok(signal);
            }
        }
    }

    /// Waits like [`BlockedSignals::wait`], for at most `timeout`; `None`: no signal.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait_for(&self, timeout: Duration) -> Result<Option<Signal>> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = TimeSpec::from(deadline.saturating_duration_since(Instant::now()));
            let set = self.waited_for.as_ref();
            // SAFETY: a set and a time that outlive the call; no signal information is requested.
            let number = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), left.as_ref()) };
            match Errno::result(number).and_then(Signal::try_from) {
                Ok(signal) if ENDING.contains(&signal) => return Ok(Some(signal)),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(refused(errno)),
            }
        }
    }

    /// A descriptor that is readable while a termination signal is pending; [`BlockedSignals::wait_for`] consumes the
    /// signal.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn descriptor(&self) -> Result<OwnedFd> {
        let ending: SigSet = ENDING.into_iter().collect();
        let descriptor = SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC);
        descriptor.map(OwnedFd::from).map_err(refused)
    }

    /// Runs a command until it exits. The terminal sends it Ctrl-C; this process forwards the other
    /// termination signals.
    ///
    /// # Errors
    /// [`Error::System`]: it cannot be started.
    pub fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let before = self.before;
        // SAFETY: between fork and exec the closure sets the signal mask and nothing else, which is a
        // bare system call: no allocation, no lock.
        unsafe {
            command.pre_exec(move || before.thread_set_mask().map_err(std::io::Error::from));
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |operation: &str, source: std::io::Error| {
            let remedy = match source.kind() {
                ErrorKind::PermissionDenied => "make it executable",
                _ => "give a program in PATH, or its path",
            };
            Error::system(format!("{operation} {program:?}"), source, remedy)
        };
        let mut child = command.spawn().map_err(|error| failed("start", error))?;
        loop {
            if let Some(status) = child.try_wait().map_err(|error| failed("wait for", error))? {
                return Ok(status);
            }
            let signal = self.waited_for.wait().map_err(refused)?;
            if matches!(signal, Signal::SIGTERM | Signal::SIGHUP) {
                pass_on(&child, signal);
            }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // Not reachable: the mask was valid before.
        let _ = self.before.thread_set_mask();
    }
}

/// Forwards a signal; errors mean that the child has exited.
fn pass_on(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

fn refused(errno: Errno) -> Error {
    Error::system("block signals", errno, "omit --hold")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_start_is_reported_with_the_remedy_of_the_cause() {
        let signals = BlockedSignals::begin().unwrap();
        for (program, remedy) in [
            ("/no-such-program", "give a program in PATH, or its path"),
            ("/dev/null", "make it executable"),
        ] {
            let error = signals.run(&mut Command::new(program)).unwrap_err().to_string();
            assert!(error.contains(program) && error.ends_with(remedy), "{error}");
        }
    }
}

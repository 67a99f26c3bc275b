//! A process that reads a flow, so that there is somebody to charge.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use onbeat_irq::charge::Process;
use onbeat_irq::names;

use super::flow::Flow;
use crate::{Error, Result};

/// Longest wait for what it is told to read.
const BOUND: Duration = Duration::from_secs(10);

/// It ends with this value, or with the thread that started it. It has all descriptors of this process,
/// those of a tracer that runs meanwhile among them.
#[derive(Debug)]
pub(super) struct Reader {
    pid: Pid,
    control: UnixStream,
    pub(super) process: Process,
}

impl Reader {
    pub(super) fn start(flow: &Flow) -> Result<Self> {
        let failed = |error: io::Error| Error::io("start a process that reads", error);
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        control.set_read_timeout(Some(BOUND)).map_err(failed)?;
        let parent = std::process::id();
        // SAFETY: the child makes system calls and ends; it takes neither memory nor locks, which
        // another thread may have held.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(failed(io::Error::last_os_error())),
            0 => serve(flow.reader.as_raw_fd(), theirs.as_raw_fd(), parent),
            pid => pid,
        };
        let process = names::process(pid as u32);
        let reader = |process| Self { pid: Pid::from_raw(pid), control, process };
        process.map(reader).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
    }

    /// Has it read so many octets.
    pub(super) fn begin(&mut self, octets: u32) -> Result<()> {
        let sent = self.control.write_all(&octets.to_ne_bytes());
        sent.map_err(|error| Error::io("tell a process to read", error))
    }

    /// Waits until it has.
    pub(super) fn finish(&mut self) -> Result<()> {
        let read = self.control.read_exact(&mut [0]);
        read.map_err(|error| Error::io("wait for a process that reads (were packets lost?)", error))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn serve(socket: RawFd, control: RawFd, parent: u32) -> ! {
    let mut room = [0u8; 1 << 16];
    // SAFETY: every pointer is to memory of the length that goes with it, on this stack; and the
    // process ends by _exit, whatever happens.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
        loop {
            let mut octets = [0u8; 4];
            if libc::read(control, octets.as_mut_ptr().cast(), 4) != 4 {
                libc::_exit(0);
            }
            let mut left = i64::from(u32::from_ne_bytes(octets));
            while left > 0 {
                let read = libc::recv(socket, room.as_mut_ptr().cast(), room.len(), 0);
                if read <= 0 {
                    libc::_exit(1);
                }
                left -= read as i64;
            }
            if libc::write(control, room.as_ptr().cast(), 1) != 1 {
                libc::_exit(1);
            }
        }
    }
}

//! A process that reads a socket.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq::charge::Process;

use crate::harness::process;

/// A child that reads what it is told to from a socket that it has inherited. It is killed when
/// this is dropped.
pub(crate) struct Reader {
    pid: Pid,
    control: UnixStream,
    pub(crate) process: Process,
}

impl Reader {
    pub(crate) fn of(socket: &impl AsRawFd) -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // SAFETY: the child makes system calls only, and ends without running anything of ours.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => serve(socket.as_raw_fd(), theirs.as_raw_fd()),
            ForkResult::Parent { child } => {
                Self { pid: child, control, process: process(child.as_raw() as u32) }
            }
        }
    }

    /// Has it read so many packets of a datagram socket, or octets of a stream.
    pub(crate) fn begin(&mut self, units: u32) {
        self.control.write_all(&units.to_ne_bytes()).unwrap();
    }

    /// Waits until it has.
    pub(crate) fn finish(&mut self) {
        self.control.read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = kill(self.pid, Signal::SIGKILL);
        let _ = waitpid(self.pid, None);
    }
}

fn serve(socket: RawFd, control: RawFd) -> ! {
    let mut kind: libc::c_int = 0;
    let mut length = size_of_val(&kind) as libc::socklen_t;
    let mut room = [0u8; 65536];
    // SAFETY: every pointer is to memory of the length that goes with it, on this stack; and the
    // process ends by _exit, whatever happens.
    unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_TYPE);
        let into = (&raw mut kind).cast();
        if libc::getsockopt(socket, level, name, into, &raw mut length) != 0 {
            libc::_exit(1);
        }
        loop {
            let mut units = [0u8; 4];
            if libc::read(control, units.as_mut_ptr().cast(), 4) != 4 {
                libc::_exit(0);
            }
            let mut left = u32::from_ne_bytes(units) as usize;
            while left > 0 {
                let most =
                    if kind == libc::SOCK_STREAM { left.min(room.len()) } else { room.len() };
                let read = libc::recv(socket, room.as_mut_ptr().cast(), most, 0);
                if read < 0 {
                    libc::_exit(1);
                }
                left -= if kind == libc::SOCK_STREAM { read as usize } else { 1 };
            }
            if libc::write(control, room.as_ptr().cast(), 1) != 1 {
                libc::_exit(1);
            }
        }
    }
}

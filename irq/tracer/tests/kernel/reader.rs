//! A process that reads a socket.

use std::ffi::CStr;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};
use onbeat_irq_core::charge::Process;

use crate::harness::{BOUND, process};

/// A child that reads on request from a socket that it has inherited. It is killed when this is dropped.
pub(crate) struct Reader {
    pid: Pid,
    control: UnixStream,
    pub(crate) process: Process,
}

/// A child has the descriptors of every test of this process: a socket that its test closes, or a program that
/// it detaches, stays. A test that counts such events then holds this lock.
pub(crate) fn without_forks() -> MutexGuard<'static, ()> {
    static FORKS: Mutex<()> = Mutex::new(());
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    pub(crate) fn of(socket: &impl AsRawFd) -> Self {
        Self::named(socket, None)
    }

    /// With its own name.
    pub(crate) fn named(socket: &impl AsRawFd, name: Option<&CStr>) -> Self {
        let _guard = without_forks();
        let mut reader = Self::fork(socket, name, true);
        // It has closed the others.
        reader.finish();
        reader
    }

    /// A reader that keeps all descriptors of this process open. The caller holds the lock of
    /// [`without_forks`].
    pub(crate) fn of_all(socket: &impl AsRawFd) -> Self {
        Self::fork(socket, None, false)
    }

    fn fork(socket: &impl AsRawFd, name: Option<&CStr>, close_others: bool) -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(BOUND)).unwrap();
        // SAFETY: the child makes system calls only, and exits without running any other code of the test.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                if let Some(name) = name {
                    // SAFETY: a string that outlives the call.
                    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
                }
                let (socket, control) = (socket.as_raw_fd(), theirs.as_raw_fd());
                if close_others {
                    close_all_but(socket, control);
                }
                serve(socket, control)
            }
            ForkResult::Parent { child } => {
                Self { pid: child, control, process: process(child.as_raw() as u32) }
            }
        }
    }

    /// Makes it wait for a packet, which it does not read, and returns once it waits.
    pub(crate) fn wait(&mut self) {
        self.begin(0);
        let channel = format!("/proc/{}/wchan", self.pid);
        let deadline = Instant::now() + BOUND;
        while !fs::read_to_string(&channel).unwrap().contains("poll") {
            assert!(Instant::now() < deadline, "the child does not wait");
            std::thread::yield_now();
        }
    }

    /// Makes it read `units` packets of a datagram socket, or octets of a stream.
    pub(crate) fn begin(&mut self, units: u32) {
        self.control.write_all(&units.to_ne_bytes()).unwrap();
    }

    /// Waits until it has read them.
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

/// Closes every descriptor after the standard ones except two, and writes an octet to the second.
fn close_all_but(socket: RawFd, control: RawFd) {
    let (low, high) = (socket.min(control) as u32, socket.max(control) as u32);
    // SAFETY: the process uses no other descriptor; the octet is on this stack.
    unsafe {
        for (first, last) in [(3, low - 1), (low + 1, high - 1), (high + 1, u32::MAX)] {
            if first <= last && libc::close_range(first, last, 0) != 0 {
                libc::_exit(1);
            }
        }
        if libc::write(control, [0u8].as_ptr().cast(), 1) != 1 {
            libc::_exit(1);
        }
    }
}

fn serve(socket: RawFd, control: RawFd) -> ! {
    let mut kind: libc::c_int = 0;
    let mut length = size_of_val(&kind) as libc::socklen_t;
    let mut room = [0u8; 65536];
    // SAFETY: every pointer is to memory of the length that goes with it, on this stack; and the process exits
    // by _exit in every case.
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
            let mut poll = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
            if left == 0 && libc::poll(&raw mut poll, 1, -1) != 1 {
                libc::_exit(1);
            }
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

//! A process that reads a flow, to which the ledger charges its cost.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use onbeat_irq_core::charge::Process;

use super::flow::Flow;
use crate::child::Child;
use crate::{Error, Result};

/// Maximum wait for packets that it shall read.
const BOUND: Duration = Duration::from_secs(10);

/// It inherits all descriptors of this process, including those of a running tracer.
#[derive(Debug)]
pub(super) struct Reader {
    _child: Child,
    control: UnixStream,
    pub(super) process: Process,
}

impl Reader {
    pub(super) fn start(flow: &Flow) -> Result<Self> {
        let failed = |error: io::Error| Error::io("start a process that reads", error);
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        control.set_read_timeout(Some(BOUND)).map_err(failed)?;
        let child = Child::fork(|| serve(flow.reader.as_raw_fd(), theirs.as_raw_fd()))?;
        child.wait_stopped()?;
        child.resume()?;
        Ok(Self { control, process: child.process()?, _child: child })
    }

    /// Makes it read this number of octets.
    pub(super) fn begin(&mut self, octets: u32) -> Result<()> {
        let sent = self.control.write_all(&octets.to_ne_bytes());
        sent.map_err(|error| Error::io("send a command to the reading process", error))
    }

    /// Waits until it has read them.
    pub(super) fn finish(&mut self) -> Result<()> {
        let read = self.control.read_exact(&mut [0]);
        read.map_err(|error| Error::io("wait for a process that reads (were packets lost?)", error))
    }
}

/// Reads the number of octets of each command, repeatedly.
fn serve(socket: RawFd, control: RawFd) {
    let mut room = [0u8; 1 << 16];
    let mut octets = [0u8; 4];
    // SAFETY: every pointer is to memory of the length that goes with it, on this stack.
    unsafe {
        while libc::read(control, octets.as_mut_ptr().cast(), 4) == 4 {
            let mut left = i64::from(u32::from_ne_bytes(octets));
            while left > 0 {
                let read = libc::recv(socket, room.as_mut_ptr().cast(), room.len(), 0);
                if read <= 0 {
                    return;
                }
                left -= read as i64;
            }
            if libc::write(control, room.as_ptr().cast(), 1) != 1 {
                return;
            }
        }
    }
}

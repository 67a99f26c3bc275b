//! What moves frames between interfaces without a port's slots, responses and confirmations: for
//! forwarding planes, which take everything that comes and send much of it on.
//!
//! | | in | out |
//! |---|---|---|
//! | packet sockets | [`PacketReceiver`]: a ring of copies | [`PacketSender`]: batches, around the qdisc |
//! | | [`CaptureSocket`]: a ring of copies of what comes and leaves, with when, for those who only look | |
//! | | [`NicStamps`]: has the NIC stamp what comes | |
//! | AF_XDP | [`XskReceiver`]: one queue of an interface | [`XskSender`] |
//!
//! Over AF_XDP all interfaces of a plane share one [`Umem`]: a frame that came in by one of them is
//! edited where it lies, and goes out by another without a copy. A [`Frame`] is the right to its
//! octets; the kernel has the chunks that no frame stands for, but for those in the [`Pool`].

mod capture;
mod clock;
mod extent;
mod packet;
mod stamping;
mod umem;
mod xsk;

use std::os::fd::{AsFd, AsRawFd};

pub use capture::{CaptureClock, CaptureOptions, CaptureSocket, CapturedFrame, StampPolicy};
pub use clock::Clock;
pub use packet::{FrameBatch, PacketReceiver, PacketSender};
pub use stamping::NicStamps;
pub use umem::{Frame, Pool, Umem};
pub use xsk::{ClosedSocket, XskReceiver, XskSender, XskSocket};

/// Frames that are received, or sent, at a time.
pub const BATCH: usize = 64;

/// Octets of an Ethernet header with two VLAN tags: what a frame may have in front of as many as the
/// MTU tells.
const HEADERS: usize = 14 + 2 * 4;

/// Octets of frames, with what the kernel keeps of each, that may wait in a driver.
static SEND_BUFFER: libc::c_int = 8 << 20;

/// Has the kernel take more frames than those of which the default limit of a socket thinks, before
/// the driver is done with the first.
fn enlarge_send_buffer(socket: &impl AsFd) {
    let len = size_of_val(&SEND_BUFFER) as u32;
    // SAFETY: the value has the length given and lives through the call, which only reads it. Where
    // it is refused the limit stays, and the driver is slowed down by it.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUFFORCE,
            (&raw const SEND_BUFFER).cast(),
            len,
        );
    }
}

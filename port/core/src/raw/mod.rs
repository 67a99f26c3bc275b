//! Frame transfer between interfaces without a port's slots, responses and confirmations: for forwarding planes,
//! which receive all frames and forward most of them.
//!
//! | | in | out |
//! |---|---|---|
//! | packet sockets | [`PacketReceiver`]: a ring of copies | [`PacketSender`]: batches, bypassing the qdisc, by AF_XDP if possible |
//! | | [`CaptureSocket`]: a ring of copies of received and sent frames with time stamps, for observers | |
//! | | [`NicStamps`]: NIC time stamps of received frames | |
//! | AF_XDP | [`XskReceiver`]: one queue of an interface | [`XskSender`] |
//!
//! Over AF_XDP all interfaces of a plane share one [`Umem`]: a frame received on one of them is edited in place,
//! and sent on another without a copy. A [`Frame`] is the exclusive right to its octets; chunks that belong to no
//! frame are owned by the kernel, or free in the [`Pool`].

mod capture;
mod clock;
mod extent;
mod messages;
mod packet;
mod prefetch;
mod sender;
mod stamping;
mod umem;
mod xsk;

use std::os::fd::{AsFd, AsRawFd};

pub use capture::{CaptureClock, CaptureOptions, CaptureSocket, CapturedFrame, StampPolicy};
pub use clock::Clock;
pub use packet::PacketReceiver;
pub use sender::PacketSender;
pub use stamping::NicStamps;
pub use umem::{Frame, Pool, Umem};
pub use xsk::{ClosedSocket, XskReceiver, XskSender, XskSocket};

/// Maximum number of frames that are received or sent at a time.
pub const BATCH: usize = 64;

/// Octets of an Ethernet header with two VLAN tags, which a frame may have in addition to its MTU.
const HEADERS: usize = 14 + 2 * 4;

/// Octets of frames, including the kernel's overhead, that may be queued in a driver.
static SEND_BUFFER: libc::c_int = 8 << 20;

/// Frames that a sender dropped, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsent {
    /// The interface was down.
    pub interface_down: u64,
    /// The frame was longer than the MTU allows.
    pub too_long: u64,
    /// The driver or the kernel did not accept the frame for another reason, such as a full queue.
    pub refused: u64,
}

impl Unsent {
    /// Counts one frame by the error of the kernel.
    fn count(&mut self, error: Option<i32>) {
        *match error {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => &mut self.interface_down,
            Some(libc::EMSGSIZE) => &mut self.too_long,
            _ => &mut self.refused,
        } += 1;
    }
}

/// Raises a socket's send buffer above its default, so that the kernel accepts more frames before the driver has
/// completed the first.
fn enlarge_send_buffer(socket: &impl AsFd) {
    let len = size_of_val(&SEND_BUFFER) as u32;
    // SAFETY: the value has the given length and lives through the call, which only reads it. If it is refused the
    // limit stays, which slows down the driver.
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

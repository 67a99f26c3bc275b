//! The back end `xsk`, and the parts that it shares with `xdp`.

mod base;
mod features;
mod obstacles;
mod port;
mod program;
mod ring;
mod rings;
mod socket;
mod stamp;

use std::fmt;
use std::os::fd::BorrowedFd;

use onbeat_netdev::{Namespace, XdpMode};

pub(crate) use self::base::{Arrival, BackendProgram, PortBase};
pub(crate) use self::obstacles::{obstacle, receive_queues};
pub(crate) use self::port::AfXdpPort;
pub(crate) use self::ring::{Consumer, Producer};
pub(crate) use self::rings::{
    BIND, CHUNK, HEADROOM, MAX_FRAME, Rings, UNTIL_FREE, bind, drops, open, unbound, wake_receive,
    wake_transmit,
};
pub(crate) use self::stamp::of_tai;
use crate::packet::WakeReason;
use crate::response::Responses;
use crate::{Backend, Cause, PortOptions, Result, Time};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("xsk.bpf.o");

onbeat_bpf::bpf_skeleton!(pub(crate) skeleton, "xsk.skel.rs");

/// A port over an AF_XDP socket.
///
/// - An XDP program redirects frames of the port's EtherTypes and addresses to the socket, before the kernel
///   processes them. The network stack receives all others unchanged, and none of these.
/// - Received frames are in memory that is shared with the kernel; if the driver supports it, it receives directly
///   into that memory ([`XskPort::zero_copy`]).
/// - Frames bypass the queueing discipline, with a system call each unless the driver accesses the memory directly.
/// - Launches and responses are *emulated* as those of [`crate::PacketPort`].
/// - A frame is confirmed when the driver has completed it. The stamp is the time at which this process reads the
///   completion.
/// - Receive stamps are taken by the program, which reads CLOCK_TAI, and reported in CLOCK_REALTIME as those of
///   [`crate::PacketPort`].
/// - If the NIC strips VLAN tags, the program does not receive them, and [`crate::ReceivedFrame::tag`] is none: `ethtool
///   -K eth0 rxvlan off`.
///
/// An interface with several receive queues is refused. The program is detached with the port, however the process
/// exits.
pub struct XskPort {
    base: PortBase,
    responses: Responses,
}

impl fmt::Debug for XskPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.describe(f.debug_struct("XskPort"))
    }
}

impl XskPort {
    /// Opens a port on an interface of `namespace`: that of a [`crate::Claim`], or any other. The interface must be
    /// up; attaching a program takes the link of some NICs down for a moment.
    ///
    /// # Errors
    /// [`crate::Error::InUse`] if another XDP program runs on the interface, it is down, has several receive queues or an
    /// MTU beyond the buffer size; the caller lacks CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF; or an option is out of
    /// range.
    pub fn open(namespace: &Namespace, interface: &str, options: PortOptions) -> Result<Self> {
        let kind = BackendProgram {
            backend: Backend::Xsk,
            object: OBJECT,
            size: &|_| Ok(()),
            own_chunks: 0,
        };
        let base = PortBase::open(namespace, interface, options, kind)?;
        let responses = Responses::new(base.number, base.options.responses);
        Ok(Self { base, responses })
    }

    /// The mode of the program: in the driver or in the network stack.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.base.program.mode()
    }

    /// The driver accesses the port's memory directly.
    #[must_use]
    pub fn zero_copy(&self) -> bool {
        self.base.zero_copy()
    }
}

impl AfXdpPort for XskPort {
    fn parts(&self) -> (&PortBase, &Responses) {
        (&self.base, &self.responses)
    }

    fn parts_mut(&mut self) -> (&mut PortBase, &mut Responses) {
        (&mut self.base, &mut self.responses)
    }

    fn pump(&mut self) -> bool {
        self.base.launch();
        while let Some(mut arrival) = self.base.arrive() {
            if let Some(slot) = self.responses.to(self.base.arrived(&arrival)) {
                arrival.answered = self.base.transmit_unattended(slot, Cause::Response);
                self.base.diagnostics.responses += u64::from(arrival.answered);
            }
            self.base.keep(arrival);
            // A launch does not wait until a burst is answered.
            self.base.launch();
        }
        self.base.complete();
        self.base.has_confirmation()
    }

    fn sleep(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<WakeReason> {
        self.base.sleep(until, None, other)
    }
}

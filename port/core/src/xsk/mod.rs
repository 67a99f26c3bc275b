//! The back end `xsk`, and what it shares with `xdp`.

mod base;
mod rings;
mod obstacle;
mod features;
mod port;
mod program;
mod ring;
mod socket;
mod stamp;

use std::fmt;

use onbeat_netdev::{Namespace, XdpMode};

pub(crate) use self::base::{Arrival, PortBase, BackendProgram};
pub(crate) use self::rings::{
    BIND, CHUNK, HEADROOM, MAX_FRAME, Rings, bind, drops, open, unbound, wake_receive,
    wake_transmit,
};
pub(crate) use self::obstacle::{obstacle, receive_queues};
pub(crate) use self::port::AfXdpPort;
pub(crate) use self::ring::{Consumer, Producer};
pub(crate) use self::stamp::of_tai;
use crate::response::Responses;
use crate::{Backend, Cause, PortOptions, Result, Time};

static OBJECT: &[u8] = onbeat_bpf::bpf_object!("xsk.bpf.o");

onbeat_bpf::bpf_skeleton!(pub(crate) skeleton, "xsk.skel.rs");

/// A port over an AF_XDP socket.
///
/// - An XDP program of ours hands frames of the port's EtherTypes and addresses to the socket
///   before the kernel makes anything of them. The network stack gets all others, untouched, and
///   of these none.
/// - Received frames lie in memory that is shared with the kernel; where the driver offers it, it
///   receives right into that memory ([`XskPort::zero_copy`]).
/// - Frames are sent around the queueing discipline, by a system call each unless the driver works
///   on the memory.
/// - Launches and responses are *emulated* as those of [`crate::PacketPort`] are.
/// - A frame is confirmed when the driver is done with it. The stamp is of the moment when this
///   process sees that.
/// - Receive stamps are the program's, which reads CLOCK_TAI, told by CLOCK_REALTIME as those of
///   [`crate::PacketPort`].
/// - Where the NIC takes VLAN tags off by itself, the program does not see them, and
///   [`ReceivedFrame::tag`] is none: `ethtool -K eth0 rxvlan off`.
///
/// An interface with several receive queues is refused. The program is gone with the port, however
/// the process ends.
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
    /// Opens a port on an interface of `namespace`: that of a [`crate::Claim`], or any. The
    /// interface must be on; attaching a program takes the link of some NICs down for a moment.
    ///
    /// # Errors
    /// [`Error::InUse`] where another XDP program runs on the interface, it is off, has several
    /// receive queues or an MTU beyond what a buffer takes; where the caller lacks CAP_NET_RAW,
    /// CAP_NET_ADMIN or CAP_BPF, or an option is out of range.
    pub fn open(namespace: &Namespace, interface: &str, options: PortOptions) -> Result<Self> {
        let kind = BackendProgram { backend: Backend::Xsk, object: OBJECT, size: &|_| Ok(()), own_chunks: 0 };
        let base = PortBase::open(namespace, interface, options, kind)?;
        let responses = Responses::new(base.number, base.options.responses);
        Ok(Self { base, responses })
    }

    /// Where the program runs: in the driver or in the network stack.
    #[must_use]
    pub fn mode(&self) -> XdpMode {
        self.base.program.mode()
    }

    /// The driver receives into the port's memory, and sends from there.
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
            // A launch does not wait for the answers to a burst.
            self.base.launch();
        }
        self.base.complete();
        self.base.has_confirmation()
    }

    fn sleep(&mut self, until: Time) -> Result<bool> {
        self.base.sleep(until, None)
    }
}

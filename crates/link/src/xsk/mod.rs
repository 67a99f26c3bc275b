//! The back end `xsk`, and what it shares with `xdp`.

mod base;
mod mapping;
mod obstacle;
mod offers;
mod options;
mod program;
mod ring;
mod socket;
mod stamp;

use std::fmt;

use onbeat_netdev::{Namespace, XdpMode};
use onbeat_wire::MacAddress;

pub(crate) use self::base::{Arrival, Base, Kind, MAX_FRAME};
pub(crate) use self::mapping::Mapping;
pub(crate) use self::obstacle::obstacle;
pub use self::options::XdpOptions;
pub(crate) use self::program::{Aligned, create_link, owned};
pub(crate) use self::stamp::of_tai;
use crate::response::Responses;
use crate::{
    Capabilities, Cause, Clock, Confirmation, Diagnostics, Error, Filter, Port, Received, Response,
    Result, Slot, Time,
};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/xsk.bpf.o")));

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    unreachable_pub,
    dead_code,
    unused
)]
pub(crate) mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/xsk.skel.rs"));
}

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
///   [`Received::tag`] is none: `ethtool -K eth0 rxvlan off`.
///
/// An interface with several receive queues is refused. The program is gone with the port, however
/// the process ends.
pub struct XskPort {
    base: Base,
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
    pub fn open(namespace: &Namespace, interface: &str, options: XdpOptions) -> Result<Self> {
        let kind = Kind { name: "xsk", object: OBJECT, size: &|_| Ok(()), own_chunks: 0 };
        let base = Base::open(namespace, interface, options, kind)?;
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

    /// Does what is due, and takes in what came. True where there is something for the caller.
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
        self.base.has_news()
    }
}

impl Port for XskPort {
    fn capabilities(&self) -> &Capabilities {
        &self.base.capabilities
    }

    fn mac_address(&self) -> MacAddress {
        self.base.mac
    }

    fn add_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.base.add_multicast(address)
    }

    fn remove_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.base.remove_multicast(address)
    }

    fn allocate(&mut self, capacity: usize) -> Result<Slot> {
        self.base.slots.allocate(capacity)
    }

    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()> {
        self.base.slots.update(slot, frame)
    }

    fn free(&mut self, slot: Slot) -> Result<()> {
        if self.responses.uses(slot) {
            return Err(Error::SlotAnswers(slot));
        }
        self.base.free(slot)
    }

    fn send(&mut self, slot: Slot) -> Result<()> {
        self.base.transmit(slot, Cause::Now)
    }

    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()> {
        self.base.send_at(slot, time)
    }

    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()> {
        self.base.send_every(slot, first, period_ns)
    }

    fn cancel(&mut self, slot: Slot) -> Result<bool> {
        self.base.cancel(slot)
    }

    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response> {
        self.base.slots.frame(slot)?;
        self.responses.add(filter, slot)
    }

    fn stop_responding(&mut self, response: Response) -> Result<()> {
        self.responses.remove(&response)
    }

    fn receive(&mut self) -> Result<Option<Received>> {
        if !self.base.has_waiting() {
            self.pump();
        }
        Ok(self.base.receive())
    }

    fn octets<'a>(&'a self, frame: &'a Received) -> &'a [u8] {
        self.base.octets(frame)
    }

    fn release(&mut self, frame: Received) {
        self.base.release(frame);
    }

    fn confirmation(&mut self) -> Result<Option<Confirmation>> {
        if !self.base.sent.has_news() {
            self.pump();
        }
        Ok(self.base.sent.take())
    }

    fn poll(&mut self) -> Result<()> {
        self.pump();
        Ok(())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.base.schedule.next_deadline()
    }

    fn wait(&mut self, until: Time) -> Result<bool> {
        loop {
            if self.pump() {
                return Ok(true);
            }
            if self.base.now() >= until {
                return Ok(false);
            }
            if self.base.options.spin {
                std::hint::spin_loop();
            } else if !self.base.sleep(until, None)? {
                return Ok(false);
            }
        }
    }

    fn clock(&self) -> Clock {
        self.base.options.clock
    }

    fn now(&self) -> Time {
        self.base.now()
    }

    fn nic_time(&self) -> Result<u64> {
        self.base.nic_time()
    }

    fn diagnostics(&mut self) -> Result<Diagnostics> {
        self.base.diagnostics()
    }
}

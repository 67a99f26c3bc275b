//! The port: the interface between an industrial protocol stack and a back end.

use std::fmt;
use std::os::fd::BorrowedFd;

use onbeat_wire::{EtherType, MacAddress};

use crate::{Capabilities, Clock, Filter, Response, Result, Slot, Stamp, Time};

/// The cause of a transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// [`Port::send`].
    Now,
    /// [`Port::send_at`] this instant.
    At(Time),
    /// [`Port::send_every`].
    Cycle {
        /// The number of the cycle, from 0. Cycles without a frame are skipped.
        number: u64,
        /// The time at which it was due.
        due: Time,
    },
    /// [`Port::respond`].
    Response,
}

/// The outcome of a submitted frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Sent at this time.
    Sent(Stamp),
    /// Not sent: the link is down, the queue was full, or its launch time had passed when the NIC received it. A
    /// failed [`Port::send`] is reported by its error only.
    Dropped,
}

/// The outcome of a slot's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confirmation {
    /// The slot.
    pub slot: Slot,
    /// The cause of the transmission.
    pub cause: Cause,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outer VLAN tag of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// [`EtherType::C_VLAN`] or [`EtherType::S_VLAN`].
    pub tpid: EtherType,
    /// Priority, drop eligibility and VLAN id.
    pub tci: u16,
}

/// A received frame, which stays in the kernel's buffer until it is released.
///
/// It is a token, so that a stack can hold several frames while it sends. [`Port::octets`] returns the frame,
/// [`Port::release`] releases the memory; frames may be released in any order. A frame that is never released
/// occupies a slot of the port's ring until the port is closed.
#[derive(Debug)]
#[must_use = "a frame that is not released occupies a slot of the ring"]
pub struct ReceivedFrame {
    pub(crate) port: u32,
    pub(crate) buffer: u32,
    /// The time of reception.
    pub stamp: Stamp,
    /// Octets on the medium, without FCS and without the removed tag. Larger than the length of [`Port::octets`] if
    /// the frame exceeded the port's buffers.
    pub len: usize,
    /// The outer VLAN tag, which is not part of the octets.
    pub tag: Option<VlanTag>,
    /// A response was sent to it.
    pub answered: bool,
}

/// Counters of a port since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Diagnostics {
    /// Frames submitted to the driver, of any cause.
    pub sent: u64,
    /// Frames that could not be submitted.
    pub send_failures: u64,
    /// Transmissions confirmed with a time stamp.
    pub confirmed: u64,
    /// Transmissions without a confirmation, or whose confirmation was evicted.
    pub unconfirmed: u64,
    /// Frames received.
    pub received: u64,
    /// Frames lost because all buffers were in use.
    pub receive_drops: u64,
    /// Frames answered automatically.
    pub responses: u64,
    /// Instants of cyclic slots that passed without a frame.
    pub missed_cycles: u64,
    /// The longest delay of a launch after its instant, in nanoseconds.
    pub max_launch_delay_ns: u64,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, send_failures, confirmed, unconfirmed, .. } = self;
        write!(
            f,
            "sent {sent} (failed {send_failures}, confirmed {confirmed}, unconfirmed \
             {unconfirmed}), received {} (dropped {}), responded {}, cycles missed {}, launched at \
             most {} ns late",
            self.received,
            self.receive_drops,
            self.responses,
            self.missed_cycles,
            self.max_launch_delay_ns
        )
    }
}

/// An interface as an industrial protocol stack uses it. The crate's documentation lists the features of the back
/// ends, and how the parts work together.
///
/// Between opening and closing only [`Port::wait`] and [`Port::wait_for`] block, and only [`Port::allocate`] allocates
/// memory.
pub trait Port: Send {
    /// The capabilities of this back end on this interface.
    fn capabilities(&self) -> &Capabilities;

    /// The interface's own address.
    fn mac_address(&self) -> MacAddress;

    /// Also receives frames to a multicast address. A filter set twice is removed once.
    ///
    /// Without filters, a port receives frames to its own address and to the broadcast address only, whatever other
    /// sockets receive on the interface.
    ///
    /// # Errors
    /// [`crate::Error::NotMulticast`]; [`crate::Error::Full`].
    fn add_multicast(&mut self, address: MacAddress) -> Result<()>;

    /// Stops receiving frames to a multicast address.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchMulticast`].
    fn remove_multicast(&mut self, address: MacAddress) -> Result<()>;

    /// Allocates a transmit slot for frames of up to `capacity` octets, including the Ethernet header, without FCS.
    ///
    /// # Errors
    /// [`crate::Error::FrameLength`] beyond the interface's MTU; [`crate::Error::Full`].
    fn allocate(&mut self, capacity: usize) -> Result<Slot>;

    /// Puts a frame into a slot. A concurrent transmission of the slot, cyclic or in response, sends either the
    /// former frame or this one, never a mixture.
    ///
    /// # Errors
    /// [`crate::Error::FrameLength`]; [`crate::Error::NoSuchSlot`].
    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()>;

    /// Frees a slot and cancels its launches.
    ///
    /// # Errors
    /// [`crate::Error::SlotAnswers`]; [`crate::Error::NoSuchSlot`].
    fn free(&mut self, slot: Slot) -> Result<()>;

    /// Sends a slot's frame at once.
    ///
    /// # Errors
    /// [`crate::Error::EmptySlot`]; [`crate::Error::Io`], of which [`crate::Error::is_congestion`] identifies
    /// transient ones.
    fn send(&mut self, slot: Slot) -> Result<()>;

    /// Sends the slot's present frame at an instant of [`Port::clock`]; replaces the launch planned for the slot.
    /// If the instant has passed, an emulated launch is sent at once; a native one may be dropped, and is then
    /// confirmed as dropped.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`].
    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()>;

    /// Sends the slot's present frame at `first + n * period_ns` for each n from 0, until it is canceled; replaces
    /// the launch planned for the slot. Instants that pass without a frame are counted, not repeated.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`]; [`crate::Error::Period`].
    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()>;

    /// Cancels the launch of [`Port::send_at`] or [`Port::send_every`] for a slot; returns false if there was none.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchSlot`].
    fn cancel(&mut self, slot: Slot) -> Result<bool>;

    /// Answers each received frame that matches `filter` with the frame in `slot`. The answered frame is received
    /// as well. If several filters match, the oldest response is sent.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`]; [`crate::Error::Full`].
    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response>;

    /// Stops a response.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchResponse`].
    fn stop_responding(&mut self, response: Response) -> Result<()>;

    /// Returns the next received frame, if there is one.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn receive(&mut self) -> Result<Option<ReceivedFrame>>;

    /// Returns the octets of a received frame: starting at the destination address, without the outer VLAN tag and FCS.
    ///
    /// # Panics
    /// The frame belongs to another port.
    fn octets<'a>(&'a self, frame: &'a ReceivedFrame) -> &'a [u8];

    /// Releases a received frame.
    ///
    /// # Panics
    /// As [`Port::octets`].
    fn release(&mut self, frame: ReceivedFrame);

    /// Returns the next confirmation, if there is one, in the order in which the back end receives them. A full
    /// queue evicts the oldest, counted as [`Diagnostics::unconfirmed`].
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn confirmation(&mut self) -> Result<Option<Confirmation>>;

    /// Performs emulated work that is due: launches, responses. A back end without emulation returns at once.
    ///
    /// # Errors
    /// [`crate::Error::Io`]. A frame that could not be sent is not an error here: it is confirmed as dropped.
    fn poll(&mut self) -> Result<()>;

    /// The latest time at which [`Port::poll`] must be called. `None`: no launch is planned, or none is emulated.
    fn next_deadline(&self) -> Option<Time>;

    /// Waits until a frame or a confirmation can be read, and returns true, or until the instant `until`, and
    /// returns false. Emulated launches and responses continue meanwhile. May return false early, after a signal.
    ///
    /// # Errors
    /// As [`Port::poll`]; within 200 ms after the interface was removed, one that [`crate::Error::is_removed`]
    /// identifies. If nothing is sent, no other call reports that.
    fn wait(&mut self, until: Time) -> Result<bool> {
        self.wait_for(until, None)
    }

    /// As [`Port::wait`]; also returns true if `other` is readable, for a stack with a second source of frames. The
    /// port then sleeps, even with [`spin`](crate::PortOptions::spin).
    ///
    /// # Errors
    /// As [`Port::wait`].
    fn wait_for(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<bool>;

    /// The launch clock.
    fn clock(&self) -> Clock;

    /// The current time of the launch clock.
    fn now(&self) -> Time;

    /// The current time of the NIC's clock, in nanoseconds.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::Io`].
    fn nic_time(&self) -> Result<u64>;

    /// Returns the counters.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn diagnostics(&mut self) -> Result<Diagnostics>;
}

//! The port: what an industrial protocol stack is written against.

use std::fmt;

use onbeat_wire::{EtherType, MacAddress};

use crate::{Capabilities, Clock, Filter, Response, Result, Slot, Stamp, Time};

/// Why a frame was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// [`Port::send`].
    Now,
    /// [`Port::send_at`] this instant.
    At(Time),
    /// [`Port::send_every`].
    Cycle {
        /// Which cycle, from 0. Numbers are left out where a cycle passed without a frame.
        number: u64,
        /// When it was due.
        due: Time,
    },
    /// [`Port::respond`].
    Response,
}

/// What became of a frame handed over for transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It left, at this time.
    Sent(Stamp),
    /// It did not leave: the link is down, the queue was full, or its launch time had passed when
    /// the NIC got it. Of a [`Port::send`] that failed only the error tells.
    Dropped,
}

/// What became of a slot's frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Confirmation {
    /// The slot.
    pub slot: Slot,
    /// Why it was sent.
    pub cause: Cause,
    /// What became of it.
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

/// A received frame, which stays where the kernel put it until it is given back.
///
/// It is a token, so that a stack can hold several frames while it sends. [`Port::octets`] shows
/// the frame, [`Port::release`] gives the memory back; frames may be given back in any order. One
/// that is never given back keeps its place in the port's ring until the port is closed.
#[derive(Debug)]
#[must_use = "a frame that is not released keeps its place in the ring"]
pub struct ReceivedFrame {
    pub(crate) port: u32,
    pub(crate) buffer: u32,
    /// When it came.
    pub stamp: Stamp,
    /// Octets on the medium, without FCS and without the tag that was taken out. More than
    /// [`Port::octets`] shows where the frame was longer than the port's buffers.
    pub len: usize,
    /// The outer VLAN tag, which is not among the octets.
    pub tag: Option<VlanTag>,
    /// A response was sent to it.
    pub answered: bool,
}

/// What a port counted since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Diagnostics {
    /// Frames handed to the driver, whatever the cause.
    pub sent: u64,
    /// Frames that could not be handed over.
    pub send_failures: u64,
    /// Transmissions confirmed with a time stamp.
    pub confirmed: u64,
    /// Transmissions whose confirmation never came, or came when nobody knew of them any more.
    pub unconfirmed: u64,
    /// Frames received.
    pub received: u64,
    /// Frames lost because all buffers were in use.
    pub receive_drops: u64,
    /// Frames answered automatically.
    pub responses: u64,
    /// Instants of cyclic slots that passed without a frame.
    pub missed_cycles: u64,
    /// The longest that a launch was handed over after its instant, in nanoseconds.
    pub max_launch_delay_ns: u64,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, send_failures, confirmed, unconfirmed, .. } = self;
        write!(
            f,
            "sent {sent} (failed {send_failures}, confirmed {confirmed}, unconfirmed \
             {unconfirmed}), received {} (dropped {}), answered {}, cycles missed {}, launched at \
             most {} ns late",
            self.received,
            self.receive_drops,
            self.responses,
            self.missed_cycles,
            self.max_launch_delay_ns
        )
    }
}

/// An interface as an industrial protocol stack uses it. See the crate's documentation for which
/// back end does what how, and how the parts work together.
///
/// Nothing between opening and closing blocks but [`Port::wait`], and nothing allocates but
/// [`Port::allocate`].
pub trait Port: Send {
    /// What this back end can do on this interface.
    fn capabilities(&self) -> &Capabilities;

    /// The interface's own address.
    fn mac_address(&self) -> MacAddress;

    /// Receives frames to a multicast address as well. A filter set twice is taken away once.
    ///
    /// Without, a port receives frames to its own address and to the broadcast address, and no
    /// others, whatever else the interface listens to.
    ///
    /// # Errors
    /// [`crate::Error::NotMulticast`]; [`crate::Error::Full`].
    fn add_multicast(&mut self, address: MacAddress) -> Result<()>;

    /// Receives frames to a multicast address no longer.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchMulticast`].
    fn remove_multicast(&mut self, address: MacAddress) -> Result<()>;

    /// A transmit slot for frames of up to `capacity` octets: Ethernet header included, FCS not.
    ///
    /// # Errors
    /// [`crate::Error::FrameLength`] beyond what the interface's MTU lets pass;
    /// [`crate::Error::Full`].
    fn allocate(&mut self, capacity: usize) -> Result<Slot>;

    /// Puts a frame into a slot. Whatever sends the slot at the same moment, cyclic or in
    /// response, sends the frame before or this one, never a mixture.
    ///
    /// # Errors
    /// [`crate::Error::FrameLength`]; [`crate::Error::NoSuchSlot`].
    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()>;

    /// Frees a slot. What is planned for it is cancelled.
    ///
    /// # Errors
    /// [`crate::Error::SlotAnswers`]; [`crate::Error::NoSuchSlot`].
    fn free(&mut self, slot: Slot) -> Result<()>;

    /// Sends a slot's frame at once.
    ///
    /// # Errors
    /// [`crate::Error::EmptySlot`]; [`crate::Error::Io`], of which
    /// [`crate::Error::is_congestion`] tells those that pass.
    fn send(&mut self, slot: Slot) -> Result<()>;

    /// Sends a slot's frame, as it then is, at an instant of [`Port::clock`]; in place of what
    /// was planned for the slot. Where the instant has passed, an emulated launch is done at once;
    /// a native one may be dropped, and is then confirmed as that.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`].
    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()>;

    /// Sends a slot's frame, as it then is, at `first + n * period_ns` for each n from 0, until it
    /// is cancelled; in place of what was planned for the slot. Instants that pass without a frame
    /// are counted and not made up for.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`]; [`crate::Error::Period`].
    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()>;

    /// Forgets what [`Port::send_at`] or [`Port::send_every`] planned for a slot; whether there
    /// was anything.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchSlot`].
    fn cancel(&mut self, slot: Slot) -> Result<bool>;

    /// Answers each received frame that matches `filter` with the frame in `slot`. The frame that
    /// was answered is received as well. Where several filters match, the oldest answers.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::EmptySlot`]; [`crate::Error::Full`].
    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response>;

    /// Answers no longer.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchResponse`].
    fn stop_responding(&mut self, response: Response) -> Result<()>;

    /// The next received frame, if one is there.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn receive(&mut self) -> Result<Option<ReceivedFrame>>;

    /// A received frame: from the destination address on, without the outer VLAN tag and FCS.
    ///
    /// # Panics
    /// Where the frame is of another port.
    fn octets<'a>(&'a self, frame: &'a ReceivedFrame) -> &'a [u8];

    /// Gives a received frame back.
    ///
    /// # Panics
    /// As [`Port::octets`].
    fn release(&mut self, frame: ReceivedFrame);

    /// What became of a frame that was sent, if there is news, in the order in which the back end
    /// hears of it. Old news is forgotten for new, and counted as [`Diagnostics::unconfirmed`].
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn confirmation(&mut self) -> Result<Option<Confirmation>>;

    /// Does what the back end emulates and is due by now: launches, responses. A back end that
    /// emulates nothing returns at once.
    ///
    /// # Errors
    /// [`crate::Error::Io`]. That a frame could not be sent is no error here: it is confirmed as
    /// dropped.
    fn poll(&mut self) -> Result<()>;

    /// When [`Port::poll`] is to be called at the latest. `None`: no launch is planned, or none is
    /// emulated.
    fn next_deadline(&self) -> Option<Time>;

    /// Waits until there is something to receive or a confirmation to take, or until the instant
    /// `until`, and says which: true for the former. Emulated launches and responses go on
    /// meanwhile. May return false early, after a signal.
    ///
    /// # Errors
    /// As [`Port::poll`].
    fn wait(&mut self, until: Time) -> Result<bool>;

    /// The clock that frames are launched by.
    fn clock(&self) -> Clock;

    /// What that clock shows.
    fn now(&self) -> Time;

    /// What the NIC's clock shows, in nanoseconds.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`]; [`crate::Error::Io`].
    fn nic_time(&self) -> Result<u64>;

    /// What was counted.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    fn diagnostics(&mut self) -> Result<Diagnostics>;
}

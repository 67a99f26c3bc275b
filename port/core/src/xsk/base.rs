//! The common part of ports over AF_XDP: everything except responses.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use onbeat_bpf::UnloadedObject;
use onbeat_host::InterfaceLock;
use onbeat_netdev::{Handle, Namespace, NicClock, PacketSocket, XdpMode};
use onbeat_wire::{EtherType, MacAddress};

use super::features::InterfaceFeatures;
use super::obstacles::obstacle;
use super::program::Program;
use super::rings::{CHUNK, TAG};
use super::socket::{Chunks, SendFailure, XskSocket};
use super::stamp;
use crate::clock;
use crate::error::failed;
use crate::exclusive::lock;
use crate::packet::{MAX_MULTICAST, WakeReason, sleep};
use crate::presence::{self, PresenceCheck};
use crate::schedule::Schedule;
use crate::slot::{MIN_FRAME, Slots, next_port};
use crate::transmissions::TransmissionTracker;
use crate::{
    Backend, Capabilities, Cause, Diagnostics, Error, Feature, PortOptions, ReceivedFrame, Result,
    Slot, Stamp, Time, VlanTag,
};

/// Maximum number of pending transmissions.
const TRANSMIT: usize = 256;
/// Intervals between polls for completions, first and longest: they cause no wakeup.
const LOOK_NS: (u64, u64) = (50_000, 1_000_000);

/// The program of a back end, and its requirements.
pub(crate) struct BackendProgram<'a> {
    pub(crate) backend: Backend,
    pub(crate) object: &'a [u8],
    /// Sets the sizes of tables.
    pub(crate) size: &'a dyn Fn(&mut UnloadedObject) -> onbeat_bpf::Result<()>,
    /// Chunks of the UMEM that the kernel does not receive.
    pub(crate) own_chunks: usize,
}

/// A frame that arrived and was not received yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) chunk: usize,
    /// The offset of its octets in the UMEM.
    pub(crate) at: usize,
    pub(crate) octets: usize,
    /// Octets on the medium, without the tag.
    pub(crate) len: usize,
    pub(crate) stamp: Stamp,
    pub(crate) tag: Option<VlanTag>,
    pub(crate) answered: bool,
}

/// The location of a received frame's octets.
#[derive(Debug, Clone, Copy, Default)]
struct FrameLocation {
    at: usize,
    octets: usize,
    held: bool,
}

/// A port without its responses.
#[derive(Debug)]
pub(crate) struct PortBase {
    pub(crate) number: u32,
    pub(crate) interface: String,
    pub(crate) mac: MacAddress,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: PortOptions,
    pub(crate) slots: Slots,
    pub(crate) schedule: Schedule,
    pub(crate) sent: TransmissionTracker,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) on_veth: bool,
    multicast: Vec<MacAddress>,
    nic_clock: Option<NicClock>,
    waiting: VecDeque<Arrival>,
    /// By chunk.
    locations: Vec<FrameLocation>,
    chunks: Chunks,
    /// Chunks for transmission that are idle.
    idle: Vec<usize>,
    /// By transmit chunk: the number of the transmission, if it is confirmed.
    under_way: Vec<Option<u32>>,
    /// Own chunks that hold no frame.
    pub(crate) free: Vec<usize>,
    look_ns: u64,
    /// Receives no frames: for multicast memberships of the NIC, and for the presence of the interface.
    memberships: PacketSocket,
    presence: PresenceCheck,
    // Detached from the interface before the socket is closed.
    pub(crate) program: Program,
    socket: XskSocket,
    _lock: InterfaceLock,
}

impl PortBase {
    pub(crate) fn open(
        namespace: &Namespace,
        interface: &str,
        options: PortOptions,
        kind: BackendProgram<'_>,
    ) -> Result<Self> {
        options.check(kind.backend, interface)?;
        let refuse = |why: String, remedy: String| Error::InUse {
            interface: interface.to_owned(),
            why,
            remedy,
        };
        let handle = Handle::in_namespace(namespace)?;
        let link = handle.link(interface)?;
        let lock = lock(namespace, &link)?;
        if let Some((why, remedy)) = obstacle(namespace, &link) {
            return Err(refuse(why, remedy));
        }
        let mac = link.mac.unwrap_or_default();
        let mut program =
            Program::load(interface, kind.object, &options.ether_types, mac, kind.size)?;
        program.attach(namespace, interface, link.index, options.mode)?;
        let chunks =
            Chunks { receive: options.receive_buffers, transmit: TRANSMIT, own: kind.own_chunks };
        // Zero copy is the driver's, and requires the program there.
        let copy = options.copy || program.mode() == XdpMode::Generic;
        let (memberships, socket) = namespace
            .run(|| (PacketSocket::open(link.index), XskSocket::open(link.index, chunks, copy)))?;
        let memberships = memberships
            .map_err(failed(interface, "open a packet socket (requires CAP_NET_RAW)"))?;
        memberships.bind(0).map_err(failed(interface, "bind the packet socket"))?;
        let socket = socket.map_err(|(operation, error)| failed(interface, operation)(error))?;
        program
            .deliver_to(socket.as_fd())
            .map_err(failed(interface, "pass the socket to the XDP program"))?;
        let number = next_port();
        let offers = InterfaceFeatures::of(namespace, interface, &options);
        let all = chunks.receive + chunks.transmit + chunks.own;
        Ok(Self {
            number,
            interface: interface.to_owned(),
            mac,
            capabilities: Capabilities::new(kind.backend, interface, |feature| {
                offers.capability(feature, kind.own_chunks > 0)
            }),
            slots: Slots::new(number, options.slots, MIN_FRAME + link.mtu as usize),
            schedule: Schedule::new(options.slots),
            sent: TransmissionTracker::new(),
            diagnostics: Diagnostics::default(),
            on_veth: link.kind.as_deref() == Some("veth"),
            multicast: Vec::with_capacity(MAX_MULTICAST),
            nic_clock: offers.nic_clock.ok(),
            waiting: VecDeque::with_capacity(all),
            locations: vec![FrameLocation::default(); all],
            chunks,
            idle: (chunks.receive..chunks.receive + chunks.transmit).collect(),
            under_way: vec![None; chunks.transmit],
            free: (chunks.receive + chunks.transmit..all).collect(),
            look_ns: LOOK_NS.0,
            memberships,
            presence: PresenceCheck::default(),
            program,
            socket,
            options,
            _lock: lock,
        })
    }

    /// Formats a port for `Debug`.
    pub(crate) fn describe(&self, mut of: fmt::DebugStruct<'_, '_>) -> fmt::Result {
        of.field("interface", &self.interface)
            .field("mac", &self.mac)
            .field("mode", &self.program.mode())
            .field("zero_copy", &self.zero_copy())
            .field("diagnostics", &self.diagnostics)
            .finish_non_exhaustive()
    }

    pub(crate) fn zero_copy(&self) -> bool {
        self.socket.zero_copy()
    }

    pub(crate) fn transmit(&mut self, slot: Slot, cause: Cause) -> Result<()> {
        // This frees chunks, and the kernel sends nothing while the completion ring is full.
        self.complete();
        let frame = self.slots.frame(slot)?;
        let result = match self.idle.pop() {
            None => Err(SendFailure {
                error: io::Error::from_raw_os_error(libc::ENOBUFS),
                completes: true,
            }),
            Some(chunk) => {
                let at = chunk * CHUNK;
                self.socket.octets_mut(at, frame.len()).copy_from_slice(frame);
                let result = self.socket.send(chunk, frame.len());
                if result.as_ref().is_err_and(|failure| !failure.completes) {
                    self.idle.push(chunk);
                }
                let taken = result.is_ok() && self.options.confirm;
                let id = taken.then(|| self.sent.taken(slot, cause));
                self.under_way[chunk - self.chunks.receive] = id;
                result
            }
        };
        match result {
            Ok(()) => {
                self.diagnostics.sent += 1;
                self.look_ns = LOOK_NS.0;
                Ok(())
            }
            Err(failure) => {
                self.diagnostics.send_failures += 1;
                Err(failed(&self.interface, "send")(failure.error))
            }
        }
    }

    /// Sends a frame for which no caller waits; returns false if it failed.
    pub(crate) fn transmit_unattended(&mut self, slot: Slot, cause: Cause) -> bool {
        let result = self.transmit(slot, cause);
        if result.is_err() {
            self.sent.dropped(slot, cause);
        }
        result.is_ok()
    }

    /// Reclaims chunks that the driver has completed.
    pub(crate) fn complete(&mut self) {
        while let Some(chunk) = self.socket.completed() {
            // Some kernels complete withdrawn frames as well.
            let index = chunk.checked_sub(self.chunks.receive);
            let Some(id) = index.and_then(|index| self.under_way.get_mut(index)) else { continue };
            if let Some(id) = id.take() {
                let known = self.sent.left(id, stamp::now());
                self.diagnostics.confirmed += u64::from(known);
            }
            self.idle.push(chunk);
        }
    }

    /// Sends due launches.
    pub(crate) fn launch(&mut self) {
        if self.schedule.next_deadline().is_none() {
            return;
        }
        let now = self.now();
        while let Some(due) = self.schedule.pop(now) {
            let delay = self.now().since(due.time);
            let longest = &mut self.diagnostics.max_launch_delay_ns;
            *longest = delay.max(*longest);
            self.diagnostics.missed_cycles += due.missed;
            self.transmit_unattended(due.slot, due.cause);
        }
    }

    /// Returns a frame that the socket received, with its tag removed.
    pub(crate) fn arrive(&mut self) -> Option<Arrival> {
        let (mut at, mut octets) = self.socket.received()?;
        let chunk = at / CHUNK;
        let meta = self.socket.octets(at - size_of::<u64>(), size_of::<u64>());
        let stamp = match meta.first_chunk().map_or(0, |ns| u64::from_ne_bytes(*ns)) {
            0 => stamp::now(),
            ns => stamp::of_tai(ns),
        };
        let frame = self.socket.octets_mut(at, octets);
        let tag = outer_tag(frame);
        if tag.is_some() {
            frame.copy_within(..MIN_FRAME - 2, TAG);
            at += TAG;
            octets -= TAG;
        }
        Some(Arrival { chunk, at, octets, len: octets, stamp, tag, answered: false })
    }

    /// Returns a frame's octets.
    pub(crate) fn arrived(&self, arrival: &Arrival) -> &[u8] {
        self.socket.octets(arrival.at, arrival.octets)
    }

    /// Returns an own chunk for a frame, the offset of the frame and its buffer, if a chunk is free.
    pub(crate) fn room(&mut self, octets: usize) -> Option<(usize, usize, &mut [u8])> {
        let chunk = self.free.pop()?;
        let at = chunk * CHUNK;
        Some((chunk, at, self.socket.octets_mut(at, octets)))
    }

    /// Queues the frame for reception.
    pub(crate) fn keep(&mut self, arrival: Arrival) {
        self.diagnostics.received += 1;
        self.waiting.push_back(arrival);
    }

    /// Returns true if there is something for the caller.
    pub(crate) fn has_confirmation(&self) -> bool {
        !self.waiting.is_empty() || self.sent.has_confirmation()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn receive(&mut self) -> Option<ReceivedFrame> {
        let Arrival { chunk, at, octets, len, stamp, tag, answered } = self.waiting.pop_front()?;
        self.locations[chunk] = FrameLocation { at, octets, held: true };
        Some(ReceivedFrame { port: self.number, buffer: chunk as u32, stamp, len, tag, answered })
    }

    pub(crate) fn octets(&self, frame: &ReceivedFrame) -> &[u8] {
        assert_eq!(frame.port, self.number, "a frame of another port");
        let place = self.locations[frame.buffer as usize];
        self.socket.octets(place.at, place.octets)
    }

    pub(crate) fn release(&mut self, frame: ReceivedFrame) {
        assert_eq!(frame.port, self.number, "a frame of another port");
        let chunk = frame.buffer as usize;
        let place = std::mem::take(&mut self.locations[chunk]);
        assert!(place.held, "a frame is released once");
        if chunk < self.chunks.receive {
            // Otherwise the next frame without metadata would inherit it.
            self.socket.octets_mut(place.at - 16, 16).fill(0);
            self.socket.give(chunk);
        } else {
            self.free.push(chunk);
        }
    }

    pub(crate) fn add_multicast(&mut self, address: MacAddress) -> Result<()> {
        if !address.is_multicast() || address.is_broadcast() {
            return Err(Error::NotMulticast(address));
        }
        if self.multicast.contains(&address) {
            return Ok(());
        }
        if self.multicast.len() == MAX_MULTICAST {
            return Err(Error::Full { what: "multicast addresses", capacity: MAX_MULTICAST });
        }
        self.set_multicast(address, true)?;
        self.multicast.push(address);
        Ok(())
    }

    pub(crate) fn remove_multicast(&mut self, address: MacAddress) -> Result<()> {
        let place = self.multicast.iter().position(|known| *known == address);
        self.multicast.swap_remove(place.ok_or(Error::NoSuchMulticast(address))?);
        self.set_multicast(address, false)
    }

    fn set_multicast(&self, address: MacAddress, on: bool) -> Result<()> {
        let operation = if on { "add a multicast address" } else { "remove a multicast address" };
        let set = failed(&self.interface, operation);
        self.memberships.multicast(address, on).map_err(&set)?;
        self.program.multicast(address, on).map_err(&set)
    }

    pub(crate) fn send_at(&mut self, slot: Slot, time: Time) -> Result<()> {
        self.slots.frame(slot)?;
        self.schedule.at(slot, time);
        Ok(())
    }

    pub(crate) fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()> {
        self.slots.frame(slot)?;
        if period_ns == 0 {
            return Err(Error::Period);
        }
        self.schedule.every(slot, first, period_ns);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, slot: Slot) -> Result<bool> {
        self.slots.check(slot)?;
        Ok(self.schedule.cancel(slot))
    }

    pub(crate) fn free(&mut self, slot: Slot) -> Result<()> {
        self.slots.free(slot)?;
        self.schedule.cancel(slot);
        Ok(())
    }

    pub(crate) fn now(&self) -> Time {
        clock::now(self.options.clock)
    }

    pub(crate) fn nic_time(&self) -> Result<u64> {
        self.capabilities.require(Feature::NicTime)?;
        let read = failed(&self.interface, "read the NIC's clock");
        let clock = self.nic_clock.as_ref().ok_or(io::ErrorKind::NotFound.into());
        clock.and_then(NicClock::read).map_err(read)
    }

    pub(crate) fn diagnostics(&mut self) -> Result<Diagnostics> {
        let drops = self.socket.drops();
        let read = failed(&self.interface, "read the socket's statistics");
        self.diagnostics.receive_drops = drops.map_err(read)?;
        self.diagnostics.unconfirmed = self.sent.lost;
        Ok(self.diagnostics)
    }

    /// Checks at intervals whether the interface is present.
    pub(crate) fn check_presence(&mut self, now: Time) -> Result<()> {
        let check = failed(&self.interface, "wait for frames");
        self.presence.check(now, &self.memberships).map_err(check)
    }

    /// Sleeps until a frame arrives, at the socket or at `own`, or until `until`, a launch or the next check of the
    /// interface is due, or `other` is readable; returns the reason. Events without a wakeup are polled in between.
    pub(crate) fn sleep(
        &mut self,
        until: Time,
        own: Option<BorrowedFd<'_>>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<WakeReason> {
        let now = self.now();
        let deadline = self.schedule.next_deadline().map_or(until, |launch| launch.min(until));
        let mut timeout = deadline.since(now).min(presence::INTERVAL_NS);
        if self.sent.expects() {
            timeout = timeout.min(self.look_ns);
            self.look_ns = (2 * self.look_ns).min(LOOK_NS.1);
        }
        sleep(self.socket.as_fd(), own, other, timeout)
            .map_err(failed(&self.interface, "wait for the AF_XDP socket"))
    }
}

/// Returns the outer VLAN tag, if there is one followed by an EtherType.
fn outer_tag(frame: &[u8]) -> Option<VlanTag> {
    let tag: &[u8; TAG] = frame.get(12..)?.first_chunk()?;
    let tpid = EtherType(u16::from_be_bytes([tag[0], tag[1]]));
    let is_tag = matches!(tpid, EtherType::C_VLAN | EtherType::S_VLAN);
    let tci = u16::from_be_bytes([tag[2], tag[3]]);
    (is_tag && frame.len() >= MIN_FRAME + TAG).then_some(VlanTag { tpid, tci })
}

//! The back end `packet`.

mod control;
mod features;
mod filter;
mod ring;
mod ring_slots;
mod socket;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use libc::{SOL_PACKET, SOL_SOCKET};
use onbeat_host::InterfaceLock;
use onbeat_netdev::ethtool::HardwareStamps;
use onbeat_netdev::{Handle, Namespace, NicClock, PacketSocket};
use onbeat_wire::MacAddress;

use self::control::ErrorQueueEvent;
use self::features::InterfaceFeatures;
use self::ring::Ring;
pub(crate) use self::ring_slots::RingSlots;
use self::socket::Socket;
pub(crate) use self::socket::{WakeReason, sleep};
use crate::clock;
use crate::error::failed;
use crate::exclusive::{lock, refuse_foreign_program};
use crate::presence::{self, PresenceCheck};
use crate::response::Responses;
use crate::schedule::Schedule;
use crate::slot::{MIN_FRAME, Slots, next_port};
use crate::transmissions::TransmissionTracker;
use crate::txtime::Txtime;
use crate::{
    Backend, Capabilities, Cause, Clock, Confirmation, Diagnostics, Error, Feature, Filter, Port,
    PortOptions, ReceivedFrame, Response, Result, Slot, Time,
};

/// Maximum number of multicast addresses of a port.
pub(crate) const MAX_MULTICAST: usize = 64;

/// The source of a packet port's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameSource {
    /// The interface.
    Interface,
    /// The kernel module, which claims and answers them.
    Module,
}

impl FrameSource {
    fn protocol(self) -> u16 {
        match self {
            FrameSource::Interface => libc::ETH_P_ALL as u16,
            FrameSource::Module => crate::module::abi::PROTOCOL,
        }
    }
}

/// A port over a packet socket, which works on every interface and kernel.
///
/// - Received frames are in a ring that is mapped into this process; a classic BPF program passes only the
///   requested frames to it.
/// - Each frame is sent by a system call that bypasses the queueing discipline.
/// - Launches and responses are *emulated*: they happen in [`Port::poll`], [`Port::wait`] and [`Port::receive`],
///   when the scheduler runs this process. For timely launches, run the thread with a real-time priority on a core
///   of its own, and stay in [`Port::wait`].
/// - Confirmations are the transmit time stamps of the socket's error queue. If the driver provides none, they
///   never arrive.
///
/// While the newest received frame is held, [`Port::wait`] cannot sleep: the kernel reports the socket ready until
/// that frame is released.
pub struct PacketPort {
    number: u32,
    interface: String,
    mac: MacAddress,
    capabilities: Capabilities,
    options: PortOptions,
    /// `None`: launches are emulated.
    txtime: Option<Txtime>,
    slots: Slots,
    schedule: Schedule,
    responses: Responses,
    multicast: Vec<MacAddress>,
    source: FrameSource,
    sent: TransmissionTracker,
    /// Sent frames are stamped.
    stamped: bool,
    diagnostics: Diagnostics,
    nic_clock: Option<NicClock>,
    // Unmapped before the socket is closed.
    ring: Ring,
    socket: Socket,
    presence: PresenceCheck,
    /// The lock of the port itself; [`crate::ModulePort`] has its own.
    _lock: Option<InterfaceLock>,
}

impl fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketPort")
            .field("interface", &self.interface)
            .field("mac", &self.mac)
            .field("diagnostics", &self.diagnostics)
            .finish_non_exhaustive()
    }
}

impl PacketPort {
    /// Opens a port on an interface of `namespace`: that of a [`crate::Claim`], or any other.
    ///
    /// # Errors
    /// The interface does not exist or is not Ethernet, the caller lacks CAP_NET_RAW, or an option is out of range.
    pub fn open(namespace: &Namespace, interface: &str, options: PortOptions) -> Result<Self> {
        Self::open_for(namespace, interface, options, FrameSource::Interface)
    }

    /// As [`PacketPort::open`], for frames of `source`.
    pub(crate) fn open_for(
        namespace: &Namespace,
        interface: &str,
        options: PortOptions,
        source: FrameSource,
    ) -> Result<Self> {
        Self::open_launching(namespace, interface, options, source, None)
    }

    /// Opens the back end `txtime`: as [`PacketPort::open`], but the kernel sends frames at their launch times, or
    /// the NIC if its queueing discipline is offloaded. See the crate's documentation.
    ///
    /// - A launch is submitted [`crate::TxtimeOptions::ahead_ns`] before its instant, by the call that requests it
    ///   or, if that is earlier, by [`Port::poll`] and the like; lateness of this process below that has no effect.
    ///   A submitted frame is final: [`Port::update`] and [`Port::cancel`] no longer affect it.
    /// - The clock is [`Clock::Tai`], whatever the options contain.
    /// - A launch that is too late is dropped and, with confirmations enabled, confirmed as dropped. Without
    ///   offload, a launch that is late by less than etf's delta is sent at once. A frame submitted while the link
    ///   is down is lost without a report.
    /// - [`Port::send`] and responses bypass the queueing discipline, and are sent at once.
    ///
    /// # Errors
    /// As [`PacketPort::open`]; [`Error::Unsupported`] without an etf on the path of the frames, with the command
    /// that adds it.
    pub fn open_txtime(
        namespace: &Namespace,
        interface: &str,
        options: PortOptions,
    ) -> Result<Self> {
        let txtime = Txtime::find(namespace, interface, &options.txtime)?;
        let options = PortOptions { clock: Clock::Tai, ..options };
        Self::open_launching(namespace, interface, options, FrameSource::Interface, Some(txtime))
    }

    fn open_launching(
        namespace: &Namespace,
        interface: &str,
        options: PortOptions,
        source: FrameSource,
        txtime: Option<Txtime>,
    ) -> Result<Self> {
        let backend = if txtime.is_some() { Backend::Txtime } else { Backend::Packet };
        options.check(backend, interface)?;
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let mac = link.mac.ok_or_else(|| Error::InUse {
            interface: interface.to_owned(),
            why: "it has no Ethernet address".into(),
            remedy: "use an Ethernet interface".into(),
        })?;
        let own = source == FrameSource::Interface;
        let lock = own.then(|| lock(namespace, &link)).transpose()?;
        refuse_foreign_program(&link, None)?;
        let max_frame = MIN_FRAME + link.mtu as usize;
        let offers = InterfaceFeatures::of(namespace, interface, &options, txtime);
        let socket = namespace
            .run(|| Socket::open(link.index))?
            .map_err(failed(interface, "open a packet socket (requires CAP_NET_RAW)"))?;
        let ring = set_up(&socket, &options, max_frame, offers.stamps)
            .map_err(failed(interface, "set up the packet socket"))?;
        if let Some(Txtime { etf, priority, .. }) = txtime {
            socket
                .launch_times(etf.deadline, priority)
                .map_err(failed(interface, "enable launch times (requires CAP_NET_ADMIN)"))?;
        }
        let number = next_port();
        let mut port = Self {
            number,
            interface: interface.to_owned(),
            mac,
            capabilities: Capabilities::new(backend, interface, |f| offers.capability(f)),
            slots: Slots::new(number, options.slots, max_frame),
            schedule: Schedule::new(options.slots),
            responses: Responses::new(number, options.responses),
            multicast: Vec::with_capacity(MAX_MULTICAST),
            source,
            sent: TransmissionTracker::new(),
            stamped: offers.tx_stamps,
            diagnostics: Diagnostics::default(),
            nic_clock: offers.nic_clock.ok(),
            options,
            txtime,
            ring,
            socket,
            presence: PresenceCheck::default(),
            _lock: lock,
        };
        // Before the socket receives: no other frame gets into the ring.
        port.attach_filter()?;
        port.socket
            .bind(source.protocol())
            .map_err(failed(&port.interface, "bind the packet socket"))?;
        Ok(port)
    }

    fn attach_filter(&mut self) -> Result<()> {
        let own = [self.mac, MacAddress::BROADCAST];
        let addresses = own.iter().chain(&self.multicast);
        let mut program = filter::program(&self.options.ether_types, addresses);
        self.socket.attach(&mut program).map_err(failed(&self.interface, "attach the filter"))
    }

    /// Submits a frame, to be sent at once or at `launch`.
    fn transmit(&mut self, slot: Slot, cause: Cause, launch: Option<Time>) -> Result<()> {
        let frame = self.slots.frame(slot)?;
        match self.socket.send(frame, launch) {
            Ok(()) => {
                self.diagnostics.sent += 1;
                match self.confirms() {
                    // The kernel reports a missed launch without a stamp as well.
                    true if self.stamped || launch.is_some() => drop(self.sent.taken(slot, cause)),
                    // No report will come: none is read.
                    true => self.sent.skip(),
                    false => {}
                }
                Ok(())
            }
            Err(error) => {
                self.diagnostics.send_failures += 1;
                // The kernel numbers a frame once its buffer is built. Of the errors here only this one occurs
                // later, in the driver's queue or the queueing discipline. (It is also that of a failed buffer
                // allocation; the kernel rather kills processes than to refuse so little.)
                if self.confirms() && error.raw_os_error() == Some(libc::ENOBUFS) {
                    self.sent.skip();
                    // A launch time that has passed is both refused and reported.
                    self.read_confirmations(launch)?;
                }
                Err(failed(&self.interface, "send")(error))
            }
        }
    }

    /// Sends a frame for which no caller waits; returns false if it failed.
    fn transmit_unattended(&mut self, slot: Slot, cause: Cause, launch: Option<Time>) -> bool {
        let result = self.transmit(slot, cause, launch);
        if result.is_err() {
            self.sent.dropped(slot, cause);
        }
        result.is_ok()
    }

    fn confirms(&self) -> bool {
        self.options.confirm
    }

    fn answer(&mut self, buffer: u32) -> bool {
        if self.source == FrameSource::Module {
            self.ring.extract_tag(buffer);
            return self.ring.answered_by_module(buffer);
        }
        let answer = self.responses.to(self.ring.octets(buffer));
        answer.is_some_and(|slot| {
            let sent = self.transmit_unattended(slot, Cause::Response, None);
            self.diagnostics.responses += u64::from(sent);
            sent
        })
    }

    /// Performs due work, and processes received frames. Returns true if there is something for the caller.
    pub(crate) fn pump(&mut self) -> Result<bool> {
        self.launch();
        while let Some(buffer) = self.ring.arrived() {
            let answered = self.answer(buffer);
            self.ring.mark_inspected(answered);
            self.diagnostics.received += 1;
            // A launch does not wait until a burst is answered.
            self.launch();
        }
        if self.sent.expects() {
            self.read_confirmations(None)?;
        }
        Ok(self.ring.has_waiting() || self.sent.has_confirmation())
    }

    fn launch(&mut self) {
        if self.schedule.next_deadline().is_none() {
            return;
        }
        let now = self.now();
        while let Some(due) = match self.txtime {
            None => self.schedule.pop(now),
            Some(Txtime { ahead_ns, .. }) => self.schedule.pop_ahead(now, now.after(ahead_ns)),
        } {
            let delay = self.now().since(due.time);
            let longest = &mut self.diagnostics.max_launch_delay_ns;
            *longest = delay.max(*longest);
            self.diagnostics.missed_cycles += due.missed;
            let launch = self.txtime.map(|txtime| due.time.after(txtime.allowance()));
            self.transmit_unattended(due.slot, due.cause, launch);
        }
    }

    /// Submits launches that are near enough to the kernel.
    fn submit(&mut self) {
        if self.txtime.is_some() {
            self.launch();
        }
    }

    /// Processes the error queue, except for a missed launch at `known`.
    fn read_confirmations(&mut self, known: Option<Time>) -> Result<()> {
        let take = failed(&self.interface, "read transmit time stamps");
        while let Some(entry) = self.socket.news().map_err(&take)? {
            match entry {
                Some(ErrorQueueEvent::Left(transmitted)) => {
                    let known = self.sent.left(transmitted.id, transmitted.stamp);
                    self.diagnostics.confirmed += u64::from(known);
                }
                Some(ErrorQueueEvent::Missed(time)) if known != Some(time) => {
                    let allowance = self.txtime.map_or(0, |txtime| txtime.allowance());
                    let known = self.sent.missed(Time(time.0.saturating_sub(allowance)));
                    self.diagnostics.send_failures += u64::from(known);
                }
                Some(ErrorQueueEvent::Missed(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Checks at intervals whether the interface is present.
    pub(crate) fn check_presence(&mut self, now: Time) -> Result<()> {
        let check = failed(&self.interface, "wait for frames");
        self.presence.check(now, &self.socket).map_err(check)
    }

    /// Sleeps until an event occurs, or for `timeout_ns`, or until the next check of the interface is due; returns
    /// the reason, which is no error. `own`: a further descriptor of the port; `other`: one of its caller.
    pub(crate) fn sleep(
        &mut self,
        timeout_ns: u64,
        own: Option<BorrowedFd<'_>>,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<WakeReason> {
        let timeout_ns = timeout_ns.min(presence::INTERVAL_NS);
        let wait = failed(&self.interface, "wait for the packet socket");
        let reason = self.socket.wait(timeout_ns, own, other).map_err(wait)?;
        if reason == WakeReason::Error {
            self.read_confirmations(None)?;
            let take = failed(&self.interface, "read the socket's error");
            self.socket.take_error().map_err(take)?;
            return Ok(WakeReason::Ready);
        }
        Ok(reason)
    }

    /// The multicast addresses that it receives.
    pub(crate) fn groups(&self) -> &[MacAddress] {
        &self.multicast
    }

    fn check_own(&self, frame: &ReceivedFrame) {
        assert_eq!(frame.port, self.number, "a frame of another port");
    }
}

impl Port for PacketPort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn mac_address(&self) -> MacAddress {
        self.mac
    }

    fn add_multicast(&mut self, address: MacAddress) -> Result<()> {
        if !address.is_multicast() || address.is_broadcast() {
            return Err(Error::NotMulticast(address));
        }
        if self.multicast.contains(&address) {
            return Ok(());
        }
        if self.multicast.len() == MAX_MULTICAST {
            return Err(Error::Full { what: "multicast addresses", capacity: MAX_MULTICAST });
        }
        let add = failed(&self.interface, "add a multicast address");
        self.socket.multicast(address, true).map_err(add)?;
        self.multicast.push(address);
        self.attach_filter()
    }

    fn remove_multicast(&mut self, address: MacAddress) -> Result<()> {
        let place = self.multicast.iter().position(|known| *known == address);
        self.multicast.swap_remove(place.ok_or(Error::NoSuchMulticast(address))?);
        self.attach_filter()?;
        let remove = failed(&self.interface, "remove a multicast address");
        self.socket.multicast(address, false).map_err(remove)
    }

    fn allocate(&mut self, capacity: usize) -> Result<Slot> {
        self.slots.allocate(capacity)
    }

    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()> {
        self.slots.update(slot, frame)
    }

    fn free(&mut self, slot: Slot) -> Result<()> {
        if self.responses.uses(slot) {
            return Err(Error::SlotAnswers(slot));
        }
        self.slots.free(slot)?;
        self.schedule.cancel(slot);
        Ok(())
    }

    fn send(&mut self, slot: Slot) -> Result<()> {
        self.transmit(slot, Cause::Now, None)
    }

    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()> {
        self.slots.frame(slot)?;
        self.schedule.at(slot, time);
        self.submit();
        Ok(())
    }

    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()> {
        self.slots.frame(slot)?;
        if period_ns == 0 {
            return Err(Error::Period);
        }
        self.schedule.every(slot, first, period_ns);
        self.submit();
        Ok(())
    }

    fn cancel(&mut self, slot: Slot) -> Result<bool> {
        self.slots.check(slot)?;
        Ok(self.schedule.cancel(slot))
    }

    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response> {
        self.slots.frame(slot)?;
        self.responses.add(filter, slot)
    }

    fn stop_responding(&mut self, response: Response) -> Result<()> {
        self.responses.remove(&response)
    }

    fn receive(&mut self) -> Result<Option<ReceivedFrame>> {
        if !self.ring.has_waiting() {
            self.pump()?;
        }
        Ok(self.ring.receive().map(|entry| ReceivedFrame {
            port: self.number,
            buffer: entry.buffer,
            stamp: entry.stamp,
            len: entry.len,
            tag: entry.tag,
            answered: entry.answered,
        }))
    }

    fn octets<'a>(&'a self, frame: &'a ReceivedFrame) -> &'a [u8] {
        self.check_own(frame);
        self.ring.octets(frame.buffer)
    }

    fn release(&mut self, frame: ReceivedFrame) {
        self.check_own(&frame);
        self.ring.release(frame.buffer);
    }

    fn confirmation(&mut self) -> Result<Option<Confirmation>> {
        if !self.sent.has_confirmation() {
            self.pump()?;
        }
        Ok(self.sent.take())
    }

    fn poll(&mut self) -> Result<()> {
        self.pump().map(drop)
    }

    fn next_deadline(&self) -> Option<Time> {
        let ahead = self.txtime.map_or(0, |txtime| txtime.ahead_ns);
        self.schedule.next_deadline().map(|launch| Time(launch.0.saturating_sub(ahead)))
    }

    fn wait_for(&mut self, until: Time, other: Option<BorrowedFd<'_>>) -> Result<bool> {
        loop {
            if self.pump()? {
                return Ok(true);
            }
            let now = self.now();
            if now >= until {
                return Ok(false);
            }
            self.check_presence(now)?;
            if self.options.spin && other.is_none() {
                std::hint::spin_loop();
                continue;
            }
            let deadline = self.next_deadline().map_or(until, |launch| launch.min(until));
            match self.sleep(deadline.since(now), None, other)? {
                WakeReason::Signal => return Ok(false),
                WakeReason::Other => return Ok(true),
                WakeReason::Ready | WakeReason::Error => {}
            }
        }
    }

    fn clock(&self) -> Clock {
        self.options.clock
    }

    fn now(&self) -> Time {
        clock::now(self.options.clock)
    }

    fn nic_time(&self) -> Result<u64> {
        self.capabilities.require(Feature::NicTime)?;
        let read = failed(&self.interface, "read the NIC's clock");
        let clock = self.nic_clock.as_ref().ok_or(io::ErrorKind::NotFound.into());
        clock.and_then(NicClock::read).map_err(read)
    }

    fn diagnostics(&mut self) -> Result<Diagnostics> {
        let drops = self.socket.take_drops();
        let read = failed(&self.interface, "read the ring's statistics");
        self.diagnostics.receive_drops += drops.map_err(read)?;
        self.diagnostics.unconfirmed = self.sent.lost;
        Ok(self.diagnostics)
    }
}

fn set_up(
    socket: &PacketSocket,
    options: &PortOptions,
    max_frame: usize,
    hardware: HardwareStamps,
) -> io::Result<Ring> {
    let ring = Ring::new(socket, options.receive_buffers, max_frame)?;
    // Otherwise the port would receive frames that other sockets send on the interface.
    socket.set(SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1_i32)?;
    let mut stamps = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE;
    if options.confirm {
        stamps |= libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    }
    if hardware.tx || hardware.rx_filter != HardwareStamps::NONE {
        stamps |= libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE;
        // e1000e drops its software stamp for this flag, although NIC transmit stamps are disabled.
        if options.confirm && hardware.tx {
            stamps |= libc::SOF_TIMESTAMPING_TX_HARDWARE;
        }
        socket.set(SOL_PACKET, libc::PACKET_TIMESTAMP, libc::SOF_TIMESTAMPING_RAW_HARDWARE)?;
    }
    socket.set(SOL_SOCKET, libc::SO_TIMESTAMPING, stamps)?;
    Ok(ring)
}

//! The back end `module`.

pub(crate) mod abi;
mod message;
mod netlink;

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use onbeat_host::InterfaceLock;
use onbeat_netdev::{Handle, Namespace};
use onbeat_wire::MacAddress;

use self::{
    message::Request,
    netlink::{Failure, Netlink},
};
use crate::exclusive::lock;
use crate::packet::{FrameSource, WakeReason};
use crate::response::Responses;
use crate::slot::{MIN_FRAME, Slots, next_port};
use crate::{
    Backend, Capabilities, Capability, Cause, Clock, Confirmation, Diagnostics, Error, Feature,
    Filter, Outcome, PacketPort, Port, PortOptions, ReceivedFrame, Response, Result, Slot, Stamp,
    StampSource, Time, TransmitMethod,
};

/// Maximum number of queued confirmations.
const KEPT: usize = 256;

/// A port over the kernel module onbeat.ko.
///
/// - The module claims its frames in the interface's receive path. It sends a response there, in softirq, before
///   any other processing of the frame; then the frame is delivered to a ring as that of [`PacketPort`], and
///   nowhere else.
/// - Launches are sent by a high-resolution timer in the kernel, whether or not this process runs; [`TransmitMethod`]
///   selects the method and context.
/// - A confirmation carries the time at which the driver released the frame's memory: after transmission, by the
///   delay of the driver's cleanup.
/// - The attachment belongs to this port: it ends when the port is closed or the process exits.
///
/// Periods of [`Port::send_every`] are at least 10 us. An interface has one attachment at a time.
pub struct ModulePort {
    number: u32,
    interface: String,
    index: u32,
    switch: Option<u32>,
    capabilities: Capabilities,
    slots: Slots,
    responses: Responses,
    news: VecDeque<Confirmation>,
    confirmed: u64,
    unconsumed: u64,
    spin: bool,
    receiver: PacketPort,
    control: Netlink,
    // Closed last: closing it detaches the module.
    owner: Netlink,
    _lock: InterfaceLock,
}

impl fmt::Debug for ModulePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModulePort")
            .field("interface", &self.interface)
            .field("switch", &self.switch)
            .field("receiver", &self.receiver)
            .finish_non_exhaustive()
    }
}

/// Returns true if the module is loaded, or the error of the query.
pub(crate) fn is_loaded(namespace: &Namespace) -> std::result::Result<bool, String> {
    match namespace.run(Netlink::open) {
        Ok(Ok(netlink)) => Ok(netlink.is_some()),
        Ok(Err(failure)) => Err(format!("{}: {}", failure.detail, failure.source)),
        Err(error) => Err(error.to_string()),
    }
}

impl ModulePort {
    /// Attaches the module to an interface of `namespace`, and opens a port on it.
    ///
    /// # Errors
    /// [`Error::NoModule`]; [`Error::Module`] if the interface belongs to a bridge or the like, its driver does not
    /// support the transmit mode, or the caller lacks CAP_NET_ADMIN; as
    /// [`PacketPort::open`].
    pub fn open(namespace: &Namespace, interface: &str, options: PortOptions) -> Result<Self> {
        options.check(Backend::Module, interface)?;
        let link = Handle::in_namespace(namespace)?.link(interface)?;
        let lock = lock(namespace, &link)?;
        let (mut owner, control) = namespace
            .run(|| Ok((Netlink::open()?, Netlink::open()?)))?
            .map_err(refused(interface, "open a netlink socket"))
            .and_then(|sockets| match sockets {
                (Some(owner), Some(control)) => Ok((owner, control)),
                _ => Err(Error::NoModule { interface: interface.to_owned() }),
            })?;
        attach(&mut owner, link.index, &options)
            .map_err(refused(interface, "attach to the interface"))?;
        let source = FrameSource::Module;
        // The module filters by EtherType, and sends.
        let receive = PortOptions { ether_types: Vec::new(), confirm: false, ..options.clone() };
        let receiver = PacketPort::open_for(namespace, interface, receive, source)?;
        let number = next_port();
        let mut port = Self {
            number,
            interface: interface.to_owned(),
            index: link.index,
            switch: None,
            capabilities: Capabilities::new(Backend::Module, interface, |feature| {
                capability(feature, &options, receiver.capabilities())
            }),
            slots: Slots::new(number, options.slots, MIN_FRAME + link.mtu as usize),
            responses: Responses::new(number, options.responses),
            news: VecDeque::with_capacity(KEPT),
            confirmed: 0,
            unconsumed: 0,
            spin: options.spin,
            receiver,
            control,
            owner,
            _lock: lock,
        };
        let mut switch = None;
        port.ask(|attributes| switch = attributes.u32(abi::A_SWITCH_IFINDEX))?;
        port.switch = switch;
        Ok(port)
    }

    /// The index of the virtual interface for frames that are not claimed, if there is one.
    #[must_use]
    pub fn switch_index(&self) -> Option<u32> {
        self.switch
    }

    /// Sends a command for this interface.
    fn command(
        &mut self,
        command: u8,
        operation: &'static str,
        fill: impl FnOnce(&mut Request<'_>),
    ) -> Result<()> {
        let index = self.index;
        let done = self.control.command(command, |request| {
            request.u32(abi::A_IFINDEX, index);
            fill(request);
        });
        done.map_err(refused(&self.interface, operation))
    }

    /// Queries the state of this attachment.
    fn ask(&mut self, show: impl FnMut(message::Attributes<'_>)) -> Result<()> {
        let index = self.index;
        let done = self.control.ask(
            abi::GET,
            |request| {
                request.u32(abi::A_IFINDEX, index);
            },
            show,
        );
        done.map_err(refused(&self.interface, "read its counters"))
    }

    fn send_groups(&mut self) -> Result<()> {
        let groups: Vec<u8> = self.receiver.groups().iter().flat_map(|group| group.0).collect();
        self.command(abi::GROUPS, "set multicast addresses", |request| {
            request.octets(abi::A_GROUPS, &groups);
        })
    }

    fn launch(&mut self, slot: Slot, first: Time, period_ns: Option<u64>) -> Result<()> {
        self.slots.frame(slot)?;
        self.command(abi::LAUNCH, "plan a launch", |request| {
            request.u32(abi::A_SLOT, slot.index).u64(abi::A_TIME, first.0);
            if let Some(period) = period_ns {
                request.u64(abi::A_PERIOD, period);
            }
        })
    }

    /// Reads pending confirmations; returns true if there are any.
    fn read_confirmations(&mut self) -> Result<bool> {
        let Self { owner, news, number, confirmed, unconsumed, .. } = self;
        let taken = owner.confirmations(|record| {
            let confirmation = confirmation(*number, record);
            *confirmed += u64::from(matches!(confirmation.outcome, Outcome::Sent(_)));
            if news.len() == KEPT {
                news.pop_front();
                *unconsumed += 1;
            }
            news.push_back(confirmation);
        });
        taken.map_err(refused(&self.interface, "read confirmations"))?;
        Ok(!self.news.is_empty())
    }

    fn pump(&mut self) -> Result<bool> {
        let received = self.receiver.pump()?;
        Ok(received || !self.news.is_empty() || self.read_confirmations()?)
    }
}

impl Port for ModulePort {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn mac_address(&self) -> MacAddress {
        self.receiver.mac_address()
    }

    fn add_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.receiver.add_multicast(address)?;
        self.send_groups()
    }

    fn remove_multicast(&mut self, address: MacAddress) -> Result<()> {
        self.receiver.remove_multicast(address)?;
        self.send_groups()
    }

    fn allocate(&mut self, capacity: usize) -> Result<Slot> {
        self.slots.allocate(capacity)
    }

    fn update(&mut self, slot: Slot, frame: &[u8]) -> Result<()> {
        self.slots.update(slot, frame)?;
        self.command(abi::SLOT_SET, "set a slot's frame", |request| {
            request
                .u32(abi::A_SLOT, slot.index)
                .u64(abi::A_COOKIE, slot.generation.into())
                .octets(abi::A_FRAME, frame);
        })
    }

    fn free(&mut self, slot: Slot) -> Result<()> {
        if self.responses.uses(slot) {
            return Err(Error::SlotAnswers(slot));
        }
        match self.slots.frame(slot) {
            Ok(_) => self.command(abi::SLOT_FREE, "free a slot", |request| {
                request.u32(abi::A_SLOT, slot.index);
            })?,
            // The module does not know the slot.
            Err(Error::EmptySlot(_)) => {}
            Err(error) => return Err(error),
        }
        self.slots.free(slot)
    }

    fn send(&mut self, slot: Slot) -> Result<()> {
        self.slots.frame(slot)?;
        self.command(abi::SEND, "send", |request| {
            request.u32(abi::A_SLOT, slot.index);
        })
    }

    fn send_at(&mut self, slot: Slot, time: Time) -> Result<()> {
        self.launch(slot, time, None)
    }

    fn send_every(&mut self, slot: Slot, first: Time, period_ns: u64) -> Result<()> {
        if period_ns == 0 {
            return Err(Error::Period);
        }
        self.launch(slot, first, Some(period_ns))
    }

    fn cancel(&mut self, slot: Slot) -> Result<bool> {
        match self.slots.frame(slot) {
            Err(Error::EmptySlot(_)) => return Ok(false),
            result => result?,
        };
        let canceled = self.command(abi::CANCEL, "cancel a launch", |request| {
            request.u32(abi::A_SLOT, slot.index);
        });
        match canceled {
            Ok(()) => Ok(true),
            Err(Error::Module { source, .. }) if source.raw_os_error() == Some(libc::EALREADY) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn respond(&mut self, filter: Filter, slot: Slot) -> Result<Response> {
        self.slots.frame(slot)?;
        let response = self.responses.add(filter, slot)?;
        let added = self.command(abi::RESPOND, "add a response", |request| {
            request
                .u32(abi::A_SLOT, slot.index)
                .u64(abi::A_RESPONSE, response.id)
                .octets(abi::A_VALUE, filter.value())
                .octets(abi::A_MASK, filter.mask());
        });
        match added {
            Ok(()) => Ok(response),
            Err(error) => {
                self.responses.remove(&response)?;
                Err(error)
            }
        }
    }

    fn stop_responding(&mut self, response: Response) -> Result<()> {
        self.responses.remove(&response)?;
        self.command(abi::RESPOND_STOP, "remove a response", |request| {
            request.u64(abi::A_RESPONSE, response.id);
        })
    }

    fn receive(&mut self) -> Result<Option<ReceivedFrame>> {
        self.receiver.receive()
    }

    fn octets<'a>(&'a self, frame: &'a ReceivedFrame) -> &'a [u8] {
        self.receiver.octets(frame)
    }

    fn release(&mut self, frame: ReceivedFrame) {
        self.receiver.release(frame);
    }

    fn confirmation(&mut self) -> Result<Option<Confirmation>> {
        if self.news.is_empty() {
            self.read_confirmations()?;
        }
        Ok(self.news.pop_front())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }

    fn next_deadline(&self) -> Option<Time> {
        None
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
            self.receiver.check_presence(now)?;
            if self.spin && other.is_none() {
                std::hint::spin_loop();
                continue;
            }
            match self.receiver.sleep(until.since(now), Some(self.owner.as_fd()), other)? {
                WakeReason::Signal => return Ok(false),
                WakeReason::Other => return Ok(true),
                WakeReason::Ready | WakeReason::Error => {}
            }
        }
    }

    fn clock(&self) -> Clock {
        self.receiver.clock()
    }

    fn now(&self) -> Time {
        self.receiver.now()
    }

    fn nic_time(&self) -> Result<u64> {
        self.capabilities.require(Feature::NicTime)?;
        self.receiver.nic_time()
    }

    fn diagnostics(&mut self) -> Result<Diagnostics> {
        let mut found = self.receiver.diagnostics()?;
        found.confirmed = self.confirmed;
        found.unconfirmed = self.unconsumed;
        self.ask(|attributes| {
            let counters = attributes.get(abi::A_COUNTERS).unwrap_or_default();
            for (kind, value) in message::Attributes(counters) {
                let value = value.first_chunk().map_or(0, |octets| u64::from_ne_bytes(*octets));
                match kind {
                    abi::C_SENT => found.sent = value,
                    abi::C_SEND_FAILURES => found.send_failures = value,
                    abi::C_RESPONSES => found.responses = value,
                    abi::C_MISSED_CYCLES => found.missed_cycles = value,
                    abi::C_MAX_LAUNCH_DELAY_NS => found.max_launch_delay_ns = value,
                    abi::C_LOST_CONFIRMATIONS => found.unconfirmed += value,
                    _ => {}
                }
            }
        })?;
        Ok(found)
    }
}

fn attach(
    owner: &mut Netlink,
    index: u32,
    options: &PortOptions,
) -> std::result::Result<(), Failure> {
    let flag = |on, flag| if on { flag } else { 0 };
    let flags = flag(options.switch, abi::FLAG_SWITCH) | flag(options.confirm, abi::FLAG_CONFIRM);
    let clock = if options.clock == Clock::Tai { libc::CLOCK_TAI } else { libc::CLOCK_MONOTONIC };
    let mode = match options.transmit {
        TransmitMethod::Direct => abi::MODE_DIRECT,
        TransmitMethod::Queue => abi::MODE_QUEUE,
        TransmitMethod::Netpoll => abi::MODE_NETPOLL,
    };
    let types: Vec<u8> = options.ether_types.iter().flat_map(|kind| kind.0.to_ne_bytes()).collect();
    owner.command(abi::ATTACH, |request| {
        request
            .u32(abi::A_IFINDEX, index)
            .u32(abi::A_MODE, mode)
            .u32(abi::A_CLOCK, clock as u32)
            .u32(abi::A_FLAGS, flags)
            .octets(abi::A_ETHER_TYPES, &types);
    })
}

fn capability(feature: Feature, options: &PortOptions, receiver: &Capabilities) -> Capability {
    match feature {
        Feature::Confirmation | Feature::TransmitStamp if !options.confirm => Capability::None {
            why: "it is disabled".into(),
            remedy: "open the port with confirmations".into(),
        },
        Feature::TransmitStamp => Capability::Emulated {
            how: "the time of CLOCK_REALTIME when the driver released the frame's memory".into(),
        },
        Feature::SendAt | Feature::SendEvery | Feature::Response | Feature::Confirmation => {
            Capability::Native
        }
        Feature::MulticastFilter
        | Feature::ZeroCopyReceive
        | Feature::ReceiveStamp
        | Feature::NicTime => receiver.get(feature).clone(),
    }
}

fn confirmation(port: u32, record: abi::ConfirmationRecord) -> Confirmation {
    let slot = Slot { port, index: record.slot, generation: record.cookie as u32 };
    let due = Time(record.due_ns);
    let cause = match record.cause {
        abi::CAUSE_AT => Cause::At(due),
        abi::CAUSE_CYCLE => Cause::Cycle { number: record.number, due },
        abi::CAUSE_RESPONSE => Cause::Response,
        _ => Cause::Now,
    };
    let outcome = match record.outcome {
        abi::OUTCOME_SENT => {
            Outcome::Sent(Stamp { ns: record.released_ns, source: StampSource::Software })
        }
        _ => Outcome::Dropped,
    };
    Confirmation { slot, cause, outcome }
}

/// Returns a closure that allocates only if there is an error.
fn refused(interface: &str, operation: &'static str) -> impl Fn(Failure) -> Error {
    move |failure| {
        let detail = match &failure.detail[..] {
            "" => "no reason given".to_owned(),
            detail => detail.to_owned(),
        };
        Error::Module { interface: interface.to_owned(), operation, detail, source: failure.source }
    }
}

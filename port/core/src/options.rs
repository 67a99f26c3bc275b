//! Options of a port.

use std::fmt;
use std::ops::RangeInclusive;

use onbeat_netdev::XdpMode;
use onbeat_wire::EtherType;

use crate::{Backend, Clock, Error, Feature, Result};

/// Options of a port. Fields that name a back end have no effect on others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOptions {
    /// The EtherTypes to receive; empty: all. The XDP back ends and the module pass frames of other EtherTypes to
    /// the network stack, the XDP back ends also frames to other addresses.
    pub ether_types: Vec<EtherType>,
    /// The number of transmit slots.
    pub slots: usize,
    /// The number of automatic responses.
    pub responses: usize,
    /// The number of receive buffers, each for a frame of the interface's MTU, with XDP 2048 octets.
    pub receive_buffers: usize,
    /// [`Clock::Monotonic`] or [`Clock::Tai`]; a `txtime` port always uses [`Clock::Tai`].
    pub clock: Clock,
    /// [`crate::Port::wait`] polls the rings and the clock instead of sleeping, without system calls while it waits
    /// for frames only. Uses a whole core.
    pub spin: bool,
    /// `xdp`: wake the process for each request that the driver answers. If false, the process receives them together
    /// with the next other frame; the wakeup would delay the answer by some microseconds.
    pub wake_when_answered: bool,
    /// Confirm transmissions. The caller must read confirmations: [`crate::Port::wait`] returns at once while any
    /// are pending. Launches and responses that could not be sent are reported in any case.
    pub confirm: bool,
    /// `xsk`, `xdp`: attach the program only in this mode, [`XdpMode::Native`] or [`XdpMode::Generic`]. `None`:
    /// native if the driver supports it, else generic.
    pub mode: Option<XdpMode>,
    /// `xsk`, `xdp`: copy frames to and from the UMEM even if the driver could use it directly.
    pub copy: bool,
    /// `txtime`: options of launch times.
    pub txtime: TxtimeOptions,
    /// `module`: the method by which it passes frames to the driver.
    pub transmit: TransmitMethod,
    /// `module`: create a virtual interface, `ob0` or the next free name, for frames of other EtherTypes. Without
    /// it they stay with the interface itself.
    pub switch: bool,
}

impl Default for PortOptions {
    fn default() -> Self {
        Self {
            ether_types: Vec::new(),
            slots: 64,
            responses: 64,
            receive_buffers: 256,
            clock: Clock::Monotonic,
            spin: false,
            wake_when_answered: true,
            confirm: true,
            mode: None,
            copy: false,
            txtime: TxtimeOptions::default(),
            transmit: TransmitMethod::default(),
            switch: false,
        }
    }
}

/// The largest values that a back end accepts.
struct Limits {
    ether_types: usize,
    slots: usize,
    responses: usize,
    receive_buffers: usize,
}

impl Limits {
    fn of(backend: Backend) -> Self {
        match backend {
            // The program compares each frame with all responses.
            Backend::Xsk | Backend::Xdp => {
                Self { ether_types: usize::MAX, slots: 4096, responses: 128, receive_buffers: 4096 }
            }
            Backend::Packet | Backend::Txtime | Backend::Module => {
                let most = 65_536;
                Self { ether_types: 64, slots: most, responses: most, receive_buffers: most }
            }
        }
    }
}

impl PortOptions {
    pub(crate) fn check(&self, backend: Backend, interface: &str) -> Result<()> {
        if self.clock == Clock::Nic {
            let why = match backend {
                Backend::Module => "the kernel has no timers on the NIC's clock",
                _ => "this process cannot sleep on the NIC's clock",
            };
            return Err(Error::Unsupported {
                interface: interface.to_owned(),
                backend,
                feature: Feature::SendAt,
                why: why.into(),
                remedy: "use CLOCK_MONOTONIC or CLOCK_TAI".into(),
            });
        }
        let limits = Limits::of(backend);
        let in_range = |what, value, allowed: RangeInclusive<usize>| {
            let fits = allowed.contains(&value);
            if fits { Ok(()) } else { Err(Error::Option { what, value, allowed }) }
        };
        let types = self.ether_types.len();
        in_range("the number of EtherTypes", types, 0..=limits.ether_types)?;
        in_range("slots", self.slots, 1..=limits.slots)?;
        in_range("responses", self.responses, 0..=limits.responses)?;
        in_range("receive buffers", self.receive_buffers, 2..=limits.receive_buffers)
    }
}

/// Launch-time options of [`crate::PacketPort::open_txtime`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxtimeOptions {
    /// The time in nanoseconds by which a frame is submitted to the kernel ahead of its instant. A larger value
    /// tolerates more lateness of this process without a lost cycle; but a submitted frame can no longer be updated
    /// or canceled.
    pub ahead_ns: u64,
    /// `SO_PRIORITY` of the frames, which selects the traffic class; `None`: the lowest one whose transmit queues
    /// support launch times.
    pub priority: Option<u8>,
    /// The instant is a deadline: frames are sent as soon as possible until then; requires etf with deadline_mode.
    /// Otherwise it is the earliest time.
    pub deadline: bool,
}

impl Default for TxtimeOptions {
    fn default() -> Self {
        Self { ahead_ns: 2_000_000, priority: None, deadline: false }
    }
}

/// The method by which the kernel module passes frames to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TransmitMethod {
    /// Bypasses the queueing discipline; drops the frame while the driver's queue is locked or full. Launches are
    /// sent in softirq.
    #[default]
    Direct,
    /// Through the queueing discipline. Launches are sent in softirq.
    Queue,
    /// By netpoll: launches are sent in the timer's hard interrupt, with interrupts disabled. Not supported by
    /// every driver, nor by PREEMPT_RT kernels. Responses are sent as by [`TransmitMethod::Direct`].
    Netpoll,
}

impl TransmitMethod {
    /// All methods.
    pub const ALL: [TransmitMethod; 3] =
        [TransmitMethod::Direct, TransmitMethod::Queue, TransmitMethod::Netpoll];
}

impl fmt::Display for TransmitMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransmitMethod::Direct => "direct",
            TransmitMethod::Queue => "queue",
            TransmitMethod::Netpoll => "netpoll",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_named() {
        let usual = PortOptions::default;
        for (_, backend) in Backend::ALL {
            assert!(usual().check(backend, "eth0").is_ok());
        }
        let many = vec![EtherType::ARP; 65];
        for (backend, options, refusal) in [
            (
                Backend::Packet,
                PortOptions { slots: 0, ..usual() },
                "slots is 0; it must be from 1 to 65536",
            ),
            (
                Backend::Packet,
                PortOptions { ether_types: many, ..usual() },
                "the number of EtherTypes is 65; it must be at most 64",
            ),
            (
                Backend::Xdp,
                PortOptions { responses: 129, ..usual() },
                "responses is 129; it must be at most 128",
            ),
            (
                Backend::Xdp,
                PortOptions { slots: 0, ..usual() },
                "slots is 0; it must be from 1 to 4096",
            ),
            (
                Backend::Xsk,
                PortOptions { receive_buffers: 1, ..usual() },
                "receive buffers is 1; it must be from 2 to 4096",
            ),
        ] {
            assert_eq!(options.check(backend, "eth0").unwrap_err().to_string(), refusal);
        }
    }
}

//! What a module port is opened with.

use std::fmt;

use onbeat_wire::EtherType;

use super::abi;
use crate::{Clock, PacketOptions};

/// How the kernel module hands frames to the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Transmit {
    /// Around the queueing discipline, and not at all while the driver's queue is locked or full.
    /// Launches are sent in softirq.
    #[default]
    Direct,
    /// Through the queueing discipline. Launches are sent in softirq.
    Queue,
    /// By netpoll: launches are sent in the timer's hard interrupt, with interrupts off. Not every
    /// driver does it, and no PREEMPT_RT kernel. Responses are sent as by [`Transmit::Direct`].
    Netpoll,
}

impl Transmit {
    /// All of them.
    pub const ALL: [Transmit; 3] = [Transmit::Direct, Transmit::Queue, Transmit::Netpoll];

    pub(super) fn mode(self) -> u32 {
        match self {
            Transmit::Direct => abi::MODE_DIRECT,
            Transmit::Queue => abi::MODE_QUEUE,
            Transmit::Netpoll => abi::MODE_NETPOLL,
        }
    }
}

impl fmt::Display for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transmit::Direct => "direct",
            Transmit::Queue => "queue",
            Transmit::Netpoll => "netpoll",
        })
    }
}

/// How a [`super::ModulePort`] is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleOptions {
    /// What to claim; empty: every EtherType.
    pub ether_types: Vec<EtherType>,
    /// How frames are handed to the driver.
    pub transmit: Transmit,
    /// Make a virtual interface, `ob0` or the next that is free, that carries what is not claimed.
    /// Without one that stays with the interface itself.
    pub switch: bool,
    /// Transmit slots.
    pub slots: usize,
    /// Automatic responses.
    pub responses: usize,
    /// Places in the receive ring, each for a frame of the interface's MTU.
    pub receive_buffers: usize,
    /// [`Clock::Monotonic`] or [`Clock::Tai`].
    pub clock: Clock,
    /// [`crate::Port::wait`] does not sleep but looks again and again. Takes a whole core.
    pub spin: bool,
    /// Have the module confirm what was sent. That a launch or a response could not be sent is
    /// told in any case.
    pub confirm: bool,
}

impl Default for ModuleOptions {
    fn default() -> Self {
        let PacketOptions { slots, responses, receive_buffers, .. } = PacketOptions::default();
        Self {
            ether_types: Vec::new(),
            transmit: Transmit::default(),
            switch: false,
            slots,
            responses,
            receive_buffers,
            clock: Clock::Monotonic,
            spin: false,
            confirm: true,
        }
    }
}

impl ModuleOptions {
    /// What the receive half is opened with. The module looks at EtherTypes, and sends.
    pub(super) fn receive(&self) -> PacketOptions {
        PacketOptions {
            ether_types: Vec::new(),
            slots: self.slots,
            responses: self.responses,
            receive_buffers: self.receive_buffers,
            clock: self.clock,
            spin: self.spin,
            confirm: false,
        }
    }
}

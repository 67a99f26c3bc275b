//! Whether a RedBox forwards between its host port and the LANs: not while that port is connected to a LAN, and not while
//! another RedBox serves the same stations. Otherwise broadcasts circulate without end.
//!
//! Each RedBox sends hellos to its host port ([`Hello`]). One that returns there shows that a LAN is connected. Of several
//! RedBoxes, one serves, and the others are its standbys. Precedence has
//!
//! 1. one that hears a LAN,
//! 2. one that serves already, so that one that returns interrupts nothing,
//! 3. the smaller address.
//!
//! Programs in the kernel forward without their process: they yield then, before a standby takes over. A standby without its
//! process stays one. All frames of a station have the numbers of the RedBox that serves. Between two of them, receivers
//! have time to forget.
//!
//! Switches have learnt that the stations are behind the former RedBox, and the nodes of the LANs too. The one that takes over
//! sends a broadcast in the name of each ([`announcements`]).

use core::cmp::Reverse;

use alloc::vec::Vec;

use onbeat_wire::prp::hello::Hello;
use onbeat_wire::{EtherType, MacAddress};

use super::{ABSENCE_NS, LIFE_CHECK_MS, NS_PER_MS, NodeReading, number_space};

/// Period of hellos, in milliseconds: one arrives in the silence after a start.
pub(super) const HELLO_MS: u32 = LIFE_CHECK_MS / 8;

/// Two hellos.
const HELLOS_NS: u64 = 2 * HELLO_MS as u64 * NS_PER_MS;

/// Without an own hello for this time, any other RedBox has precedence.
pub const OWN_SILENCE_NS: u64 = 2 * LIFE_CHECK_MS as u64 * NS_PER_MS;

/// Why the host port is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockCause {
    /// A LAN is connected to it.
    ByLan,
    /// This RedBox serves its stations.
    ByRedBox(MacAddress),
}

/// Times of the host port, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPortTimes {
    /// The port is blocked for this time after the last hello with precedence. One whose process has ended yields before, and
    /// receivers forget its numbers.
    pub blocked_ns: u64,
    /// The port is blocked for this time after the sender of that hello has lost its precedence: it hears of it, and receivers
    /// forget its numbers.
    pub yielding_ns: u64,
}

impl HostPortTimes {
    /// Times for an EntryForgetTime.
    #[must_use]
    pub fn new(entry_forget_ms: u32) -> Self {
        let yielding_ns = HELLOS_NS + number_space::reboot_silence_ns(entry_forget_ms);
        Self { blocked_ns: OWN_SILENCE_NS + yielding_ns, yielding_ns }
    }
}

/// State of the host port of a RedBox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostPort {
    /// End of the time for which it is blocked.
    pub blocked_until_ns: u64,
    /// Sender of the hello that blocks it. Without one, it is the silence after a start.
    pub blocked_by: Option<MacAddress>,
    /// Time of the last own hello.
    pub hello_ns: u64,
    /// Whether a LAN had brought frames then.
    pub is_on_lan: bool,
    /// Time of the last hello of another RedBox; 0: none.
    pub other_ns: u64,
}

impl HostPort {
    /// The state at the start of a RedBox.
    #[must_use]
    pub fn new(silent_until_ns: u64) -> Self {
        Self { blocked_until_ns: silent_until_ns, ..Self::default() }
    }

    /// Notes a supervision frame from the host port. `hello`: its content, if it is one.
    pub(super) fn hear(
        &mut self,
        source: MacAddress,
        hello: Option<&Hello>,
        own: MacAddress,
        times: HostPortTimes,
        now_ns: u64,
    ) {
        if source == own {
            self.block(own, now_ns + times.blocked_ns);
            return;
        }
        let Some(hello) = hello else { return };
        self.other_ns = now_ns;
        if self.blocked_by == Some(own) && self.is_blocked(now_ns) {
            return;
        }
        if self.is_preceded_by(hello, own, now_ns) {
            self.block(source, now_ns + times.blocked_ns);
        } else if self.blocked_by == Some(source) {
            self.blocked_until_ns = self.blocked_until_ns.min(now_ns + times.yielding_ns);
        }
    }

    fn block(&mut self, by: MacAddress, until_ns: u64) {
        (self.blocked_by, self.blocked_until_ns) = (Some(by), until_ns);
    }

    /// Returns whether the sender of a hello has precedence.
    fn is_preceded_by(&self, hello: &Hello, own: MacAddress, now_ns: u64) -> bool {
        if self.is_silent(now_ns) {
            return true;
        }
        let serves = !self.is_blocked(now_ns);
        (hello.is_on_lan, hello.serves, Reverse(hello.sender))
            > (self.is_on_lan, serves, Reverse(own))
    }

    /// Returns whether nothing is forwarded from and to the host port.
    #[must_use]
    pub fn is_blocked(&self, now_ns: u64) -> bool {
        now_ns < self.blocked_until_ns || (self.blocked_by.is_some() && self.is_silent(now_ns))
    }

    /// Returns whether its process has sent no hello lately.
    pub(super) fn is_silent(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.hello_ns) > OWN_SILENCE_NS
    }

    /// Blocks the port until other RedBoxes have sent hellos, if there are any: one may serve by now.
    pub fn listen(&mut self, now_ns: u64) {
        if self.other_ns > 0 {
            self.blocked_until_ns = self.blocked_until_ns.max(now_ns + HELLOS_NS);
        }
    }

    /// Prepares the next hello; returns the RedBox whose stations this one serves from now on, if it takes over.
    pub(super) fn supervise(
        &mut self,
        own: MacAddress,
        hears_lan: bool,
        times: HostPortTimes,
        now_ns: u64,
    ) -> Option<MacAddress> {
        let was_silent = self.hello_ns > 0 && self.is_silent(now_ns);
        if was_silent && self.blocked_by.is_some() {
            self.blocked_until_ns = self.blocked_until_ns.max(now_ns + times.yielding_ns);
        }
        let is_over = now_ns >= self.blocked_until_ns;
        let former = self.blocked_by.filter(|_| is_over);
        if is_over {
            self.blocked_by = None;
        }
        // While a LAN is connected to the port, another RedBox may serve.
        self.is_on_lan = hears_lan && self.blocked_by != Some(own);
        former.filter(|former| *former != own)
    }

    /// Returns why the host port of the node with address `own` is blocked; `None`: it forwards, or is silent after a start.
    #[must_use]
    pub fn blocked(&self, own: MacAddress, now_ns: u64) -> Option<BlockCause> {
        let by = self.blocked_by.filter(|_| self.is_blocked(now_ns))?;
        Some(if by == own { BlockCause::ByLan } else { BlockCause::ByRedBox(by) })
    }
}

/// EtherType of frames that only switches read, as bonding sends them.
const LOOPBACK: EtherType = EtherType(0x9000);

/// Shortest frame, without its FCS.
const SHORTEST: usize = 60;

/// Frames by which switches learn that a RedBox has taken over from another one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Announcements {
    /// Of the stations that the other one represented: to the LANs.
    pub to_lans: Vec<Vec<u8>>,
    /// Of all other nodes: to the stations.
    pub to_segment: Vec<Vec<u8>>,
}

/// Returns the frames after a takeover from `former`.
#[must_use]
pub fn announcements(former: MacAddress, nodes: &[NodeReading]) -> Announcements {
    let mut announcements = Announcements::default();
    for node in nodes.iter().filter(|node| node.mac != former) {
        let mut octets = [[0xff; 6], node.mac.0].concat();
        octets.extend(LOOPBACK.to_octets());
        octets.resize(SHORTEST, 0);
        let redbox = node.supervision.and_then(|supervision| supervision.redbox);
        if redbox == Some(former) {
            announcements.to_lans.push(octets);
        } else {
            announcements.to_segment.push(octets);
        }
    }
    announcements
}

/// When the LANs brought frames, by their number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LanPresence {
    received: u64,
    /// Time of the last change; `None`: not asked yet.
    at_ns: Option<u64>,
}

impl LanPresence {
    /// Returns whether a LAN has brought frames lately. After a start, that is supposed.
    pub(super) fn is_present(&mut self, received: u64, now_ns: u64) -> bool {
        if self.at_ns.is_none() || received != self.received {
            (self.received, self.at_ns) = (received, Some(now_ns));
        }
        self.at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < ABSENCE_NS)
    }
}

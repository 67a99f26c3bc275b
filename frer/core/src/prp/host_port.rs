//! Whether a RedBox forwards between its host port and the LANs: not while that port is connected to a LAN, and not while
//! another RedBox of the same LANs serves the same stations. Otherwise broadcasts circulate without end.
//!
//! Each RedBox sends hellos to its host port: supervision frames without a trailer, which stations ignore. One that
//! returns there shows that a LAN is connected. Of two RedBoxes that hear each other both there and on a LAN, the one with
//! the smaller address forwards; the other one is its standby. On other LANs it couples two networks, and both forward.
//! Programs in the kernel forward without their process: they yield then, before the standby takes over.

use onbeat_wire::MacAddress;

use super::{ABSENCE_NS, LIFE_CHECK_MS, NS_PER_MS};

/// Period of hellos, in milliseconds: two within the silence after a start.
pub(super) const HELLO_MS: u32 = LIFE_CHECK_MS / 8;

/// The host port is blocked for this time after the last hello: two periods of supervision and a margin.
const BLOCKED_NS: u64 = ABSENCE_NS;

/// Without an own hello for this time, any RedBox on the LANs blocks the host port: before the others take over.
const UNHEARD_NS: u64 = BLOCKED_NS - 4 * HELLO_MS as u64 * NS_PER_MS;

/// After the silence of a start, a RedBox that hears another one waits for it on the LANs: a period of supervision and a margin.
const LISTEN_NS: u64 = ABSENCE_NS / 2;

/// Why the host port is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// A LAN is connected to it.
    ByLan,
    /// This RedBox serves its stations.
    ByRedBox(MacAddress),
}

/// State of the host port of a RedBox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostPort {
    /// End of the time for which it is blocked.
    pub blocked_until_ns: u64,
    /// Sender of the hello that blocks it. Without one, it is the silence after a start.
    pub blocked_by: Option<MacAddress>,
    /// Time of the last own hello.
    pub sent_ns: u64,
    /// End of the time after a start in which any RedBox there blocks it.
    pub listens_until_ns: u64,
}

impl HostPort {
    /// The state at the start of a RedBox.
    #[must_use]
    pub fn new(silent_until_ns: u64) -> Self {
        let listens_until_ns = silent_until_ns.saturating_add(LISTEN_NS);
        Self { blocked_until_ns: silent_until_ns, listens_until_ns, ..Self::default() }
    }

    /// Notes a hello from the host port; `last_on_lan_ns`: time of the last frame of its sender on a LAN.
    pub(super) fn hear(
        &mut self,
        sender: MacAddress,
        own: MacAddress,
        last_on_lan_ns: Option<u64>,
        now_ns: u64,
    ) {
        let is_on_lan =
            last_on_lan_ns.is_some_and(|last_ns| now_ns.saturating_sub(last_ns) < ABSENCE_NS);
        let serves = sender < own || now_ns.saturating_sub(self.sent_ns) > UNHEARD_NS;
        let until_ns = if sender == own || (serves && is_on_lan) {
            now_ns + BLOCKED_NS
        } else {
            self.listens_until_ns
        };
        if until_ns > now_ns && until_ns >= self.blocked_until_ns {
            (self.blocked_by, self.blocked_until_ns) = (Some(sender), until_ns);
        }
    }

    /// Returns whether nothing is forwarded from and to the host port.
    pub(super) fn is_blocked(&self, now_ns: u64) -> bool {
        now_ns < self.blocked_until_ns
    }

    /// Returns why the host port of the node with address `own` is blocked; `None`: it forwards, or is silent after a start.
    #[must_use]
    pub fn blocked(&self, own: MacAddress, now_ns: u64) -> Option<Blocked> {
        let by = self.blocked_by.filter(|_| self.is_blocked(now_ns))?;
        Some(if by == own { Blocked::ByLan } else { Blocked::ByRedBox(by) })
    }
}

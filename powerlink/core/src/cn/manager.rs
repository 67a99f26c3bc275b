//! The managing node in charge, by the address of its frames. Another sender with its node id has no effect.
//!
//! The first SoC or SoA determines the address. Another one is accepted
//! - after a silence of the known one, without SoC and SoA, of [`RELEASE_NS`] and [`RELEASE_CYCLES`];
//! - after the announcement of a redundant managing node (AMNI, EPSG DS 302-A) in the silence of the known one, a
//!   cycle before its first SoC.
//!
//! Silence is detected by deadlines, which a driver handles after the received frames: a node that was not scheduled
//! for a while does not take its own delay for silence.

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, Message, NodeId, Service};

use super::{ControlledNode, Event};
use crate::od::profile;
use crate::report::ReportInterval;

/// Silence of the known managing node after which another address is accepted: a managing node listens as long
/// before it sends (default of 0x1F89/1).
const RELEASE_NS: u64 = 1_000_000_000;
/// The same in cycles, for long ones.
const RELEASE_CYCLES: u64 = 10;
/// Silence outside of the isochronous cycle in which a successor may announce itself: longer than an asynchronous
/// phase, and shorter than its switch-over time (0x1F89/1).
const SUCCESSION_NS: u64 = 100_000_000;

/// A redundant managing node that has announced itself.
#[derive(Debug, Clone, Copy)]
struct Successor {
    mac: MacAddress,
    /// Its first SoC or SoA is not expected before.
    from_ns: u64,
    /// The known managing node was silent until then.
    confirmed: bool,
}

/// The address of the managing node, and what was heard of it.
#[derive(Debug, Default)]
pub(super) struct Manager {
    mac: Option<MacAddress>,
    /// From when on it is silent, since its last SoC, or its last SoA outside of the isochronous cycle.
    silent_from_ns: u64,
    /// It is silent.
    silent: bool,
    /// When its address is released.
    release_ns: u64,
    successor: Option<Successor>,
    ignored: u64,
    reports: ReportInterval,
}

impl Manager {
    /// Whether a frame with the id of the managing node is from another address.
    pub(super) fn is_foreign(&self, mac: MacAddress) -> bool {
        self.mac.is_some_and(|known| known != mac)
    }

    /// Accepts any address from the next SoC or SoA on.
    pub(super) fn release(&mut self) {
        (self.mac, self.successor) = (None, None);
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.mac?;
        let silent = (!self.silent).then_some(self.silent_from_ns);
        let successor = self.successor.filter(|successor| !successor.confirmed);
        let successor = successor.map(|successor| successor.from_ns);
        silent.into_iter().chain(successor).chain([self.release_ns]).min()
    }

    pub(super) fn handle_deadline(&mut self, now_ns: u64) {
        self.silent |= now_ns >= self.silent_from_ns;
        if let Some(successor) = self.successor.as_mut() {
            successor.confirmed |= now_ns >= successor.from_ns;
        }
        if now_ns >= self.release_ns {
            self.release();
        }
    }

    /// Whether a SoC or SoA may be from this address.
    fn admits(&self, mac: MacAddress) -> bool {
        let succeeds = |successor: Successor| successor.confirmed && successor.mac == mac;
        !self.is_foreign(mac) || self.successor.is_some_and(succeeds)
    }
}

impl ControlledNode {
    /// The address of the managing node, if it is known.
    pub fn manager(&self) -> Option<MacAddress> {
        self.manager.mac
    }

    /// The number of ignored frames with the id of the managing node from another address.
    pub fn foreign_frames(&self) -> u64 {
        self.manager.ignored
    }

    /// Whether the node obeys a message as one of its managing node. The frame is ignored otherwise, and counted if
    /// its sender only claims to be the managing node.
    pub(super) fn is_from_manager(
        &mut self,
        now_ns: u64,
        mac: MacAddress,
        message: &Message<'_>,
    ) -> bool {
        let by_right = match message.body {
            // A redundant managing node sends commands with its own id.
            Body::Asnd(Service::NmtCommand(_)) => message.source.is_managing(),
            _ => message.source == NodeId::MN,
        };
        if !by_right {
            return false;
        }
        let starts = matches!(message.body, Body::Soc(_) | Body::Soa(_));
        if starts && self.manager.admits(mac) {
            self.heard(now_ns, mac, matches!(message.body, Body::Soc(_)));
        }
        let foreign = self.manager.is_foreign(mac);
        if foreign {
            self.ignore(now_ns, mac);
        }
        !foreign
    }

    /// Handles a SoC or SoA of the managing node.
    fn heard(&mut self, now_ns: u64, mac: MacAddress, soc: bool) {
        let before = self.manager.mac.replace(mac);
        if let Some(before) = before.filter(|before| *before != mac) {
            self.events.push_back(Event::ManagerReplaced { before, mac });
        }
        let (cyclic, cycle_ns) = (self.state.is_cyclic(), self.cycle_ns());
        let release_ns = RELEASE_NS.max(cycle_ns.saturating_mul(RELEASE_CYCLES));
        let manager = &mut self.manager;
        manager.release_ns = now_ns.saturating_add(release_ns);
        // Isochronous cycles are measured from SoC to SoC.
        if soc || !cyclic || before != Some(mac) {
            let late_ns =
                if cyclic { cycle_ns + cycle_ns / 20 } else { cycle_ns.max(SUCCESSION_NS) };
            manager.silent_from_ns = now_ns.saturating_add(late_ns);
            (manager.silent, manager.successor) = (false, None);
        }
    }

    fn cycle_ns(&self) -> u64 {
        self.od.number(profile::CYCLE_LENGTH_US) * 1000
    }

    /// Handles an AMNI: its sender becomes the successor of a managing node that is silent.
    pub(super) fn announced(&mut self, now_ns: u64, source: NodeId, mac: MacAddress) {
        if !source.is_managing() || !self.manager.is_foreign(mac) {
            return;
        }
        if self.manager.silent {
            // Its first SoC follows after a cycle.
            let from_ns = now_ns.saturating_add(self.cycle_ns() / 10 * 9);
            self.manager.successor = Some(Successor { mac, from_ns, confirmed: false });
        } else {
            self.ignore(now_ns, mac);
        }
    }

    /// Counts and reports an ignored frame.
    pub(super) fn ignore(&mut self, now_ns: u64, mac: MacAddress) {
        let manager = &mut self.manager;
        manager.ignored += 1;
        if manager.reports.is_due(now_ns) {
            self.events.push_back(Event::ForeignManager(mac));
        }
    }
}

//! The managing node in charge, by the address of its frames. Another sender with its node id has no effect.
//!
//! The first SoC or SoA determines the address. Another one is accepted
//! - once the known one was lost: its SoC by their error counter, or all its SoC and SoA for
//!   [`RELEASE_NS`] and [`RELEASE_CYCLES`];
//! - after the announcement of a redundant managing node (AMNI, EPSG DS 302-A) in the silence of the known one.

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{Body, Message, NodeId, Service};

use super::{ControlledNode, Event};
use crate::od::profile;

/// Silence of the known managing node after which another address is accepted: a managing node listens as long
/// before it sends (default of 0x1F89/1).
const RELEASE_NS: u64 = 1_000_000_000;
/// The same in cycles, for long ones.
const RELEASE_CYCLES: u64 = 10;
/// Silence outside of the isochronous cycle in which a successor may announce itself: longer than an asynchronous
/// phase, and shorter than its switch-over time (0x1F89/1).
const SUCCESSION_NS: u64 = 100_000_000;
/// Interval between reports of frames from another address.
const REPORT_AGAIN_NS: u64 = 1_000_000_000;

/// The address of the managing node, and what was heard of it.
#[derive(Debug, Default)]
pub(super) struct Manager {
    mac: Option<MacAddress>,
    /// Its last SoC, or SoA outside of the isochronous cycle.
    heard_ns: u64,
    /// The address of an announced successor.
    successor: Option<MacAddress>,
    ignored: u64,
    reported_ns: Option<u64>,
}

impl Manager {
    pub(super) const fn mac(&self) -> Option<MacAddress> {
        self.mac
    }

    /// Accepts any address from the next SoC or SoA on.
    pub(super) fn release(&mut self) {
        (self.mac, self.successor) = (None, None);
    }
}

/// Whether a node id is that of the active managing node or of a redundant one.
const fn is_managing(node: NodeId) -> bool {
    node.0 >= NodeId::MN.0 && node.0 <= 250
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
            Body::Asnd(Service::NmtCommand(_)) => is_managing(message.source),
            _ => message.source == NodeId::MN,
        };
        if !by_right {
            return false;
        }
        let starts = matches!(message.body, Body::Soc(_) | Body::Soa(_));
        let replaces = starts && self.may_replace(now_ns, mac);
        let manager = &mut self.manager;
        if replaces {
            if let Some(before) = manager.mac.replace(mac) {
                self.events.push_back(Event::ManagerReplaced { before, mac });
            }
        }
        if manager.mac.is_some_and(|known| known != mac) {
            self.ignore(now_ns, mac);
            return false;
        }
        let manager = &mut self.manager;
        if manager.mac.is_some() && starts {
            manager.successor = None;
            // The cycle is measured from SoC to SoC.
            if matches!(message.body, Body::Soc(_)) || !self.state.is_cyclic() {
                manager.heard_ns = now_ns;
            }
        }
        true
    }

    /// Handles an AMNI: its sender becomes the successor of a managing node that is silent.
    pub(super) fn announced(&mut self, now_ns: u64, source: NodeId, mac: MacAddress) {
        if !is_managing(source) || self.manager.mac.is_none_or(|known| known == mac) {
            return;
        }
        let cycle_ns = self.od.number(profile::CYCLE_LENGTH_US) * 1000;
        let least_ns = if self.state.is_cyclic() { cycle_ns } else { cycle_ns.max(SUCCESSION_NS) };
        if now_ns.saturating_sub(self.manager.heard_ns) > least_ns {
            self.manager.successor = Some(mac);
        } else {
            self.ignore(now_ns, mac);
        }
    }

    /// Counts and reports an ignored frame.
    pub(super) fn ignore(&mut self, now_ns: u64, mac: MacAddress) {
        let manager = &mut self.manager;
        manager.ignored += 1;
        if manager.reported_ns.is_none_or(|reported| now_ns >= reported + REPORT_AGAIN_NS) {
            manager.reported_ns = Some(now_ns);
            self.events.push_back(Event::ForeignManager(mac));
        }
    }

    /// Whether a SoC or SoA may come from another address than the known one.
    fn may_replace(&self, now_ns: u64, mac: MacAddress) -> bool {
        let Manager { mac: Some(known), heard_ns, successor, .. } = self.manager else {
            return true;
        };
        let cycle_ns = self.od.number(profile::CYCLE_LENGTH_US) * 1000;
        let silence_ns = RELEASE_NS.max(cycle_ns.saturating_mul(RELEASE_CYCLES));
        let silent = now_ns.saturating_sub(heard_ns) >= silence_ns;
        known != mac && (successor == Some(mac) || silent)
    }
}

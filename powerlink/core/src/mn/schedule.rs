//! Assignment of the asynchronous phase (EPSG DS 301, 4.2.4.6).

use alloc::vec::Vec;

use onbeat_wire::powerlink::{
    EplVersion, NmtCommand, NmtCommandId, NodeId, Priority, RequestedService, SendRequest, Service,
    Soa,
};

use super::station::Signaling;
use super::{ManagingNode, Step};

/// The use of a phase. Uses take turns, and nodes take turns within each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PhaseUse {
    /// StatusRequest to a node.
    Status,
    /// Invite of a node with queued frames.
    Request,
    /// An SDO frame of this node, or one of another protocol.
    Own,
    /// IdentRequest to a node.
    Ident,
}

const PHASE_USES: [PhaseUse; 4] =
    [PhaseUse::Own, PhaseUse::Request, PhaseUse::Status, PhaseUse::Ident];

/// Indices after those of the stations, for uses without one.
const FURTHER: usize = 2;

/// A diagnostic device is looked for once in this many phases while others are in use, else in each.
const DIAGNOSTIC_INTERVAL: u32 = 16;

/// The next use and node.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    kind: usize,
    /// Phases since the last IdentRequest to a diagnostic device.
    since_diagnostic: u32,
    /// By use.
    place: [usize; PHASE_USES.len()],
}

impl ManagingNode {
    /// The next SoA, and the frame of this node after it.
    pub(super) fn schedule(&mut self, now_ns: u64) -> (Soa, Option<Vec<u8>>) {
        if self.quiet_phases > 0 {
            self.quiet_phases -= 1;
            if self.quiet_phases == 0 {
                self.command(NodeId::BROADCAST, NmtCommandId::RESET_NODE);
            }
            return (self.soa(RequestedService::NO_SERVICE, NodeId::NONE), None);
        }
        if let Some(mut order) = self.commands.pop_front() {
            self.complete(now_ns, &mut order);
            self.commanded(now_ns, &order);
            let command = NmtCommand { command: order.command, data: &order.data };
            let soa = self.soa(RequestedService::NMT_REQUEST_INVITE, NodeId::MN);
            return (soa, Some(self.asnd(order.node, Service::NmtCommand(command))));
        }
        self.turn.since_diagnostic += 1;
        if self.turn.since_diagnostic >= DIAGNOSTIC_INTERVAL {
            return (self.seek_diagnostic(), None);
        }
        for n in 0..PHASE_USES.len() {
            let turn = (self.turn.kind + n) % PHASE_USES.len();
            if let Some(found) = self.schedule_kind(now_ns, turn) {
                self.turn.kind = (turn + 1) % PHASE_USES.len();
                if PHASE_USES[turn] == PhaseUse::Status {
                    let place = self.turn.place[turn];
                    self.start_limit(now_ns, place);
                    self.status_requested = Some(place);
                }
                return found;
            }
        }
        (self.seek_diagnostic(), None)
    }

    /// An IdentRequest to a diagnostic device.
    fn seek_diagnostic(&mut self) -> Soa {
        self.turn.since_diagnostic = 0;
        self.soa(RequestedService::IDENT_REQUEST, NodeId::DIAGNOSTIC)
    }

    fn schedule_kind(&mut self, now_ns: u64, turn: usize) -> Option<(Soa, Option<Vec<u8>>)> {
        let count = self.stations.len();
        for n in 1..=count + FURTHER {
            let place = (self.turn.place[turn] + n) % (count + FURTHER);
            if let Some(found) = self.schedule_place(now_ns, PHASE_USES[turn], place) {
                self.turn.place[turn] = place;
                return Some(found);
            }
        }
        None
    }

    fn schedule_place(
        &mut self,
        now_ns: u64,
        kind: PhaseUse,
        place: usize,
    ) -> Option<(Soa, Option<Vec<u8>>)> {
        let Some(station) = self.stations.get_mut(place) else {
            return self.schedule_further(kind, place - self.stations.len());
        };
        let node = station.node;
        match kind {
            PhaseUse::Own => {
                let outgoing = station.frames.pop_front()?;
                let frame = self.asnd(node, Service::Sdo(outgoing.sdo()));
                Some((self.soa(RequestedService::UNSPECIFIED_INVITE, NodeId::MN), Some(frame)))
            }
            PhaseUse::Request => {
                let SendRequest { priority, pending } = station.request;
                if pending == 0 {
                    return None;
                }
                station.request.pending -= 1;
                let service = match priority {
                    Priority::NMT_REQUEST => RequestedService::NMT_REQUEST_INVITE,
                    _ => RequestedService::UNSPECIFIED_INVITE,
                };
                Some((self.soa(service, node), None))
            }
            PhaseUse::Status => {
                let due = station.needs_status() && station.status_after_ns <= now_ns;
                let exception_acknowledge = station.acknowledged;
                let exception_reset = station.signaling == Signaling::Raise;
                let soa = self.soa(RequestedService::STATUS_REQUEST, node);
                due.then_some((Soa { exception_reset, exception_acknowledge, ..soa }, None))
            }
            PhaseUse::Ident => {
                let due = core::mem::take(&mut station.ident_due);
                (due || station.step == Step::Identify)
                    .then(|| (self.soa(RequestedService::IDENT_REQUEST, node), None))
            }
        }
    }

    /// Invites of a diagnostic device; frames of other protocols and of the SDO server of this
    /// node, in turn.
    fn schedule_further(
        &mut self,
        kind: PhaseUse,
        further: usize,
    ) -> Option<(Soa, Option<Vec<u8>>)> {
        let frame = match (kind, further) {
            (PhaseUse::Request, 0) => {
                let pending = &mut self.server.diagnostic.pending;
                *pending = pending.checked_sub(1)?;
                let invite = RequestedService::UNSPECIFIED_INVITE;
                return Some((self.soa(invite, NodeId::DIAGNOSTIC), None));
            }
            (PhaseUse::Own, 0) => self.take_other()?,
            (PhaseUse::Own, 1) => {
                let (node, outgoing) = self.server.take_frame()?;
                self.asnd(node, Service::Sdo(outgoing.sdo()))
            }
            _ => return None,
        };
        Some((self.soa(RequestedService::UNSPECIFIED_INVITE, NodeId::MN), Some(frame)))
    }

    fn soa(&self, service: RequestedService, target: NodeId) -> Soa {
        Soa {
            state: self.state.code(),
            exception_acknowledge: false,
            exception_reset: false,
            service,
            target,
            version: EplVersion::V2,
            redundancy: 0,
        }
    }

    /// How long a node that was commanded to change its state receives no request: five of its cycles.
    pub(super) fn settle_ns(&self, place: usize) -> u64 {
        5 * self.cycle_ns * self.stations[place].settings.period
    }
}

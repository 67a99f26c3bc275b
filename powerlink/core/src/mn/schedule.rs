//! Who gets the asynchronous phase (EPSG DS 301, 4.2.4.6).

use alloc::vec::Vec;

use onbeat_wire::powerlink::{
    EplVersion, NmtCommand, NmtCommandId, NodeId, Priority, RequestedService, SendRequest, Service,
    Soa,
};

use super::station::Signalling;
use super::{ManagingNode, Step};

/// What phases are given to, in turn; in each, nodes take turns as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A node that is asked for its status.
    Status,
    /// A node that has something to send.
    Request,
    /// An SDO frame of this node, or one of another protocol.
    Own,
    /// A node that is asked who it is.
    Ident,
}

const KINDS: [Kind; 4] = [Kind::Own, Kind::Request, Kind::Status, Kind::Ident];

/// Whose turn is next.
#[derive(Debug, Default)]
pub(super) struct Turn {
    kind: usize,
    /// By kind.
    place: [usize; KINDS.len()],
}

impl ManagingNode {
    /// What the next SoA says, and the frame of this node behind it.
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
        for n in 0..KINDS.len() {
            let turn = (self.turn.kind + n) % KINDS.len();
            if let Some(found) = self.schedule_kind(now_ns, turn) {
                self.turn.kind = (turn + 1) % KINDS.len();
                if KINDS[turn] == Kind::Status {
                    let place = self.turn.place[turn];
                    self.begin_limit(now_ns, place);
                    self.status_asked = Some(place);
                }
                return found;
            }
        }
        (self.soa(RequestedService::NO_SERVICE, NodeId::NONE), None)
    }

    fn schedule_kind(&mut self, now_ns: u64, turn: usize) -> Option<(Soa, Option<Vec<u8>>)> {
        let count = self.stations.len();
        // One place more, for what is of no station.
        for n in 1..=count + 1 {
            let place = (self.turn.place[turn] + n) % (count + 1);
            if let Some(found) = self.schedule_place(now_ns, KINDS[turn], place) {
                self.turn.place[turn] = place;
                return Some(found);
            }
        }
        None
    }

    fn schedule_place(
        &mut self,
        now_ns: u64,
        kind: Kind,
        place: usize,
    ) -> Option<(Soa, Option<Vec<u8>>)> {
        let Some(station) = self.stations.get_mut(place) else {
            return self.schedule_further(kind);
        };
        let node = station.node;
        match kind {
            Kind::Own => {
                let outgoing = station.frames.pop_front()?;
                let frame = self.asnd(node, Service::Sdo(outgoing.sdo()));
                Some((self.soa(RequestedService::UNSPECIFIED_INVITE, NodeId::MN), Some(frame)))
            }
            Kind::Request => {
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
            Kind::Status => {
                let due = station.needs_status() && station.status_after_ns <= now_ns;
                let exception_acknowledge = station.acknowledged;
                let exception_reset = station.signalling == Signalling::Raise;
                let soa = self.soa(RequestedService::STATUS_REQUEST, node);
                due.then_some((Soa { exception_reset, exception_acknowledge, ..soa }, None))
            }
            Kind::Ident => {
                let due = core::mem::take(&mut station.ident_due);
                (due || station.step == Step::Identify)
                    .then(|| (self.soa(RequestedService::IDENT_REQUEST, node), None))
            }
        }
    }

    /// A diagnostic device is asked who it is as well; and frames of other protocols are this node's.
    fn schedule_further(&mut self, kind: Kind) -> Option<(Soa, Option<Vec<u8>>)> {
        match kind {
            Kind::Ident => {
                Some((self.soa(RequestedService::IDENT_REQUEST, NodeId::DIAGNOSTIC), None))
            }
            Kind::Own => {
                let frame = self.take_other()?;
                Some((self.soa(RequestedService::UNSPECIFIED_INVITE, NodeId::MN), Some(frame)))
            }
            Kind::Request | Kind::Status => None,
        }
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

    /// How long a node is left alone that was told to change its state: it takes five of its cycles.
    pub(super) fn settle_ns(&self, place: usize) -> u64 {
        5 * self.cycle_ns * self.stations[place].settings.period
    }
}

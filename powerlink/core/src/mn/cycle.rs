//! The cycles: reduced, of asynchronous phases only, and isochronous (EPSG DS 301, 4.2.4).

use alloc::vec::Vec;

use onbeat_wire::MacAddress;
use onbeat_wire::powerlink::{
    Body, Links, Message, NetTime, NodeId, Preq, RequestedService, Service, Soc, multicast,
};

use super::station::Station;
use super::{Event, Failure, ManagingNode, Phase};
use crate::dll::Counter;
use crate::frame;
use crate::nmt::State;
use crate::od::{Dictionary, profile};

/// Octets of a poll before its payload.
const POLL_HEADER: usize = 10;
/// The gap between two frames at 100 Mbit/s, about the default of 0x1F8A/1.
const GAP_NS: u64 = 1000;

/// Parameters of the cycle as of the last start of the network: a written one does not change the running cycle.
#[derive(Debug, Clone, Copy)]
pub(super) struct CycleTiming {
    wait_soc_preq_ns: u64,
    async_slot_ns: u64,
    prescaler: u64,
    suspended_cycles: u64,
}

impl CycleTiming {
    pub(super) fn new(od: &Dictionary) -> Self {
        CycleTiming {
            wait_soc_preq_ns: od.number(profile::WAIT_SOC_PREQ_NS),
            async_slot_ns: od.number(profile::ASYNC_SLOT_NS).max(1),
            prescaler: od.number(profile::PRESCALER),
            suspended_cycles: od.number(profile::CYCLE_SUSPEND),
        }
    }
}

impl ManagingNode {
    /// Starts the next reduced cycle, or leaves the reduced cycles.
    pub(super) fn reduced_cycle(&mut self, now_ns: u64) {
        self.boot(now_ns);
        if self.state != State::PreOperational1 {
            return;
        }
        let target = self.send_soa(now_ns);
        self.phase = Phase::Reduced { target };
        self.timer_ns = now_ns + self.timing.async_slot_ns;
    }

    /// Starts the next isochronous cycle.
    pub(super) fn isochronous_cycle(&mut self, now_ns: u64) {
        let buffer = self.out.buffer();
        let soc = self.soc(now_ns, buffer);
        self.out.push(soc);
        self.cycle_started(now_ns);
    }

    /// The SoC of the next cycle, at this time.
    pub(super) fn soc(&self, at_ns: u64, buffer: Vec<u8>) -> Vec<u8> {
        let prescaler = self.timing.prescaler;
        let multiplexed = self.multiplexed_cycles;
        let soc = Soc {
            // MC toggles with the first SoC after each multiplexed cycle.
            multiplexed_cycle_completed: multiplexed != 0 && self.cycles / multiplexed % 2 == 1,
            prescaled_slot: prescaler != 0 && self.cycles / prescaler % 2 == 1,
            net_time: self.net_time(at_ns),
            relative_time_us: (self.cycles * self.cycle_ns) / 1000,
        };
        let body = Body::Soc(soc);
        let message = Message { destination: NodeId::BROADCAST, source: NodeId::MN, body };
        frame::build_in(buffer, multicast::SOC, self.mac, &message, 0)
    }

    /// Handles the transmission of SoC.
    pub(super) fn cycle_started(&mut self, now_ns: u64) {
        self.multiplexed_cycle = self.cycles % self.multiplexed_cycles.max(1);
        self.events.push_back(Event::Cycle);
        self.cycles += 1;
        self.soc_ns += self.cycle_ns;
        match self.timing.wait_soc_preq_ns {
            // The gap between two frames.
            0..=GAP_NS => self.poll_from(now_ns, 0),
            wait_ns => (self.phase, self.timer_ns) = (Phase::FirstPoll, now_ns + wait_ns),
        }
    }

    /// Polls the next node, starting at a station index, or ends the isochronous phase.
    pub(super) fn poll_from(&mut self, now_ns: u64, place: usize) {
        if !self.state.is_polled() {
            // A mandatory node was lost, and the reduced cycle has started.
            return;
        }
        let cycle = self.multiplexed_cycle;
        let is_due = |station: &Station| station.polled && station.settings.has_slot(cycle);
        let next = self.stations.iter().skip(place).position(is_due);
        let Some(next) = next.map(|next| next + place) else {
            return self.asynchronous_phase(now_ns);
        };
        let station = &self.stations[next];
        let mut payload = core::mem::take(&mut self.payload);
        station.tpdo.transmit(&self.od, &mut payload);
        let preq = Preq {
            multiplexed_slot: station.settings.slot != 0,
            exception_acknowledge: station.acknowledged,
            ready: self.state == State::Operational,
            links: Links::default(),
            pdo_version: station.tpdo.version,
            payload: &payload,
        };
        self.stations[next].may_be_late = false;
        let station = &self.stations[next];
        let (node, limit) = (station.node, station.settings.preq_limit);
        let mac = station.mac.unwrap_or(MacAddress::BROADCAST);
        self.phase = Phase::Poll { station: next };
        self.timer_ns = now_ns + station.settings.pres_timeout_ns.max(1);
        self.send(mac, node, Body::Preq(preq), POLL_HEADER + limit);
        self.payload = payload;
    }

    /// Handles a node that did not answer its poll in time.
    pub(super) fn pres_lost(&mut self, now_ns: u64, place: usize) {
        let node = self.stations[place].node;
        self.stations[place].good_polls = 0;
        self.stations[place].may_be_late = true;
        self.events.push_back(Event::LostPres(node));
        if Counter::loss_of_pres(node).error(&mut self.od) {
            self.fail(now_ns, place, Failure::LossOfPres);
        }
    }

    fn asynchronous_phase(&mut self, now_ns: u64) {
        self.boot(now_ns);
        if self.state == State::PreOperational1 {
            return;
        }
        self.send_soa(now_ns);
        self.events.push_back(Event::Exchanged);
        let exceeded = Counter::record(profile::CYCLE_EXCEEDED);
        if now_ns > self.soc_ns {
            let missed = (now_ns - self.soc_ns).div_ceil(self.cycle_ns.max(1));
            let missed = missed.max(self.timing.suspended_cycles);
            self.soc_ns += missed * self.cycle_ns;
            self.skipped_cycles += missed;
            // The next cycle starts later; if this happens too often, the network restarts.
            self.cycle_failed = exceeded.error(&mut self.od);
            self.events.push_back(Event::CycleExceeded);
        } else {
            exceeded.good(&mut self.od);
        }
        if self.cycle_failed {
            // The present owner of the asynchronous phase is not disturbed.
            (self.phase, self.timer_ns) = (Phase::Soc, self.soc_ns);
        } else {
            self.await_cycle();
        }
    }

    /// Sends the SoA, and the frame of this node in the phase; returns the node that may send in it.
    fn send_soa(&mut self, now_ns: u64) -> NodeId {
        let (soa, own) = self.schedule(now_ns);
        let target = soa.target;
        self.send(multicast::SOA, NodeId::BROADCAST, Body::Soa(soa), 0);
        self.out.extend(own);
        match soa.service {
            RequestedService::NO_SERVICE => NodeId::NONE,
            _ => target,
        }
    }

    pub(super) fn net_time(&self, now_ns: u64) -> NetTime {
        let (start, then_ns) = self.clock;
        let ns = u64::from(start.nanoseconds) + (now_ns - then_ns);
        // 32 bits of seconds overflow in 2106.
        let seconds = start.seconds.wrapping_add((ns / 1_000_000_000) as u32);
        NetTime { seconds, nanoseconds: (ns % 1_000_000_000) as u32 }
    }

    pub(super) fn asnd(&self, destination: NodeId, service: Service<'_>) -> Vec<u8> {
        let message = Message { destination, source: NodeId::MN, body: Body::Asnd(service) };
        frame::build(multicast::ASND, self.mac, &message, 0)
    }

    fn send(&mut self, to: MacAddress, destination: NodeId, body: Body<'_>, len: usize) {
        let message = Message { destination, source: NodeId::MN, body };
        let frame = frame::build_in(self.out.buffer(), to, self.mac, &message, len);
        self.out.push(frame);
    }
}

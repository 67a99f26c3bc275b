//! A hub and the nodes on it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use onbeat_wire::MacAddress;

use crate::Node;
use onbeat_wire::random::Random;

/// Octets around a frame on the medium: preamble, FCS, and interframe gap.
const OVERHEAD: u64 = 8 + 4 + 12;

/// Properties of the medium and the nodes.
#[derive(Debug, Clone, Copy)]
pub struct Conditions {
    /// Time from the end of a frame's transmission to its reception, in nanoseconds.
    pub delay_ns: u64,
    /// Time of a bit, in nanoseconds: 10 for 100 Mbit/s.
    pub bit_ns: u64,
    /// Time from the reception of a frame to the start of its response, in nanoseconds.
    pub response_ns: u64,
    /// Maximum random addition to that.
    pub jitter_ns: u64,
    /// Lost receptions per million.
    pub loss_per_million: u32,
}

impl Conditions {
    /// 100 Mbit/s, a microsecond of cable and hub, nodes that respond within 2 to 3 microseconds, and no
    /// losses.
    pub const CLEAN: Conditions = Conditions {
        delay_ns: 1_000,
        bit_ns: 10,
        response_ns: 2_000,
        jitter_ns: 1_000,
        loss_per_million: 0,
    };
}

/// A node and its connection to the bus.
pub struct Station<N> {
    /// The node.
    pub node: N,
    /// The address at which it receives frames, besides groups.
    pub mac: MacAddress,
    /// Whether its cable is connected.
    pub connected: bool,
    /// When its transmitter is idle again.
    free_ns: u64,
    /// Its deadline after its last call.
    deadline_ns: u64,
}

/// No deadline.
const NEVER: u64 = u64::MAX;

struct Arrival {
    at_ns: u64,
    order: u64,
    /// The receiving station, or the sender that all others receive from.
    from: usize,
    frame: Rc<[u8]>,
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Self) -> bool {
        (self.at_ns, self.order) == (other.at_ns, other.order)
    }
}

impl Eq for Arrival {}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

/// Nodes on a hub. All others receive the frames of each, independently lost or not.
pub struct Bus<N> {
    /// The nodes.
    pub stations: Vec<Station<N>>,
    /// Present properties of the medium.
    pub conditions: Conditions,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    random: Random,
    now_ns: u64,
    order: u64,
    frames: u64,
    lost: u64,
}

impl<N: Node> Bus<N> {
    /// A bus without nodes.
    pub fn new(seed: u64, conditions: Conditions) -> Self {
        Bus {
            stations: Vec::new(),
            conditions,
            arrivals: BinaryHeap::new(),
            random: Random::new(seed),
            now_ns: 0,
            order: 0,
            frames: 0,
            lost: 0,
        }
    }

    /// Adds a connected node; returns its index.
    pub fn add(&mut self, mac: MacAddress, node: N) -> usize {
        self.stations.push(Station { node, mac, connected: true, free_ns: 0, deadline_ns: NEVER });
        self.stations.len() - 1
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Frames that were on the bus.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Lost receptions, by [`Conditions::loss_per_million`].
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads the frames and deadlines of all nodes.
    fn look(&mut self) {
        (0..self.stations.len()).for_each(|place| self.transmit(place, 0));
    }

    /// Runs to a time; `observe` receives each frame on the bus, with the time of its reception.
    pub fn run_until(&mut self, end_ns: u64, mut observe: impl FnMut(u64, &[u8])) {
        self.look();
        loop {
            let arrival = self.arrivals.peek().map(|Reverse(arrival)| arrival.at_ns);
            let arrival = arrival.unwrap_or(NEVER);
            let deadlines = self.stations.iter().map(|station| station.deadline_ns).zip(0..);
            let (deadline, place) = deadlines.min().unwrap_or((NEVER, 0));
            let next = arrival.min(deadline);
            if next > end_ns || next == NEVER {
                break;
            }
            self.now_ns = self.now_ns.max(next);
            if deadline < arrival {
                self.stations[place].node.handle_deadline(self.now_ns);
                self.transmit(place, 0);
            } else {
                self.arrive(&mut observe);
            }
        }
        self.now_ns = self.now_ns.max(end_ns);
    }

    fn arrive(&mut self, observe: &mut impl FnMut(u64, &[u8])) {
        let Some(Reverse(arrival)) = self.arrivals.pop() else { return };
        let Arrival { from, frame, .. } = arrival;
        self.frames += 1;
        observe(self.now_ns, &frame);
        let to = MacAddress(std::array::from_fn(|n| frame[n]));
        for place in 0..self.stations.len() {
            let station = &mut self.stations[place];
            let wanted = place != from && station.connected;
            if !wanted || !(to.is_multicast() || to == station.mac) {
                continue;
            }
            let loss = u64::from(self.conditions.loss_per_million);
            if loss != 0 && self.random.below(1_000_000) < loss {
                self.lost += 1;
                continue;
            }
            station.node.handle_frame(self.now_ns, &frame);
            let Conditions { response_ns, jitter_ns, .. } = self.conditions;
            let response_ns = response_ns + self.random.below(jitter_ns + 1);
            self.transmit(place, response_ns);
        }
    }

    /// Transmits a station's frames, one after the other.
    fn transmit(&mut self, place: usize, after_ns: u64) {
        let Conditions { delay_ns, bit_ns, .. } = self.conditions;
        let station = &mut self.stations[place];
        while let Some(frame) = station.node.poll_transmit() {
            let start_ns = station.free_ns.max(self.now_ns + after_ns);
            station.free_ns = start_ns + (frame.len() as u64 + OVERHEAD) * 8 * bit_ns;
            if station.connected {
                self.order += 1;
                let (at_ns, order) = (station.free_ns + delay_ns, self.order);
                let frame = Rc::from(frame);
                self.arrivals.push(Reverse(Arrival { at_ns, order, from: place, frame }));
            }
        }
        station.deadline_ns = station.node.next_deadline_ns().unwrap_or(NEVER);
    }
}

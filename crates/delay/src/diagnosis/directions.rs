//! Which way packets go that both captures hold.

use std::collections::{HashMap, HashSet};

use super::Terms;
use super::pairs::{Common, CommonPacket};
use crate::change::median;
use crate::key::{ends, hop_limit};

/// Packets of a direction that are no coincidence.
const FEWEST: usize = 3;
/// The share of a sender's packets that go one way, in percent, where the sender is on one side of
/// the hop.
const CONSISTENT_PERCENT: usize = 90;
/// The share of packets that decides what all of them do, in percent.
const NEARLY_ALL_PERCENT: usize = 95;

/// What packets in common show of their direction.
#[derive(Debug, Default)]
pub(super) struct Directions {
    /// Packets that go from arrivals to departures.
    pub(super) forward: usize,
    /// Packets that go the other way.
    pub(super) backward: usize,
    /// The senders of the latter, in the capture of arrivals and in that of departures.
    pub(super) excluded: (HashSet<u64>, HashSet<u64>),
    /// The median of departure less arrival, in nanoseconds, of packets that go forward, or of all
    /// where all go backward.
    pub(super) median_ns: f64,
    packets: usize,
    consistent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

impl Directions {
    pub(super) fn of(common: &Common<'_>, terms: &Terms) -> Self {
        let by_hop_limit: Vec<Option<Way>> = common.packets.iter().map(routed).collect();
        let routed = by_hop_limit.iter().flatten().count();
        // A router shows the way of every packet. Where none does, by one clock, time does.
        let is_routed = 2 * routed >= common.packets.len();
        let ways: Vec<Option<Way>> = match is_routed {
            true => by_hop_limit,
            false if terms.two_clocks => vec![None; common.packets.len()],
            false => common.packets.iter().map(|one| by_time(one, terms)).collect(),
        };
        let number = |way| ways.iter().filter(|found| **found == Some(way)).count();
        let (forward, backward) = (number(Way::Forward), number(Way::Backward));
        let packets = common.packets.len();
        let mut directions = Directions { forward, backward, packets, ..Self::default() };
        let other_way = if directions.are_swapped() { Way::Forward } else { Way::Backward };
        let packets = common.packets.iter().zip(&ways);
        let differences = packets.filter(|(_, way)| **way != Some(other_way));
        let differences = differences.map(|(one, _)| one.difference_ns() as f64).collect();
        directions.median_ns = median(differences).unwrap_or(0.0);
        directions.senders(common, &ways, is_routed);
        directions
    }

    /// Whether nearly all packets go backward.
    pub(super) fn are_swapped(&self) -> bool {
        let directed = self.forward + self.backward;
        2 * directed >= self.packets
            && self.backward * 100 >= directed * NEARLY_ALL_PERCENT
            && directed > 0
    }

    /// Whether packets go both ways, and their senders show which way each goes.
    pub(super) fn are_both(&self) -> bool {
        self.forward >= FEWEST && self.backward >= FEWEST && self.consistent
    }

    fn senders(&mut self, common: &Common<'_>, ways: &[Option<Way>], is_routed: bool) {
        let mut arrivals = Senders::default();
        let mut departures = Senders::default();
        for (one, way) in common.packets.iter().zip(ways) {
            let Some(way) = *way else { continue };
            for (senders, sampled) in
                [(&mut arrivals, one.arrival), (&mut departures, one.departure)]
            {
                if let Some(ends) = ends(&sampled.packet()) {
                    senders.count(ends.source, ends.destination, way);
                }
            }
        }
        // Without a router's word, senders that go backward have to talk to those that go forward.
        self.consistent = [&arrivals, &departures]
            .iter()
            .all(|side| side.are_consistent() && (is_routed || side.answer_each_other()));
        self.excluded = (arrivals.of_way(Way::Backward), departures.of_way(Way::Backward));
    }
}

/// The way by TTL or hop limit, which a router lowers.
fn routed(one: &CommonPacket<'_>) -> Option<Way> {
    let (before, after) = (hop_limit(&one.arrival.packet())?, hop_limit(&one.departure.packet())?);
    match before.cmp(&after) {
        std::cmp::Ordering::Greater => Some(Way::Forward),
        std::cmp::Ordering::Less => Some(Way::Backward),
        std::cmp::Ordering::Equal => None,
    }
}

/// The way by time, within the longest delay.
fn by_time(one: &CommonPacket<'_>, terms: &Terms) -> Option<Way> {
    let difference_ns = one.difference_ns();
    match difference_ns.unsigned_abs() <= terms.longest_ns.unsigned_abs() {
        true if difference_ns > 0 => Some(Way::Forward),
        true if difference_ns < 0 => Some(Way::Backward),
        _ => None,
    }
}

/// Senders of one side, and how many of their packets go which way.
#[derive(Debug, Default)]
struct Senders {
    /// Forward and backward.
    packets: HashMap<u64, [usize; 2]>,
    /// Receivers of packets that go backward.
    receivers: HashMap<u64, usize>,
}

impl Senders {
    fn count(&mut self, source: u64, destination: u64, way: Way) {
        let packets = self.packets.entry(source).or_default();
        packets[usize::from(way == Way::Backward)] += 1;
        if way == Way::Backward {
            *self.receivers.entry(destination).or_default() += 1;
        }
    }

    fn of_way(&self, way: Way) -> HashSet<u64> {
        let most = |packets: &[usize; 2]| match packets[1] > packets[0] {
            true => Way::Backward,
            false => Way::Forward,
        };
        let senders = self.packets.iter().filter(|(_, packets)| most(packets) == way);
        senders.map(|(sender, _)| *sender).collect()
    }

    fn are_consistent(&self) -> bool {
        let agreeing: usize = self.packets.values().map(|[one, other]| one.max(other)).sum();
        let all: usize = self.packets.values().flatten().sum();
        100 * agreeing >= CONSISTENT_PERCENT * all
    }

    fn answer_each_other(&self) -> bool {
        let forward = self.of_way(Way::Forward);
        let all: usize = self.receivers.values().sum();
        let answering = self.receivers.iter().filter(|(receiver, _)| forward.contains(receiver));
        2 * answering.map(|(_, packets)| packets).sum::<usize>() >= all
    }
}

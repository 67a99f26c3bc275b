//! The direction of packets in both captures.

use std::collections::{HashMap, HashSet};

use super::MatchingOptions;
use super::pairs::{CommonPacket, CommonPackets};
use crate::change::median;
use crate::key::{endpoints, hop_limit};

/// Minimum number of packets of a direction that is no coincidence.
const FEWEST: usize = 3;
/// The share of a sender's packets in one direction, in percent, if it is on one side of the hop.
const CONSISTENT_PERCENT: usize = 90;
/// The share of packets that determines the classification of all, in percent.
const NEARLY_ALL_PERCENT: usize = 95;

/// The directions of common packets.
#[derive(Debug, Default)]
pub(super) struct Directions {
    /// Packets that go from arrivals to departures.
    pub(super) forward: usize,
    /// Packets that go from departures to arrivals.
    pub(super) backward: usize,
    /// The senders of backward packets, in the capture of arrivals and in that of departures.
    pub(super) excluded: (HashSet<u64>, HashSet<u64>),
    /// The median of departure less arrival, in nanoseconds, of forward packets, or of all if all go backward.
    pub(super) median_ns: f64,
    packets: usize,
    consistent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketDirection {
    Forward,
    Backward,
}

impl Directions {
    pub(super) fn of(common: &CommonPackets<'_>, matching: &MatchingOptions) -> Self {
        let by_hop_limit: Vec<Option<PacketDirection>> =
            common.packets.iter().map(|one| routed(one).filter(|_| !common.replies)).collect();
        let routed = by_hop_limit.iter().flatten().count();
        // A router reveals the direction of every packet. Without one, time does, if one clock stamps both.
        let is_routed = 2 * routed >= common.packets.len();
        let per_packet: Vec<Option<PacketDirection>> = match is_routed {
            true => by_hop_limit,
            false if matching.two_clocks => vec![None; common.packets.len()],
            false => common.packets.iter().map(|one| by_time(one, matching)).collect(),
        };
        let number =
            |direction| per_packet.iter().filter(|found| **found == Some(direction)).count();
        let (forward, backward) =
            (number(PacketDirection::Forward), number(PacketDirection::Backward));
        let packets = common.packets.len();
        let mut directions = Directions { forward, backward, packets, ..Self::default() };
        let other_direction = if directions.are_swapped() {
            PacketDirection::Forward
        } else {
            PacketDirection::Backward
        };
        let packets = common.packets.iter().zip(&per_packet);
        let differences = packets.filter(|(_, direction)| **direction != Some(other_direction));
        let differences = differences.map(|(one, _)| one.difference_ns() as f64).collect();
        directions.median_ns = median(differences).unwrap_or(0.0);
        directions.senders(common, &per_packet, is_routed);
        directions
    }

    /// Returns true if nearly all packets go backward.
    pub(super) fn are_swapped(&self) -> bool {
        let directed = self.forward + self.backward;
        2 * directed >= self.packets
            && self.backward * 100 >= directed * NEARLY_ALL_PERCENT
            && directed > 0
    }

    /// Returns true if packets go in both directions, and their senders distinguish the directions.
    pub(super) fn are_both(&self) -> bool {
        self.forward >= FEWEST && self.backward >= FEWEST && self.consistent
    }

    fn senders(
        &mut self,
        common: &CommonPackets<'_>,
        per_packet: &[Option<PacketDirection>],
        is_routed: bool,
    ) {
        let mut arrivals = Senders::default();
        let mut departures = Senders::default();
        for (one, direction) in common.packets.iter().zip(per_packet) {
            let Some(direction) = *direction else { continue };
            for (senders, sampled) in
                [(&mut arrivals, one.arrival), (&mut departures, one.departure)]
            {
                if let Some(ends) = endpoints(&sampled.packet()) {
                    senders.count(ends.source, ends.destination, direction);
                }
            }
        }
        // By time alone, backward packets must go to senders of forward packets.
        self.consistent = [&arrivals, &departures]
            .iter()
            .all(|side| side.are_consistent() && (is_routed || side.answer_each_other()));
        self.excluded = (
            arrivals.with_direction(PacketDirection::Backward),
            departures.with_direction(PacketDirection::Backward),
        );
    }
}

/// The direction by TTL or hop limit, which a router decrements.
fn routed(one: &CommonPacket<'_>) -> Option<PacketDirection> {
    let (before, after) = (hop_limit(&one.arrival.packet())?, hop_limit(&one.departure.packet())?);
    match before.cmp(&after) {
        std::cmp::Ordering::Greater => Some(PacketDirection::Forward),
        std::cmp::Ordering::Less => Some(PacketDirection::Backward),
        std::cmp::Ordering::Equal => None,
    }
}

/// The direction by time, within the longest delay.
fn by_time(one: &CommonPacket<'_>, matching: &MatchingOptions) -> Option<PacketDirection> {
    let difference_ns = one.difference_ns();
    match difference_ns.unsigned_abs() <= matching.longest_ns.unsigned_abs() {
        true if difference_ns > 0 => Some(PacketDirection::Forward),
        true if difference_ns < 0 => Some(PacketDirection::Backward),
        _ => None,
    }
}

/// Senders of one side, and the number of their packets in each direction.
#[derive(Debug, Default)]
struct Senders {
    /// Forward and backward.
    packets: HashMap<u64, [usize; 2]>,
    /// Receivers of backward packets.
    receivers: HashMap<u64, usize>,
}

impl Senders {
    fn count(&mut self, source: u64, destination: u64, direction: PacketDirection) {
        let packets = self.packets.entry(source).or_default();
        packets[usize::from(direction == PacketDirection::Backward)] += 1;
        if direction == PacketDirection::Backward {
            *self.receivers.entry(destination).or_default() += 1;
        }
    }

    fn with_direction(&self, direction: PacketDirection) -> HashSet<u64> {
        let most = |packets: &[usize; 2]| match packets[1] > packets[0] {
            true => PacketDirection::Backward,
            false => PacketDirection::Forward,
        };
        let senders = self.packets.iter().filter(|(_, packets)| most(packets) == direction);
        senders.map(|(sender, _)| *sender).collect()
    }

    fn are_consistent(&self) -> bool {
        let agreeing: usize = self.packets.values().map(|[one, other]| one.max(other)).sum();
        let all: usize = self.packets.values().flatten().sum();
        100 * agreeing >= CONSISTENT_PERCENT * all
    }

    fn answer_each_other(&self) -> bool {
        let forward = self.with_direction(PacketDirection::Forward);
        let all: usize = self.receivers.values().sum();
        let answering = self.receivers.iter().filter(|(receiver, _)| forward.contains(receiver));
        2 * answering.map(|(_, packets)| packets).sum::<usize>() >= all
    }
}

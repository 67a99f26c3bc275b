//! A network of PRP nodes and its streams, drawn from a seed.
//!
//! ```text
//!     red0 == n0 ----- LAN A (bridges) ----- n1 == station
//!               \                            / \
//!                `---- LAN B (bridges) -----'   `== station
//!                         |
//!                      station without redundancy
//! ```

use onbeat_wire::random::Random;

use super::Defect;
use super::judge::{Attachment, Destination, Lan};

/// Maximum number of frames per second that enter or leave nodes, all streams together: the capacity of nodes in user space,
/// wires and captures on a small machine.
const BUDGET: u64 = 12_000;
/// Minimum number of frames per second of a stream.
const SLOWEST: u64 = 20;

/// Octets of the longest frame of a station: with a trailer, it fits into the MTU of every interface.
pub(super) const LONGEST: usize = 1500;
/// Octets of the shortest frame: less than the minimum of Ethernet, as on a virtual link.
pub(super) const SHORTEST: usize = 14 + 4 + crate::traffic::STAMP_LEN;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Number of bridges of each LAN, in a row.
    pub(super) bridges: [usize; 2],
    pub(super) nodes: Vec<Node>,
    pub(super) stations: Vec<Station>,
    pub(super) streams: Vec<Stream>,
    /// Duration of the traffic.
    pub(super) life_ms: u64,
    pub(super) defect: Option<Defect>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    /// A RedBox with stations behind it; else a host with a redundant interface.
    pub(super) is_redbox: bool,
    /// Its data plane is XDP, unless the run has a back end for all nodes; else packet sockets.
    pub(super) in_kernel: bool,
    /// Its bridge in each LAN.
    pub(super) bridges: [usize; 2],
}

/// A sender and receiver of frames.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Station {
    /// Its namespace: that of its node if it is the host itself.
    pub(super) name: String,
    pub(super) interface: &'static str,
    pub(super) at: Attachment,
    /// Its bridge, if it is attached to a LAN.
    pub(super) bridge: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    /// Number of its station.
    pub(super) from: usize,
    pub(super) to: Destination,
    pub(super) vlan: Option<u16>,
    /// Sizes of its frames, in turn.
    pub(super) sizes: Vec<usize>,
    /// Frames per second.
    pub(super) rate: u64,
}

impl Plan {
    /// Draws the network of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        // Of its own: a seed yields the same network for each data plane.
        let planes = &mut Random::new(seed ^ 0xda7a);
        let mut below = |bound: u64| random.below(bound) as usize;
        let bridges = [1 + below(3), 1 + below(3)];
        let count = 2 + below(3);
        let (mut nodes, mut stations) = (Vec::new(), Vec::new());
        for number in 0..count {
            let name = format!("n{number}");
            // The first two are of each kind.
            let is_redbox = if number < 2 { number == 1 } else { below(2) == 0 };
            let behind = if is_redbox { 1 + below(3) } else { 1 };
            for station in 0..behind {
                let (name, interface) = match is_redbox {
                    true => (format!("{name}s{station}"), "eth0"),
                    false => (name.clone(), "red0"),
                };
                stations.push(Station { name, interface, at: Attachment::Node(number), bridge: 0 });
            }
            let bridges = [below(bridges[0] as u64), below(bridges[1] as u64)];
            nodes.push(Node { name, is_redbox, in_kernel: planes.chance(0.5), bridges });
        }
        for lan in Lan::BOTH {
            for number in 0..below(3) {
                let bridge = below(bridges[lan as usize] as u64);
                let name = format!("{}{number}", lan.letter());
                stations.push(Station {
                    name,
                    interface: "eth0",
                    at: Attachment::Lan(lan),
                    bridge,
                });
            }
        }
        let life_ms = 4000 + random.below(4000);
        let mut plan =
            Self { seed, bridges, nodes, stations, streams: Vec::new(), life_ms, defect: None };
        for from in 0..plan.stations.len() {
            for _ in 0..1 + random.below(2) {
                let stream = plan.stream(from, random);
                plan.streams.push(stream);
            }
        }
        plan.keep_to_budget();
        plan
    }

    fn stream(&self, from: usize, random: &mut Random) -> Stream {
        let others: Vec<usize> = (0..self.stations.len()).filter(|other| *other != from).collect();
        let to = match random.below(10) {
            0 | 1 => Destination::Broadcast,
            2 | 3 => Destination::Group(random.below(256) as u8),
            _ => Destination::Station(others[random.below(others.len() as u64) as usize]),
        };
        let vlan = random.chance(0.3).then(|| 2 + random.below(4000) as u16);
        let size = |random: &mut Random| {
            let longest = if random.chance(0.2) { LONGEST } else { 130 };
            SHORTEST + random.below((longest - SHORTEST) as u64 + 1) as usize
        };
        let sizes = (0..1 + random.below(8)).map(|_| size(random)).collect();
        let rate = [50, 100, 250, 500, 1000][random.below(5) as usize];
        Stream { from, to, vlan, sizes, rate }
    }

    /// Stations behind a node.
    pub(super) fn behind(&self, node: usize) -> impl Iterator<Item = (usize, &Station)> {
        let stations = self.stations.iter().enumerate();
        stations.filter(move |(_, station)| station.at == Attachment::Node(node))
    }

    /// Reduces rates until all frames are within the capacity.
    fn keep_to_budget(&mut self) {
        // Each frame enters a node, leaves it twice, and can be flooded to every node on both LANs.
        let of_frame = 3 + 3 * self.nodes.len() as u64;
        let passes = self.streams.iter().map(|stream| stream.rate * of_frame).sum::<u64>();
        if passes > BUDGET {
            for stream in &mut self.streams {
                stream.rate = (stream.rate * BUDGET / passes).max(SLOWEST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_network() {
        assert_eq!(Plan::draw(7), Plan::draw(7));
        assert_ne!(Plan::draw(7), Plan::draw(8));
    }

    #[test]
    fn networks_have_stations_of_each_kind() {
        let (mut single, mut segments, mut in_kernel) = (0, 0, 0);
        for seed in 0..300 {
            let plan = Plan::draw(seed);
            assert!(plan.nodes.iter().any(|node| node.is_redbox));
            assert!(plan.nodes.iter().any(|node| !node.is_redbox));
            assert!(plan.streams.len() >= plan.stations.len());
            in_kernel += plan.nodes.iter().filter(|node| node.in_kernel).count();
            for node in 0..plan.nodes.len() {
                let behind = plan.behind(node).count();
                assert!((1..=3).contains(&behind));
                segments += usize::from(behind > 1);
            }
            let lans = plan.stations.iter().filter(|s| matches!(s.at, Attachment::Lan(_)));
            single += lans.count();
            for stream in &plan.streams {
                assert_ne!(stream.to, Destination::Station(stream.from));
                assert!(stream.rate >= SLOWEST);
                assert!(stream.sizes.iter().all(|size| (SHORTEST..=LONGEST).contains(size)));
            }
        }
        assert!(single > 100 && segments > 50, "{single} {segments}");
        assert!((300..600).contains(&in_kernel), "{in_kernel}");
    }
}

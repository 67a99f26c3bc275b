//! A network and its streams, drawn from a seed.
//!
//! ```text
//!   west --- n0 --- n1 --- ... --- n5 --- east
//! ```
//!
//! Links lead from a node to one with a higher number, so that no route of a stream has a loop: streams
//! to the east follow them upwards, streams to the west downwards. A stream has two to four routes,
//! with or without common links; nodes at which routes meet may eliminate.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use onbeat_wire::MacAddress;

use super::spec::{Egress, FrameHeaders, Function, Recovery};
use onbeat_wire::random::Random;

/// Name of every port to a host.
pub(super) const HOST: &str = "host";

/// Maximum number of frames per second over all links, all streams together: the capacity of a relay in
/// user space and two captures per link on a small machine.
const BUDGET: u64 = 9000;
/// Minimum number of frames per second of a stream.
const SLOWEST: u64 = 20;
const MOST_PORTS: usize = 7;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// Nodes from west to east.
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Link>,
    pub(super) streams: Vec<Stream>,
    /// Duration of the traffic.
    pub(super) life_ms: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) ports: Vec<Port>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Port {
    /// Name of the port and its interface.
    pub(super) name: String,
    pub(super) at: PortPeer,
}

/// Peer of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PortPeer {
    Host,
    Link(usize),
}

/// Link between two nodes, the western one first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) nodes: [usize; 2],
}

/// Stream identification of the nodes (802.1CB clause 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    Null,
    Source,
    Active,
    Ip,
    Mask,
}

impl StreamKind {
    const ALL: [StreamKind; 5] = [
        StreamKind::Null,
        StreamKind::Source,
        StreamKind::Active,
        StreamKind::Ip,
        StreamKind::Mask,
    ];
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    pub(super) name: String,
    pub(super) east: bool,
    pub(super) kind: StreamKind,
    pub(super) source: MacAddress,
    pub(super) group: Ipv4Addr,
    /// Headers of frames at the talker, and at the listener except for the number.
    pub(super) headers: FrameHeaders,
    /// Headers of frames on each link of its routes.
    pub(super) check_headers: BTreeMap<usize, FrameHeaders>,
    /// The talker numbers the frames itself, starting with this number.
    pub(super) numbered_from: Option<u16>,
    /// Frames per second.
    pub(super) rate: u64,
    /// Octets of a frame at the talker.
    pub(super) size: usize,
    /// Functions by node.
    pub(super) functions: Vec<Option<Function>>,
}

impl Plan {
    /// Draws the network of a seed.
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (nodes, links, routes) = network(&mut random);
        let mut plan = Self { seed, nodes, links, streams: Vec::new(), life_ms: 0 };
        plan.life_ms = 12_000 + random.below(13_000);
        let count = 3 + random.below(4) as usize;
        for number in 0..count {
            let stream = plan.stream(number, &routes, &mut random);
            plan.streams.push(stream);
        }
        plan.keep_to_budget();
        plan
    }

    /// The node and port numbers at an end of a link.
    pub(super) fn port_of(&self, link: usize, end: usize) -> (usize, usize) {
        let node = self.links[link].nodes[end];
        let place = self.nodes[node].ports.iter().position(|port| port.at == PortPeer::Link(link));
        (node, place.expect("a link ends at ports"))
    }

    /// The node that a host is attached to: the first of the west, the last of the east.
    pub(super) fn edge(&self, east: bool) -> usize {
        if east { self.nodes.len() - 1 } else { 0 }
    }

    fn stream(&self, number: usize, routes: &[Vec<usize>], random: &mut Random) -> Stream {
        let id = number as u8;
        let east = random.chance(0.5);
        let kind = StreamKind::ALL[random.below(StreamKind::ALL.len() as u64) as usize];
        let mut count = 2 + random.below(routes.len() as u64 - 1) as usize;
        let first = random.below(routes.len() as u64) as usize;
        let of_routes = |count| -> BTreeSet<usize> {
            (0..count).flat_map(|n| &routes[(first + n) % routes.len()]).copied().collect()
        };
        let talker = self.edge(!east);
        let ways = |taken: &BTreeSet<usize>| {
            taken.iter().filter(|link| self.links[**link].nodes.contains(&talker)).count()
        };
        let mut taken = of_routes(count);
        // Routes may share links; the first two do not.
        while ways(&taken) < 2 {
            count += 1;
            taken = of_routes(count);
        }
        let tagged = kind == StreamKind::Active || random.chance(0.7);
        let vlan = tagged.then_some(100 + 10 * u16::from(id));
        let destination = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x10, id]);
        let numbered_from = random.chance(0.35).then(|| (64_500 + random.below(1036)) as u16);
        let headers = FrameHeaders { destination, vlan, numbered: numbered_from.is_some() };
        let translated = vlan.is_some() && random.chance(0.5);
        let rewritten = MacAddress([0x01, 0x00, 0x5e, 0x00, 0x20, id]);
        let on_link = |link: usize| FrameHeaders {
            destination: if kind == StreamKind::Active { rewritten } else { destination },
            vlan: vlan.map(|vlan| match (kind, translated) {
                (StreamKind::Active, _) => vlan + 1000,
                (_, true) => 1000 + 100 * u16::from(id) + link as u16,
                (_, false) => vlan,
            }),
            numbered: true,
        };
        let check_headers: BTreeMap<usize, FrameHeaders> =
            taken.into_iter().map(|link| (link, on_link(link))).collect();
        let fast = self.nodes.len() <= 3 && random.chance(0.5);
        let rate = if fast { 4000 } else { [100, 250, 500, 1000][random.below(4) as usize] };
        let mut stream = Stream {
            name: format!("s{number}"),
            east,
            kind,
            source: MacAddress([0x02, 0x0c, 0, 0, 0, id]),
            group: Ipv4Addr::new(239, 1, 0, id),
            headers,
            check_headers,
            numbered_from,
            rate,
            size: 100 + random.below(400) as usize,
            functions: Vec::new(),
        };
        stream.functions =
            (0..self.nodes.len()).map(|node| self.function(&stream, node, random)).collect();
        stream
    }

    fn function(&self, stream: &Stream, node: usize, random: &mut Random) -> Option<Function> {
        let first = node == self.edge(!stream.east);
        let last = node == self.edge(stream.east);
        let (mut members, mut egress) = (Vec::new(), Vec::new());
        for (port, leads) in self.nodes[node].ports.iter().enumerate() {
            match leads.at {
                PortPeer::Host if first => members.push(port),
                PortPeer::Host => {
                    let headers = FrameHeaders { numbered: false, ..stream.headers };
                    egress.push(Egress { port, headers });
                }
                PortPeer::Link(link) => {
                    let Some(&headers) = stream.check_headers.get(&link) else { continue };
                    let upwards = self.links[link].nodes[0] == node;
                    if upwards == stream.east {
                        egress.push(Egress { port, headers });
                    } else {
                        members.push(port);
                    }
                }
            }
        }
        if members.is_empty() {
            return None;
        }
        let meets = members.len() > 1;
        let recovers = last || !first && random.chance(if meets { 0.8 } else { 0.15 });
        let recover = recovers.then(|| draw_recover(random));
        let individual = recover.is_some() && random.chance(0.25);
        let individual_ms = individual.then(|| 200 + random.below(2000) as u32);
        let generate = first && stream.numbered_from.is_none();
        Some(Function { members, individual_ms, generate, recover, egress })
    }

    /// Frames per second over links, including those of hosts.
    fn passes(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.rate * (2 + stream.check_headers.len() as u64))
            .sum()
    }

    /// Reduces stream rates until the links carry no more than the capacity.
    fn keep_to_budget(&mut self) {
        let passes = self.passes();
        if passes > BUDGET {
            for stream in &mut self.streams {
                stream.rate = (stream.rate * BUDGET / passes).max(SLOWEST);
            }
        }
    }
}

/// Draws a recovery function of any kind.
pub(super) fn draw_recover(random: &mut Random) -> Recovery {
    const HISTORIES: [u16; 8] = [2, 3, 8, 16, 64, 128, 256, 1024];
    const TIMEOUTS_MS: [u32; 5] = [100, 200, 500, 1000, 2000];
    let vector = random.chance(0.75);
    Recovery {
        history: vector.then(|| HISTORIES[random.below(HISTORIES.len() as u64) as usize]),
        timeout_ms: TIMEOUTS_MS[random.below(TIMEOUTS_MS.len() as u64) as usize],
        take_no_sequence: random.chance(0.2),
    }
}

/// Draws nodes, links, and routes from the first node to the last; each route is a list of links.
fn network(random: &mut Random) -> (Vec<Node>, Vec<Link>, Vec<Vec<usize>>) {
    let count = 2 + random.below(5) as usize;
    let routes = 2 + random.below(3) as usize;
    let last = count - 1;
    let mut links: Vec<Link> = Vec::new();
    let mut taken: Vec<Vec<usize>> = Vec::new();
    for route in 0..routes {
        // Every relay is on at least one route.
        let on = |relay: usize, random: &mut Random| {
            let drawn = random.chance(0.3);
            drawn || relay % routes == route
        };
        let mut stops = vec![0];
        stops.extend((1..last).filter(|relay| on(*relay, random)));
        stops.push(last);
        let mut links_of_route = Vec::new();
        for hop in stops.windows(2) {
            let between = |link: &Link| link.nodes == [hop[0], hop[1]];
            let old = links.iter().rposition(between);
            // The second route has no link in common with the first.
            let ports = |node: usize| links.iter().filter(|l| l.nodes.contains(&node)).count();
            let full = ports(hop[0]).max(ports(hop[1])) >= MOST_PORTS - 1;
            let share = random.chance(0.35) && route > 1 || full;
            let link = old.filter(|_| share).unwrap_or_else(|| {
                let name = format!("l{}", links.len());
                links.push(Link { name, nodes: [hop[0], hop[1]] });
                links.len() - 1
            });
            links_of_route.push(link);
        }
        taken.push(links_of_route);
    }
    let nodes = (0..count).map(|node| {
        let mut ports = Vec::new();
        if node == 0 || node == last {
            ports.push(Port { name: HOST.into(), at: PortPeer::Host });
        }
        let ends_here = links.iter().enumerate().filter(|(_, link)| link.nodes.contains(&node));
        ports.extend(
            ends_here.map(|(at, link)| Port { name: link.name.clone(), at: PortPeer::Link(at) }),
        );
        Node { name: format!("n{node}"), ports }
    });
    (nodes.collect(), links, taken)
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
    fn every_stream_has_a_route_and_is_recovered_at_its_listener() {
        let mut kinds = 0;
        for seed in 0..300 {
            let plan = Plan::draw(seed);
            assert!((2..=6).contains(&plan.nodes.len()));
            assert!(plan.nodes.iter().all(|node| (2..=MOST_PORTS).contains(&node.ports.len())));
            assert!((3..=6).contains(&plan.streams.len()));
            for stream in &plan.streams {
                kinds |= 1 << stream.kind as u8;
                let (first, last) = (plan.edge(!stream.east), plan.edge(stream.east));
                assert!(stream.functions[last].as_ref().unwrap().recover.is_some());
                let talker = stream.functions[first].as_ref().unwrap();
                assert!(talker.egress.len() > 1, "seed {seed}: {stream:?}");
                assert_eq!(talker.generate, stream.numbered_from.is_none());
                for function in stream.functions.iter().flatten() {
                    assert!(!function.egress.is_empty(), "seed {seed}: {stream:?}");
                }
            }
        }
        assert_eq!(kinds, 0b11111);
    }

    #[test]
    fn the_frame_rate_stays_within_the_capacity() {
        for seed in 0..300 {
            let plan = Plan::draw(seed);
            // Slightly more if a stream already has the minimum rate.
            assert!(plan.passes() <= BUDGET * 11 / 10, "{seed}: {}", plan.passes());
            assert!(plan.streams.iter().all(|stream| stream.rate >= SLOWEST), "{seed}");
        }
    }
}

//! Random networks.

use onbeat_wire::MacAddress;

use crate::ladder::RecoverAt;
use crate::network::{End, Group, Host, Link, Network, Node, Port, Stream};

/// Steele's SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// A network of relays with these links, each with its propagation delay.
pub(crate) fn network(nodes: usize, links: &[(usize, usize, u64)]) -> Network {
    let node = |index: usize| Node {
        name: format!("n{index}"),
        host: Some(Host { interface: "tsn0".into(), create: true }),
        relay: true,
        bridge: None,
        forwarding_ns: 0,
        ports: Vec::new(),
    };
    let mut network =
        Network { nodes: (0..nodes).map(node).collect(), load_percent: 75, ..Network::default() };
    for &(a, b, delay_ns) in links {
        let ends = [a, b].map(|node| {
            let ports = &mut network.nodes[node].ports;
            let name = format!("p{}", ports.len());
            ports.push(Port { interface: name.clone(), name, speed_mbps: 1000 });
            End { node: node as u32, port: ports.len() as u32 - 1 }
        });
        let name = format!("l{}", network.links.len());
        network.links.push(Link { name, ends, speed_mbps: 1000, delay_ns, groups: Vec::new() });
    }
    network
}

/// At most this number of listeners, each at another node than the talker.
pub(crate) fn listeners(
    random: &mut Random,
    nodes: usize,
    talker: usize,
    most: usize,
) -> Vec<usize> {
    let mut listeners: Vec<usize> = (0..most).map(|_| random.below(nodes)).collect();
    listeners.sort_unstable();
    listeners.dedup();
    listeners.retain(|listener| *listener != talker);
    listeners
}

/// A connected random network: a random tree and further links, some of them parallel.
pub(crate) fn connected(random: &mut Random, nodes: usize, further: usize) -> Network {
    let mut links = Vec::new();
    for node in 1..nodes {
        links.push((random.below(node), node));
    }
    while links.len() < nodes - 1 + further {
        let (a, b) = (random.below(nodes), random.below(nodes));
        if a != b {
            links.push((a, b));
        }
    }
    let links: Vec<_> =
        links.into_iter().map(|(a, b)| (a, b, 1 + random.below(20) as u64)).collect();
    network(nodes, &links)
}

/// A grid of relays.
pub(crate) fn grid(width: usize, height: usize) -> Network {
    let mut links = Vec::new();
    for node in 0..width * height {
        if node % width + 1 < width {
            links.push((node, node + 1, 500));
        }
        if node + width < width * height {
            links.push((node, node + width, 500));
        }
    }
    network(width * height, &links)
}

/// Adds random groups.
pub(crate) fn add_groups(random: &mut Random, network: &mut Network, groups: usize, size: usize) {
    for number in 0..groups {
        let mut links: Vec<u32> =
            (0..size).map(|_| random.below(network.links.len()) as u32).collect();
        links.sort_unstable();
        links.dedup();
        for link in &links {
            network.links[*link as usize].groups.push(number as u32);
        }
        network.groups.push(Group { name: format!("g{number}"), links });
    }
}

/// A stream with two paths.
pub(crate) fn stream(number: usize, talker: usize, listeners: &[usize]) -> Stream {
    let [.., high, low] = (number as u32).to_be_bytes();
    Stream {
        name: format!("s{number}"),
        talker: talker as u32,
        listeners: listeners.iter().map(|node| *node as u32).collect(),
        address: MacAddress([1, 0, 0x5e, 1, high, low]),
        vlan: None,
        interval_ns: 1_000_000,
        size: 128,
        paths: 2,
        max_delay_ns: None,
        recover_at: RecoverAt::Listeners,
        adds_vlan_tag: false,
    }
}

//! Random networks and their plans.

use std::collections::BTreeMap;

use onbeat_plan::ladder::RecoverAt;
use onbeat_plan::manifest::Manifest;
use onbeat_plan::network::{End, Host, Link, Network, Node, Port, Stream};
use onbeat_plan::node_file;
use onbeat_plan::plan::{Plan, PreviousRoutes};
use onbeat_rollout::change::PlanFiles;
use onbeat_wire::MacAddress;

/// Steele's SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Whether an event with this chance happens.
    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// A ring of nodes with chords, and streams of one or two listeners.
pub(crate) fn random(random: &mut Random, nodes: usize, streams: usize) -> Network {
    let node = |index: usize| Node {
        name: format!("n{index}"),
        host: Some(Host { interface: "tsn0".into(), create: true }),
        relay: true,
        bridge: None,
        forwarding_ns: 1000,
        ports: Vec::new(),
    };
    let mut network = Network {
        nodes: (0..nodes).map(node).collect(),
        load_percent: 75,
        label_vlans: Some([101, 102]),
        ..Network::default()
    };
    let mut links: Vec<(usize, usize)> =
        (0..nodes).map(|node| (node, (node + 1) % nodes)).collect();
    while links.len() < 2 * nodes {
        let (a, b) = (random.below(nodes), random.below(nodes));
        if a != b {
            links.push((a, b));
        }
    }
    for (a, b) in links {
        let ends = [a, b].map(|node| {
            let ports = &mut network.nodes[node].ports;
            let name = format!("p{}", ports.len());
            ports.push(Port { interface: name.clone(), name, speed_mbps: 1000 });
            End { node: node as u32, port: ports.len() as u32 - 1 }
        });
        let delay_ns = random.below(3_000_000) as u64;
        let name = format!("l{}", network.links.len());
        network.links.push(Link { name, ends, speed_mbps: 1000, delay_ns, groups: Vec::new() });
    }
    for number in 0..streams {
        add_stream(random, &mut network, number);
    }
    network
}

/// Adds a stream with a random talker and listeners.
pub(crate) fn add_stream(random: &mut Random, network: &mut Network, number: usize) {
    let nodes = network.nodes.len();
    let talker = random.below(nodes);
    let mut listeners: Vec<u32> =
        (0..1 + random.below(2)).map(|_| random.below(nodes) as u32).collect();
    listeners.sort_unstable();
    listeners.dedup();
    listeners.retain(|listener| *listener != talker as u32);
    if listeners.is_empty() {
        listeners.push(((talker + 1) % nodes) as u32);
    }
    let is_single = listeners.len() == 1;
    let [.., high, low] = (number as u32).to_be_bytes();
    network.streams.push(Stream {
        name: format!("s{number}"),
        talker: talker as u32,
        listeners,
        address: MacAddress([1, 0, 0x5e, 1, high, low]),
        vlan: None,
        interval_ns: 5_000_000,
        size: 128,
        paths: 2,
        max_delay_ns: None,
        // Relays that recover start a segment of their own.
        recover_at: if is_single && number % 3 == 0 {
            RecoverAt::Auto
        } else {
            RecoverAt::Listeners
        },
        adds_vlan_tag: true,
    });
}

/// Makes some links useless, so that other paths are found.
pub(crate) fn disturb(random: &mut Random, network: &mut Network) {
    for link in &mut network.links {
        link.speed_mbps = if random.one_in(5) { 1 } else { 1000 };
    }
}

/// Plans a network beside the plan that runs.
pub(crate) fn plan(
    network: &Network,
    before: Option<&Manifest>,
    number: u64,
) -> (Manifest, PlanFiles) {
    let previous = before.map_or_else(PreviousRoutes::default, |before| before.previous(network));
    let plan = Plan::new(network, &previous);
    let files = node_file::all(network, &plan);
    let manifest = Manifest::new(network, &plan, &files);
    let name = |node: u32| network.nodes[node as usize].name.clone();
    let texts: BTreeMap<String, String> =
        files.into_iter().map(|file| (name(file.node), file.text)).collect();
    (manifest.clone(), PlanFiles::new(number, manifest, texts))
}
